"""Requests of users reach a pool once, and its answers reach the users."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from starlette.testclient import TestClient

from cerebro_spark.steering.server import create_server, open_database
from cerebro_spark.steering.server._blobs import Blobs
from udfs.web import WebSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

API = "/api/v1"
POOL = {"master": "local[2]", "workers": 2, "store": "file:///s", "kinds": ["plan", "launch"], "scripts": False}
LAUNCH = {"kind": "launch", "document": {"run": "r1"}}


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Callable[[str], TestClient]]:
    """Make clients by role; each call opens the database again, as a server that was restarted."""
    engines = []

    def make(role: str) -> TestClient:
        engine = open_database(tmp_path / "server.sqlite")
        engines.append(engine)
        app = create_server(WebSettings(), engine, [])
        token = app.state.accounts.set_program(f"a {role}", role)
        return TestClient(app, base_url=WebSettings().url, headers={"Authorization": f"Bearer {token}"})

    yield make
    for engine in engines:
        engine.dispose()


class FakePool:
    """Runner of a pool that answers by hand."""

    def __init__(self, client: TestClient, session: str = "s1", **settings: Any) -> None:
        self._client, self._session = client, session
        reply = client.put(f"{API}/runner/pools/p1", json={**POOL, "session": session, **settings})
        assert reply.status_code == 200, reply.text

    def poll(self, after: int = 0) -> tuple[list[str], list[str]]:
        """Ids of the pending and of the cancelled requests."""
        reply = self._client.get(f"{API}/runner/pools/p1/requests?session={self._session}&after={after}")
        assert reply.status_code == 200, reply.text
        return [each["id"] for each in reply.json()["requests"]], reply.json()["cancelled"]

    def report(self, ident: str, state: str, **values: Any) -> Any:
        reply = self._client.post(
            f"{API}/runner/requests/{ident}?session={self._session}", json={"state": state, **values}
        )
        return reply.json() if reply.status_code == 200 else (reply.status_code, reply.json()["error"]["code"])


@pytest.fixture
def ada(clients: Any) -> TestClient:
    return clients("owner")


@pytest.fixture
def pool(ada: TestClient) -> FakePool:
    return FakePool(ada)


def send(client: TestClient, body: dict[str, Any] = LAUNCH, **headers: str) -> dict[str, Any]:
    reply = client.post(f"{API}/requests", json=body, headers=headers)
    assert reply.status_code == 201, reply.text
    return dict(reply.json()["request"])


def get(client: TestClient, ident: str) -> dict[str, Any]:
    return dict(client.get(f"{API}/requests/{ident}").json()["request"])


def test_a_request_is_answered(ada: TestClient, pool: FakePool) -> None:
    assert ada.get(f"{API}/pools").json()["pools"] == [{"name": "p1", **POOL, "is_live": True}]
    sent = send(ada)
    assert (sent["state"], sent["pool"], sent["user"], sent["revision"]) == ("pending", "p1", "a owner", 0)
    assert pool.poll() == ([sent["id"]], [])
    assert pool.poll(after=sent["number"]) == ([], [])
    assert pool.report(sent["id"], "running", progress={"fraction": 0.5}) == {"cancelled": False}
    assert pool.poll() == ([], [])
    running = get(ada, sent["id"])
    assert (running["state"], running["progress"], running["revision"]) == ("running", {"fraction": 0.5}, 1)
    pool.report(sent["id"], "done", result={"run": "r1"})
    done = get(ada, sent["id"])
    assert (done["state"], done["result"], done["revision"]) == ("done", {"run": "r1"}, 2)
    # A report that is repeated, and one that comes too late.
    assert pool.report(sent["id"], "done", result={"run": "r1"}) == {"cancelled": False}
    assert pool.report(sent["id"], "failed") == (409, "settled")
    assert get(ada, sent["id"]) == done


def test_requests_are_listed_by_kind_pool_and_run(ada: TestClient, pool: FakePool) -> None:
    FakePool(ada, kinds=["plan", "launch", "explain"])
    first = send(ada)
    second = send(ada, {"kind": "explain", "document": {"network": {"run": "r1", "trial": "c000"}}})
    third = send(ada, {"kind": "plan", "document": {}})

    def listed(query: str) -> list[str]:
        return [each["id"] for each in ada.get(f"{API}/requests?{query}").json()["requests"]]

    assert listed("") == [first["id"], second["id"], third["id"]]
    assert listed("run=r1") == [first["id"], second["id"]]
    assert (listed("kind=plan"), listed("pool=p2"), listed("pool=p1&kind=launch")) == (
        [third["id"]],
        [],
        [first["id"]],
    )


def test_a_repeated_request_is_one_request(ada: TestClient, pool: FakePool) -> None:
    key = {"Idempotency-Key": "k"}
    assert send(ada, **key)["id"] == send(ada, **key)["id"]
    other = ada.post(f"{API}/requests", json={"kind": "launch", "document": {"run": "r2"}}, headers=key)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key")
    assert len(pool.poll()[0]) == 1


def test_a_cancelled_request_is_told_until_the_pool_knows(ada: TestClient, pool: FakePool) -> None:
    waiting, running = send(ada), send(ada, {"kind": "plan", "document": {}})
    pool.report(running["id"], "running")
    for each in (waiting, running):
        assert ada.delete(f"{API}/requests/{each['id']}").json()["request"]["state"] == "cancelled"
    assert pool.poll() == ([], [waiting["id"], running["id"]])
    assert pool.report(running["id"], "running", progress={"fraction": 0.9}) == {"cancelled": True}
    assert pool.poll() == ([], [waiting["id"]])
    # It was too late for the plan as well, but not for the launch, whose run trains.
    assert pool.report(running["id"], "done", result={}) == {"cancelled": True}
    pool.report(waiting["id"], "done", result={"run": "r1"})
    assert [get(ada, each["id"])["state"] for each in (waiting, running)] == ["done", "cancelled"]
    refused = ada.delete(f"{API}/requests/{waiting['id']}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "settled")


def test_a_request_replaces_another(ada: TestClient, pool: FakePool) -> None:
    first = send(ada, {"kind": "plan", "document": {"n": 1}})
    second = send(ada, {"kind": "plan", "document": {"n": 2}, "replaces": first["id"]})
    assert pool.poll() == ([second["id"]], [first["id"]])
    reply = ada.post(f"{API}/requests", json={"kind": "plan", "document": {}, "replaces": "unknown"})
    assert reply.status_code == 404 and len(ada.get(f"{API}/requests").json()["requests"]) == 2


def test_a_pool_that_restarts_gets_its_launches_again(ada: TestClient, pool: FakePool) -> None:
    launch, plan, later = send(ada), send(ada, {"kind": "plan", "document": {}}), send(ada)
    for each in (launch, plan):
        pool.report(each["id"], "running")
    cancelled = send(ada)
    ada.delete(f"{API}/requests/{cancelled['id']}")
    restarted = FakePool(ada, session="s2")
    assert restarted.poll() == ([launch["id"], later["id"]], [])
    failed = get(ada, plan["id"])
    assert (failed["state"], failed["message"]) == ("failed", "the runner restarted")
    # The process that was replaced changes nothing any more.
    assert pool.report(launch["id"], "done", result={}) == (409, "replaced")
    assert restarted.report(launch["id"], "done", result={"run": "r1"}) == {"cancelled": False}


def test_a_server_that_restarts_has_the_open_requests(clients: Any, ada: TestClient, pool: FakePool) -> None:
    first, second = send(ada), send(ada)
    pool.report(first["id"], "running", progress={"fraction": 0.1})
    again = clients("owner")
    # No pool is live until its runner has called.
    assert [each["is_live"] for each in again.get(f"{API}/pools").json()["pools"]] == [False]
    reply = again.post(f"{API}/requests", json=LAUNCH)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "no_pool")
    assert FakePool(again).poll() == ([second["id"]], [])
    assert get(again, first["id"])["progress"] == {"fraction": 0.1}
    assert [each["is_live"] for each in again.get(f"{API}/pools").json()["pools"]] == [True]


def test_a_request_that_no_pool_answers_is_refused(ada: TestClient) -> None:
    def refusal(body: dict[str, Any]) -> tuple[int, str]:
        reply = ada.post(f"{API}/requests", json=body)
        return reply.status_code, reply.json()["error"]["message"]

    assert refusal(LAUNCH) == (
        409,
        (
            "a pool of workers must be connected for requests. Start cerebro runner, or cerebro serve --master, and "
            "wait until it says that its pool answers."
        ),
    )
    pool = FakePool(ada)
    status, message = refusal({**LAUNCH, "pool": "p2"})
    assert status == 404 and "pool must be a pool of this server, got 'p2'" in message
    assert refusal({"kind": "explain", "document": {}}) == (409, "kind must be one of launch, plan, got 'explain'.")
    ada.put(f"{API}/runner/pools/p2", json={**POOL, "session": "s9"})
    status, message = refusal(LAUNCH)
    assert status == 422 and "pool must name one of the live pools (p1, p2)" in message
    assert ada.get(f"{API}/requests").json()["requests"] == pool.poll()[0] == []
    assert ada.delete(f"{API}/runner/pools/p2?session=s9").status_code == 200
    assert send(ada)["pool"] == "p1"


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind": "plan", "document": {"x": NaN}}',
        b'{"kind": "plan", "document": []}',
        b'{"kind": "plan"}',
        b'{"kind": "", "document": {}}',
        b'{"kind": "plan", "document": {}, "more": 1}',
        b'{"kind": "plan", "document": ' + b'{"a":' * 60 + b"1" + b"}" * 61,
    ],
)
def test_a_malformed_request_changes_nothing(ada: TestClient, pool: FakePool, body: bytes) -> None:
    reply = ada.post(f"{API}/requests", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 422, reply.text
    assert pool.poll() == ([], [])


def test_a_pool_sends_json_alone(ada: TestClient, pool: FakePool) -> None:
    sent = send(ada)
    body = b'{"state": "running", "progress": {"values": [NaN]}}'
    reply = ada.post(
        f"{API}/runner/requests/{sent['id']}?session=s1", content=body, headers={"Content-Type": "application/json"}
    )
    assert reply.status_code == 422 and get(ada, sent["id"])["state"] == "pending"
    assert ada.put(f"{API}/runner/pools/..%2Fx", json=POOL).status_code in {404, 422}


def test_a_pool_has_a_bounded_queue(ada: TestClient, pool: FakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerebro_spark.steering.server._requests._MOST_OPEN", 2)
    first, _ = send(ada), send(ada)
    reply = ada.post(f"{API}/requests", json=LAUNCH)
    assert (reply.status_code, reply.json()["error"]["code"], "Retry-After" in reply.headers) == (429, "busy", True)
    # The place of the request that it replaces is free.
    send(ada, {**LAUNCH, "replaces": first["id"]})


def test_a_viewer_reads_and_a_pool_needs_its_secret(clients: Any, ada: TestClient, pool: FakePool) -> None:
    sent = send(ada)
    digest = ada.post(f"{API}/blobs", content=b"x").json()["sha256"]
    viewer, editor, runner = clients("viewer"), clients("editor"), clients("runner")
    assert viewer.get(f"{API}/requests/{sent['id']}").json()["request"]["id"] == sent["id"]
    for client in (viewer, runner):
        assert client.post(f"{API}/requests", json=LAUNCH).status_code == 403
        assert client.delete(f"{API}/requests/{sent['id']}").status_code == 403
        assert client.post(f"{API}/blobs", content=b"y").status_code == 403
    for client in (viewer, editor):
        for method, path in (
            ("PUT", "pools/p1"),
            ("DELETE", "pools/p1?session=s1"),
            ("GET", "pools/p1/requests?session=s1"),
            ("POST", f"requests/{sent['id']}?session=s1"),
            ("GET", f"blobs/{digest}"),
        ):
            reply = client.request(method, f"{API}/runner/{path}", json={**POOL, "state": "done"})
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden"), path
    assert get(ada, sent["id"])["state"] == "pending"


def test_a_long_poll_ends_with_the_next_revision(ada: TestClient, pool: FakePool) -> None:
    sent, replies = send(ada), []

    def wait() -> None:
        query = f"wait=60&revision={sent['revision']}"
        replies.append(ada.get(f"{API}/requests/{sent['id']}?{query}").json()["request"]["state"])

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    pool.report(sent["id"], "running")
    thread.join(30)
    assert replies == ["running"]


def test_uploads_are_bounded_files_named_by_their_content(ada: TestClient, pool: FakePool, tmp_path: Path) -> None:
    content = b"\x89PNG" + bytes(range(256)) * 8192
    reply = ada.post(f"{API}/blobs", content=content, headers={"Content-Type": "application/octet-stream"})
    digest = hashlib.sha256(content).hexdigest()
    assert reply.json() == {"sha256": digest, "size": len(content)}
    assert [each.name for each in (tmp_path / "blobs").iterdir()] == [digest]
    read = ada.get(f"{API}/runner/blobs/{digest}")
    assert read.content == content and read.headers["Content-Disposition"] == "attachment"
    for name in ("0" * 64, "..%2Fserver.sqlite", "server.sqlite", digest.upper()):
        assert ada.get(f"{API}/runner/blobs/{name}").status_code == 404
    large = ada.post(f"{API}/blobs", content=bytes((16 << 20) + 1))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "large")
    # Other routes keep their own limit.
    assert ada.post(f"{API}/requests", content=bytes(2 << 20)).status_code in {413, 422}
    assert len(list((tmp_path / "blobs").iterdir())) == 1


def test_the_oldest_uploads_make_room(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "server.sqlite")
    blobs = Blobs(engine, most_bytes=250)
    names = [blobs.store(bytes([each]) * 100) for each in range(2)]
    for age, name in enumerate(names):
        os.utime(tmp_path / "blobs" / name, (1000 + age, 1000 + age))
    blobs.read(names[0])
    names.append(blobs.store(b"z" * 100))
    assert {each.name for each in (tmp_path / "blobs").iterdir()} == {names[0], names[2]}
    engine.dispose()
