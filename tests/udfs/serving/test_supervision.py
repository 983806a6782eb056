"""An exception in a thread of serving fails its request or replaces its backend; no thread ends silently."""

from __future__ import annotations

import re
import sys
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from http_client import HttpClient
from live_backends import SPEC, running
from numpy_router import NumpyRouter
from places import ROOT
from waiting import until

from udfs.node import SupervisedThread, _supervised_thread
from udfs.rpc import Caller, Endpoint, new_credentials
from udfs.serving import (
    Admission,
    Backend,
    BackendSpec,
    DeadlineTimer,
    FunctionRecipe,
    GroupRecipe,
    ModelFailedError,
    Placed,
    RequestError,
    TensorReader,
)
from udfs.serving._messages import SERVING, Adopt, Answer, Collect, Submit, Unit
from udfs.serving.http import FrontEnd, FrontEndProcesses
from udfs.serving.http._forwarding import Arrays, Ask, Forward, Gather
from udfs.serving.http._router_service import RouterService

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 30.0


def double(arrays: Any) -> Any:
    return {"y": 2 * arrays["x"]}


def rows(value: float = 1.0) -> dict[str, Any]:
    return {"x": np.full((1, 2), value, np.float32)}


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("injected")


@pytest.fixture(autouse=True)
def _short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_supervised_thread, "_PAUSE_S", 0.01)


def test_every_thread_of_serving_is_supervised() -> None:
    places = [*(ROOT / "udfs/serving").rglob("*.py"), *(ROOT / "vista_spark/serving").rglob("*.py")]
    plain = [
        str(place) for place in places if re.search(r"\bThread\(", place.read_text().replace("SupervisedThread(", ""))
    ]
    # The threads of a front-end process end with it.
    assert [place for place in plain if not place.endswith(("_front_end_main.py", "_front_end_processes.py"))] == []


def test_a_loop_without_a_handler_runs_again() -> None:
    rounds: list[int] = []

    def work() -> None:
        rounds.append(1)
        if len(rounds) < 3:
            sys.exit("a user's function may call it")

    thread = SupervisedThread(work, "loop")
    thread.start()
    thread.join(SECONDS)
    assert len(rounds) == 3


@pytest.mark.parametrize("where", ["expired", "settled"])
def test_a_deadline_that_fails_leaves_the_others(where: str) -> None:
    seen: list[int] = []

    def expired(item: int) -> None:
        seen.append(item)
        if item == 0 and where == "expired":
            broken()

    def settled(item: int) -> bool:
        return bool(broken()) if item == 0 and where == "settled" else False

    timer = DeadlineTimer(expired, settled)
    for item in range(3):
        timer.watch(time.monotonic() + 0.01 * item, item)
    until(lambda: seen == [0, 1, 2])
    timer.stop()


def test_a_row_that_cannot_be_sent_fails_alone() -> None:
    with running({"double": double, "other": double}, "a") as server:
        read = Admission.rows

        def as_complex(self: Admission, inputs: Any) -> Any:
            found = read(self, inputs)
            return [{"x": found[0]["x"].astype(complex)}] if found[0]["x"][0] == 7 else found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Admission, "rows", as_complex)
            futures = [server.router.submit("double", rows(value)) for value in (1.0, 7.0, 3.0)]
            assert futures[0].result(SECONDS)["y"][0, 0] == 2.0
            assert futures[2].result(SECONDS)["y"][0, 0] == 6.0
            with pytest.raises(RequestError, match="cannot be sent to a backend"):
                futures[1].result(SECONDS)
        assert server.router.submit("other", rows()).result(SECONDS)["y"][0, 0] == 2.0
        assert server.router.ready
        assert server.lost == []


def unreadable(arrays: Any) -> Any:
    return {3 if arrays["x"][0, 0] == 7 else "y": arrays["x"]}


