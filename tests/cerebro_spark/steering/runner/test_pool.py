"""Pool of a runner: requests are answered once, in their order, whatever happens to the server or to the user."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("httpx")

from live_server import TOKEN, http_client, live_server

from cerebro_spark.steering import Client, ServerError
from cerebro_spark.steering.runner import Pool, _backoff, _outbox, _pool
from optimizer.errors import InvalidArgumentError
from udfs.requests import RequestHandler
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BACKEND: Any = SimpleNamespace(num_workers=2, spark=None)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_TOKEN", TOKEN)
    monkeypatch.setattr(_backoff, "_FIRST_S", 0.02)
    monkeypatch.setattr(_backoff, "_LONGEST_S", 0.1)
    monkeypatch.setattr(_outbox, "_ROUND_S", 0.01)
    monkeypatch.setattr(_pool, "_DELIVERY_S", 5.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with live_server(tmp_path / "server.sqlite") as url:
        yield url


class Handlers:
    """Handlers that a test controls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.release = threading.Event()
        self.entered = threading.Event()
        self.downloads = threading.Event()

    def launch(self, document: Mapping[str, Any], context: Any) -> dict[str, Any]:
        self.calls.append(document["run"])
        return {"run": document["run"]}

    def explain(self, document: Mapping[str, Any], context: Any) -> dict[str, Any]:
        self.calls.append("explain")
        self.entered.set()
        while not self.release.wait(0.01):
            context.report({"values": [0.5, float("nan")]})
        self.downloads.set()
        return {"values": (1, 2), "by": context.user, "blob": context.blob(document["image"]).decode()}

    def plan(self, document: Mapping[str, Any], context: Any) -> dict[str, Any]:
        if "lr" not in document:
            raise InvalidArgumentError("lr must be set.")
        return {"rate": 1 / document["lr"]}

    def all(self) -> list[RequestHandler]:
        return [RequestHandler(name, getattr(self, name)) for name in ("launch", "explain", "plan")]


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def pool(server: str, handlers: Handlers, tmp_path: Path) -> Iterator[Pool]:
    with make_pool(handlers, tmp_path) as pool:
        yield pool.serve(server)


def make_pool(handlers: Handlers, folder: Path, name: str = "p1") -> Pool:
    return Pool(BACKEND, Store.from_uri(str(folder / "store")), name=name, handlers=handlers.all())


