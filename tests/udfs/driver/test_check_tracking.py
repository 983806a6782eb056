"""A tracking server that does not answer is named within seconds; any answer is enough."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("mlflow")

from udfs.driver import TrackingError, check_tracking

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the address that earlier tests of this process have set."""
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)


@pytest.fixture
def port() -> Iterator[int]:
    """Open a port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("experiment", ["churn", None])
def test_a_server_that_is_not_there(experiment: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(TrackingError, match=r"MLflow at http://127\.0\.0\.1:9 does not answer .*leave out experiment="):
        check_tracking(experiment)


def test_a_server_that_is_silent(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.driver._tracking._PATIENCE_S", 0.5)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    with pytest.raises(TrackingError, match=r"\(experiment='churn'\): .*(timed out|no answer within)"):
        check_tracking("churn")


@pytest.mark.parametrize("status", [200, 401, 404, 500])
def test_any_answer_is_enough(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.handle_request, daemon=True).start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
    check_tracking("churn")
    server.server_close()


@pytest.mark.parametrize("uri", ["sqlite:///x.db", "databricks", "file:///tmp/mlruns"])
def test_other_places_are_left_to_mlflow(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    check_tracking("churn")
