"""Executors that no worker has room for: said at once where the master tells, after a while elsewhere."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from vista_spark.errors import NoExecutorError
from vista_spark.sessions import _executors
from vista_spark.sessions._executors import EXECUTOR_TIMEOUT, await_executor, check_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = "spark://127.0.0.1:7077"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The page of a master with two workers that are alive and a large one that is not."""
    content: dict[str, Any] = {
        "url": URL,
        "workers": [
            {"cores": 4, "memory": 8192, "state": "ALIVE"},
            {"cores": 2, "memory": 30_000, "state": "ALIVE"},
            {"cores": 64, "memory": 500_000, "state": "DEAD"},
        ],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", str(server.server_port))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield content
    server.shutdown()
    server.server_close()


def executor(cores: int, memory: str) -> dict[str, str]:
    return {"spark.executor.cores": str(cores), "spark.executor.memory": memory}


@pytest.mark.parametrize(("cores", "memory"), [(8, "1g"), (3, "9g"), (1, "40g")])
def test_workers_that_are_too_small_are_told_at_once(page: dict[str, Any], cores: int, memory: str) -> None:
    assert page
    with pytest.raises(NoExecutorError, match=rf"{cores} cores and a heap of .*at most 4 cores, 30000 MiB.*vista plan"):
        check_workers(URL, executor(cores, memory))


def test_workers_that_are_large_enough(page: dict[str, Any]) -> None:
    check_workers(URL, executor(4, "8g"))
    check_workers(URL, executor(2, "20g"))
    check_workers(URL, {})
    # Another program's page, or another master's, says nothing of this one.
    page["url"] = "spark://elsewhere:7077"
    check_workers(URL, executor(8, "1g"))
    del page["url"]
    check_workers(URL, executor(8, "1g"))


def test_a_master_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", "1")
    for master in (URL, "yarn", "k8s://https://host:443", "local[2]", ""):
        check_workers(master, executor(8, "1g"))


class _Cluster:
    """A session whose jobs wait for an executor that never comes, or fail."""

    def __init__(self, *, error: Exception | None = None, **settings: str) -> None:
        self.conf = SimpleNamespace(
            get=lambda name, default=None: {"spark.master": "yarn", **settings}.get(name, default)
        )
        self.interrupted = threading.Event()
        self.tags: list[str] = []
        self._error = error

    def newSession(self) -> _Cluster:
        return self

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def interruptTag(self, tag: str) -> None:
        assert tag in self.tags
        self.interrupted.set()

    def range(self, *_arguments: int) -> _Cluster:
        return self

    def collect(self) -> list[object]:
        if self._error is not None:
            raise self._error
        self.interrupted.wait(30)
        return []


def test_executors_that_never_come_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_executors, "is_remote", lambda: False)
    hanging: Any = _Cluster(**executor(64, "31g"), **{EXECUTOR_TIMEOUT: "0.2s"})
    with pytest.raises(
        NoExecutorError, match=r"within 0\.2 s, got none\. Each executor takes spark\.executor\.cores=64, .*memory=31g"
    ) as caught:
        await_executor(hanging)
    assert EXECUTOR_TIMEOUT in str(caught.value)
    # The job does not stay behind.
    assert hanging.interrupted.is_set()


def test_an_error_of_the_first_job_is_its_own() -> None:
    failing: Any = _Cluster(error=ValueError("no disk"))
    with pytest.raises(ValueError, match="no disk"):
        await_executor(failing)
