"""Front ends in processes: they are killed, their parent is killed, and what they count is counted together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from http_client import HttpClient, infer_body
from places import ROOT
from waiting import until

from optimizer.errors import InvalidArgumentError
from udfs.rpc import Endpoint, RefusedError, new_credentials
from udfs.serving import BadRequestError
from udfs.serving.http import FrontEndProcesses
from udfs.serving.http._forwarding import FORWARDING, Arrays, Contents
from udfs.serving.http._remote_router import RemoteRouter
from udfs.serving.http._router_service import RouterService

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy_router import NumpyRouter

ROW = infer_body("FP32", [1, 3], [[1.0, 2.0, 3.0]])


@pytest.fixture(scope="module")
def two(router: NumpyRouter) -> Iterator[FrontEndProcesses]:
    with FrontEndProcesses(router, 2, port=0) as processes:
        yield processes


def status(client: HttpClient, model: str) -> Any:
    return [one for one in client.get("/status").json["models"] if one["name"] == model][-1]


def results(client: HttpClient, model: str) -> dict[str, int]:
    return dict(status(client, model)["results"])


def test_one_is_killed_and_the_other_answers(two: FrontEndProcesses) -> None:
    """Only what the lost one had is lost; what it counted stays, and it comes back at the same port."""
    before = two.processes
    over, outcomes = threading.Event(), Counter[str]()

    def ask() -> None:
        while not over.is_set():
            client = HttpClient(two.port, two.token)
            try:
                outcomes[str(client.infer("linear", ROW).status)] += 1
            except (OSError, HTTPException):
                outcomes["cut"] += 1
            finally:
                client.connection.close()

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(ask)
        until(lambda: outcomes["200"] > 100)
        os.kill(before[0], signal.SIGKILL)
        answered = outcomes["200"]
        until(lambda: outcomes["200"] > answered + 100)
        until(lambda: len(two.processes) == 2 and before[0] not in two.processes)
        over.set()
    assert set(outcomes) <= {"200", "cut"}
    assert outcomes["cut"] <= 4, "one for each that asked, at most"
    client = HttpClient(two.port, two.token)
    until(lambda: status(client, "linear")["in_flight"] == 0)
    counted = results(client, "linear")
    # An answer may have been written of which the lost one had not told yet.
    assert outcomes["200"] - 50 <= counted["in_time"] <= outcomes["200"] + outcomes["cut"]
    assert before[1] in two.processes


def test_what_both_count_is_one_number(two: FrontEndProcesses) -> None:
    clients = [HttpClient(two.port, two.token) for _ in range(8)]  # each is with one of them
    before = results(clients[0], "echo_int32").get("in_time", 0)
    for client in clients:
        assert client.infer("echo_int32", infer_body("INT32", [1, 1], [1])).status == 200
    # Counts that were not asked for travel a moment later.
    until(lambda: results(clients[0], "echo_int32").get("in_time", 0) == before + 8)
    assert {results(client, "echo_int32")["in_time"] for client in clients} == {before + 8}


def test_a_lost_one_cancels_what_it_asked_for(router: NumpyRouter) -> None:
    router.waiting.clear()
    with FrontEndProcesses(router, 1, port=0) as one, ThreadPoolExecutor(1) as threads:
        body = infer_body("FP32", [1, 3], [[5.0, 0.0, 0.0]], parameters={"timeout": 20_000_000})
        asked = threads.submit(HttpClient(one.port, one.token).infer, "never", body)
        until(lambda: 5.0 in router.waiting)
        os.kill(one.processes[0], signal.SIGKILL)
        until(router.waiting[5.0].cancelled)
        assert asked.exception() is not None
        until(lambda: len(one.processes) == 1)
        client = HttpClient(one.port, one.token)
        assert results(client, "never") == {"disconnected": 1}
        assert status(client, "never")["in_flight"] == 0


PARENT = """
import sys, time
sys.path[:0] = [{root!r}, {support!r}]
from numpy_router import NumpyRouter
from udfs.serving.http import FrontEndProcesses
with FrontEndProcesses(NumpyRouter(), 2, port=0) as processes:
    print(*processes.processes, flush=True)
    time.sleep(600)
"""


def test_they_end_with_a_killed_parent() -> None:
    program = PARENT.format(root=str(ROOT), support=str(ROOT / "tests" / "support"))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        processes = [psutil.Process(int(word)) for word in parent.stdout.readline().split()]
        assert len(processes) == 2
        parent.kill()
    gone, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive
    assert len(gone) == 2


def test_one_that_cannot_start_is_given_up(
    router: NumpyRouter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("udfs.serving.http._front_end_processes._START_S", 30.0)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TimeoutError, match="did not start"):
        FrontEndProcesses(router, 1, port=0).start()
    assert "3 times in a row" in "\n".join(caplog.messages)


def test_counts_that_cannot_be(router: NumpyRouter) -> None:
    for count in (0, -1, 1.5, "2"):
        with pytest.raises(InvalidArgumentError, match="count"):
            FrontEndProcesses(router, count, port=0)  # type: ignore[arg-type]


def test_a_stranger_is_refused(router: NumpyRouter) -> None:
    service, credentials = RouterService(router), new_credentials(encrypted=False)
    with Endpoint("127.0.0.1", credentials, FORWARDING, service.answer) as endpoint:
        with pytest.raises(RefusedError, match="is not a front end of this server"):
            RemoteRouter("stranger", endpoint.location, credentials, lambda: None)
        service.admit("known")
        remote = RemoteRouter("known", endpoint.location, credentials, lambda: None)
        with pytest.raises(BadRequestError, match="bytes, got 60,000,000"):
            remote.submit("linear", {"x": np.zeros((5_000_000, 3), np.float32)})
        found = remote.submit("linear", {"x": np.ones((2, 3), np.float32)}).result(10)
        assert found["y"].tolist() == [-3.0, -3.0]
        remote.close()
        assert not remote.ready


@pytest.mark.parametrize(
    "values",
    [
        np.array(["", "über", "\x00", "\u65e5\u672c"], object),
        np.array([[b"", b"\xff\x00"], [b"a", b"b"]], object),
        np.empty((0, 2), object),
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
    ],
    ids=["texts", "bytes", "none", "fixed texts", "fixed bytes"],
)
def test_texts_and_bytes_travel(values: np.ndarray) -> None:
    found = Contents.encode("x", values).array()
    assert found.shape == values.shape
    assert found.tolist() == values.tolist()


@pytest.mark.parametrize(
    "values",
    [np.array(["a", 1], object), np.array([None, 1.5], object), np.ones(1, np.complex64), np.ones(1, np.longdouble)],
    ids=["mixed", "objects", "complex", "long"],
)
def test_what_does_not_travel(values: np.ndarray) -> None:
    with pytest.raises(TypeError, match="travel"):
        Arrays.encode({"y": values})