def connected(server: str) -> Client:
    client = Client(server, TOKEN)
    until = time.monotonic() + 30
    while not any(pool["is_live"] for pool in client.pools()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return client


def test_requests_are_answered(server: str, pool: Pool, handlers: Handlers) -> None:
    client = connected(server)
    [listed] = client.pools()
    assert (listed["name"], listed["workers"], listed["kinds"]) == ("p1", 2, ["explain", "launch", "plan"])
    handlers.release.set()
    image = client.upload(b"pixels")["sha256"]
    done = client.wait_for(client.request("explain", {"image": image}, "p1")["id"], 30)
    assert (done["state"], done["result"]) == ("done", {"values": [1, 2], "by": "ada", "blob": "pixels"})
    answers = [client.wait_for(client.request("plan", each)["id"], 30) for each in ({"lr": 2}, {}, {"lr": 0})]
    assert [each["state"] for each in answers] == ["done", "failed", "failed"]
    assert [each["message"] for each in answers] == ["", "lr must be set.", "ZeroDivisionError: division by zero"]
    missing = client.wait_for(client.request("explain", {"image": "0" * 64})["id"], 30)
    assert missing["state"] == "failed" and missing["message"].endswith("Upload it again.")
    with pytest.raises(ServerError, match="kind must be one of explain, launch, plan, got 'schema'"):
        client.request("schema", {})


def test_a_short_request_does_not_wait_for_a_long_one(server: str, pool: Pool, handlers: Handlers) -> None:
    client = connected(server)
    long = client.request("explain", {"image": "0" * 64})
    assert handlers.entered.wait(30)
    queued = client.request("explain", {"image": "0" * 64})
    assert client.wait_for(client.request("plan", {"lr": 2})["id"], 30)["result"] == {"rate": 0.5}
    running = client.requests(kind="explain")
    assert [each["state"] for each in running] == ["running", "pending"]
    client.cancel(queued["id"])
    # The handler learns of it by its next report.
    assert client.cancel(long["id"])["state"] == "cancelled"
    after = client.request("explain", {"image": "0" * 64})
    handlers.release.set()
    assert client.wait_for(after["id"], 30)["state"] == "failed"
    assert handlers.calls == ["explain", "explain"]


def test_progress_is_sent(server: str, pool: Pool, handlers: Handlers) -> None:
    client = connected(server)
    sent = client.request("explain", {"image": client.upload(b"x")["sha256"]})
    with pytest.raises(TimeoutError, match=r"is still (pending|running) after 0.2 s"):
        client.wait_for(sent["id"], 0.2)
    handlers.release.set()
    done = client.wait_for(sent["id"], 30)
    assert (done["progress"], done["result"]["values"]) == ({"values": [0.5, "nan"]}, [1, 2])


def test_an_answer_outlasts_the_server(tmp_path: Path, handlers: Handlers) -> None:
    database = tmp_path / "server.sqlite"
    with live_server(database) as url, make_pool(handlers, tmp_path) as pool:
        pool.serve(url)
        client = connected(url)
        sent = client.request("explain", {"image": client.upload(b"x")["sha256"]})
        assert handlers.entered.wait(30)
        other = Client(url, TOKEN, patience_s=60)
        waiting: list[Any] = []
        thread = threading.Thread(target=lambda: waiting.append(other.wait_for(sent["id"], 60)), daemon=True)
        thread.start()
    # The pool of the block above is closed: its request waits for the next one.
    with live_server(database, urlsplit(url).port or 0) as url, make_pool(handlers, tmp_path) as pool:
        pool.serve(url)
        thread.join(60)
        assert [(each["state"], each["message"]) for each in waiting] == [("failed", "the runner restarted")]


def test_a_pool_goes_on_without_its_server(tmp_path: Path, handlers: Handlers) -> None:
    database = tmp_path / "server.sqlite"
    with make_pool(handlers, tmp_path) as pool:
        with live_server(database) as url:
            pool.serve(url)
            client = connected(url)
            sent = client.request("explain", {"image": client.upload(b"x")["sha256"]})
            assert handlers.entered.wait(30)
            launches = [client.request("launch", {"run": f"r{number}"}) for number in range(3)]
            assert [client.wait_for(each["id"], 30)["state"] for each in launches] == ["done"] * 3
        handlers.release.set()  # the handler downloads the image while the server is away
        assert handlers.downloads.wait(30)
        with live_server(database, urlsplit(url).port or 0) as url:
            client = connected(url)
            assert client.wait_for(sent["id"], 30)["state"] == "done"
            last = client.request("launch", {"run": "r3"})
            assert client.wait_for(last["id"], 30)["result"] == {"run": "r3"}
    assert handlers.calls == ["explain", "r0", "r1", "r2", "r3"]


def test_a_lost_database_is_registered_again(tmp_path: Path, handlers: Handlers) -> None:
    with make_pool(handlers, tmp_path) as pool:
        with live_server(tmp_path / "first.sqlite") as url:
            pool.serve(url)
            client = connected(url)
            for number in range(3):
                client.wait_for(client.request("launch", {"run": f"r{number}"})["id"], 30)
        # Requests of the new database have small numbers again.
        with live_server(tmp_path / "second.sqlite", urlsplit(url).port or 0) as url:
            client = connected(url)
            assert client.wait_for(client.request("launch", {"run": "r3"})["id"], 30)["state"] == "done"


def test_a_second_pool_of_the_name_replaces_the_first(server: str, handlers: Handlers, tmp_path: Path) -> None:
    first, second = make_pool(handlers, tmp_path), make_pool(handlers, tmp_path)
    with first, second:
        first.serve(server)
        client = connected(server)
        second.serve(server)
        # The first one learns of it with the next request.
        sent = client.request("plan", {"lr": 2})
        assert client.wait_for(sent["id"], 30)["state"] == "done"
        assert first.wait(30)
        assert [each["is_live"] for each in client.pools()] == [True]


def test_a_closed_pool_is_not_live(server: str, handlers: Handlers, tmp_path: Path) -> None:
    with make_pool(handlers, tmp_path) as pool:
        pool.serve(server)
        client = connected(server)
        with pytest.raises(InvalidArgumentError, match="this one serves already"):
            pool.serve(server)
    assert [each["is_live"] for each in client.pools()] == [False]
    with pytest.raises(ServerError, match="pool 'p1' must be connected"):
        client.request("plan", {"lr": 1}, "p1")


def test_names_and_addresses_are_checked(handlers: Handlers, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="the name of a pool"):
        make_pool(handlers, tmp_path, "../p")
    with pytest.raises(InvalidArgumentError, match="server must be a URL"), make_pool(handlers, tmp_path) as pool:
        pool.serve("127.0.0.1")
    with pytest.raises(InvalidArgumentError, match="must serve a server"):
        make_pool(handlers, tmp_path).context()


def test_a_pool_needs_a_token(server: str) -> None:
    with http_client(server) as client:
        del client.headers["Authorization"]
        assert client.put("/api/v1/runner/pools/p1", json={"kinds": []}).status_code in {401, 403}