def test_an_answer_that_cannot_be_read_fails_alone() -> None:
    with (
        running({"names": unreadable, "other": double}, "a", batch=1) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("udfs.serving._outputs._name", lambda key, _: key)
        futures = [server.router.submit("names", rows(value)) for value in (1.0, 7.0, 3.0)]
        others = [server.router.submit("other", rows()) for _ in range(3)]
        with pytest.raises(ModelFailedError, match="outputs cannot be sent"):
            futures[1].result(SECONDS)
        assert [future.result(SECONDS)["y"][0, 0] for future in (futures[0], futures[2])] == [1.0, 3.0]
        assert [future.result(SECONDS)["y"][0, 0] for future in others] == [2.0] * 3
        assert server.lost == []


def test_an_answer_that_cannot_be_delivered_fails_alone() -> None:
    with running({"double": double}, "a") as server, pytest.MonkeyPatch.context() as patch:
        settled = server.router._settle
        patch.setattr(
            server.router, "_settle", lambda unit, answer: broken() if unit.row == 1 else settled(unit, answer)
        )
        two = server.router.submit("double", {"x": np.ones((2, 2), np.float32)})
        with pytest.raises(RequestError, match="ZeroDivisionError: injected"):
            two.result(SECONDS)
        assert server.router.submit("double", rows()).result(SECONDS)["y"][0, 0] == 2.0
        assert server.router.waiting == 0


@pytest.mark.parametrize("loop", ["fill_message", "answered"])
def test_a_failed_thread_of_a_link_loses_its_backend(loop: str) -> None:
    """The rows go to the other backend, and readiness of what has none is false."""
    with running({"double": double}, "a", "b") as server, pytest.MonkeyPatch.context() as patch:
        server.router.route({"double": {"a": 1.0}})
        if loop == "answered":
            patch.setattr(server.links["a"], "_owner", _Owner(server.router))
        else:
            patch.setattr("udfs.serving._link.fill_message", broken)
        first = server.router.submit("double", rows())
        until(lambda: server.lost == ["a"])
        assert not server.router.ready
        assert first.exception(SECONDS) is not None
        patch.undo()
        server.router.route({"double": {"a": 1.0, "b": 1.0}})
        assert server.router.ready
        assert server.router.submit("double", rows()).result(SECONDS)["y"][0, 0] == 2.0


class _Owner:
    def __init__(self, router: Any) -> None:
        self.lost = router.lost

    def answered(self, _answers: Any) -> None:
        broken()


class _Served:
    """A backend in a thread, and the error that ended it."""

    def __init__(self, *, parallel: bool = False) -> None:
        recipe = GroupRecipe("double", {"double": FunctionRecipe(double, TensorReader((SPEC,)))})
        self.backend = Backend({"double": recipe}, BackendSpec(parallel=parallel))
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        self.backend.answer(Adopt((Placed("double", 1, np.array([0.0, 1.0])),)))

    def _serve(self) -> None:
        try:
            self.backend.serve()
        except (RuntimeError, ZeroDivisionError) as error:
            self.error = error

    def ask(self) -> None:
        self.backend.answer(Submit((Unit(1, "double", "double", 60_000.0, "", {"x": np.ones(2, np.float32)}),), ()))


@pytest.mark.parametrize(
    ("method", "parallel"),
    [("unread", False), ("read", False), ("due", False), ("due", True), ("took", False), ("took", True)],
)
def test_a_failed_thread_of_a_backend_ends_it(method: str, parallel: bool) -> None:
    """Its task fails, so that Spark and the server start another one."""
    served = _Served(parallel=parallel)
    setattr(served.backend._scheduler, method, broken)
    served.ask()
    served.thread.join(SECONDS)
    assert not served.thread.is_alive()
    assert served.error is not None
    assert "injected" in f"{served.error} {served.error.__cause__}"


@pytest.mark.parametrize("parallel", [False, True])
def test_a_model_that_calls_exit_fails_its_request(parallel: bool) -> None:
    def leaves(arrays: Any) -> Any:
        return sys.exit("no such file") if arrays["x"][0, 0] == 7 else double(arrays)

    with running({"leaves": leaves, "other": double}, "a", spec=BackendSpec(parallel=parallel)) as server:
        with pytest.raises(ModelFailedError, match="SystemExit: no such file"):
            server.router.submit("leaves", rows(7.0)).result(SECONDS)
        assert server.router.submit("leaves", rows()).result(SECONDS)["y"][0, 0] == 2.0
        assert server.router.submit("other", rows()).result(SECONDS)["y"][0, 0] == 2.0


def test_answers_too_large_for_a_message_are_errors() -> None:
    backend = Backend({})
    backend._outbox.put([Answer(1, "", "", {"y": np.zeros(9 << 20)}), Answer(2, "", "", {"y": np.zeros(2)})])
    with Endpoint("127.0.0.1", credentials := new_credentials(encrypted=False), SERVING, backend.answer) as endpoint:
        caller = Caller(endpoint.location, credentials, SERVING)
        found = caller.call(Collect(0, check=True), timeout_s=SECONDS).answers
        caller.close()
    assert [(answer.number, answer.failure) for answer in found] == [(1, "failed"), (2, "")]
    assert "67,108,864 bytes" in found[0].message


class _Replies(NumpyRouter):
    def submit(self, *_: Any, **__: Any) -> Any:
        future: Future[Any] = Future()
        future.set_result({"y": np.zeros(1), "z": None})
        return future


def test_a_reply_that_cannot_be_encoded_is_an_error_of_its_request() -> None:
    service = RouterService(_Replies())
    service.admit("front")
    ask = Ask(1, "linear", None, 1000.0, Arrays.encode({"x": np.zeros((1, 3), np.float32)}))
    service.answer(Forward("front", (ask,), (), (), ()))
    (reply,) = service.answer(Gather("front", 0, 1)).replies
    assert (reply.number, reply.failure) == (1, "RequestError")


@pytest.fixture
def router() -> Iterator[NumpyRouter]:
    router = NumpyRouter()
    yield router
    router.close()


def test_a_front_end_that_fails_starts_again(router: NumpyRouter) -> None:
    with FrontEnd(router, port=0) as front:
        assert HttpClient(front.port, front.token).get("/v2").status == 200
        failed = front._server
        failed.on_tick = broken  # type: ignore[method-assign]
        until(lambda: front._server is not failed and front._server.started)
        client = HttpClient(front.port, front.token)
        assert client.get("/v2").status == 200
        client.connection.close()


def test_a_front_end_process_that_cannot_start_is_tried_again(
    router: NumpyRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = FrontEndProcesses(router, 1, port=0)
    run, tries = front._run, []

    def sometimes(number: int, name: str) -> int:
        tries.append(name)
        if len(tries) == 1:
            raise OSError(24, "Too many open files")
        return run(number, name)

    monkeypatch.setattr(front, "_run", sometimes)
    with front:
        assert len(tries) == 2
        client = HttpClient(front.port, front.token)
        assert client.get("/v2").status == 200
        client.connection.close()
