"""Any JSON in any request: never an internal error, and no partial change."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from steered_runs import SETTINGS, FakeRunner, epoch, order, start, unit

from cerebro_spark.steering.server import create_server, open_database
from udfs.web import WebSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "/api/v1/experiments/r1"
RUNNER = "/api/v1/runner/experiments/r1"
COMMAND = {"command": "clone", "trial": "c000", "params": {"lr": 0.5}, "epoch": 1, "epochs": 2, "revision": 1}
LIMITS = {"name": "loss", "below": 0.9, "above": 0.1}
WHERE = {"status": ["running"], "owner": "", "metric": LIMITS, "text": "c", "trials": {"c000": 1}}
BULK = {"command": "pause", "where": WHERE}
REQUEST = {"result": "added", "params": {"lr": 1}, "epochs": 1, "source": {"trial": "c000", "epoch": 1}}
ORDER = order(
    [epoch("c000", 2, "nan"), {"result": "ended", "trial": "c001", "status": "raised"}, REQUEST],
    [start("c002", source={"trial": "c000", "epoch": 1}), {"decision": "stop", "trial": "c000", "reason": "rank"}],
)
POOL = {"master": "local[2]", "workers": 2, "store": "s", "kinds": ["launch"], "scripts": False, "session": ""}
REQUESTS = [
    ("POST", f"{RUN}/commands", COMMAND),
    ("POST", f"{RUN}/effects", COMMAND),
    ("POST", f"{RUN}/commands/bulk", BULK),
    ("POST", f"{RUN}/effects/bulk", {"command": "add", "configurations": [{"lr": 0.5}, {"lr": 0.2}], "epochs": 1}),
    ("PUT", RUNNER, {**SETTINGS, "session": "s", "fingerprint": "f", "parameters": {}}),
    ("POST", f"{RUNNER}/events", {"stream": "orders", "documents": [[1, ORDER]]}),
    ("POST", f"{RUNNER}/events", {"stream": "units", "documents": [[0, [unit("c000", 0)]]]}),
    ("POST", f"{RUNNER}/commands/x", {"state": "applied", "message": "", "trial": "c000"}),
    ("POST", f"{RUNNER}/ended", {"error": ""}),
    ("POST", "/api/v1/requests", {"kind": "launch", "document": {"run": "r2"}, "pool": "p1", "replaces": None}),
    ("PUT", "/api/v1/runner/pools/p2", POOL),
    ("POST", "/api/v1/runner/requests/x?session=", {"state": "running", "progress": {"fraction": 0.5}, "result": 1}),
]
ODD = st.sampled_from([1 << 63, 1 << 80, -1, 0, True, 1e308, "", "c000", "nan", "\ud800", "<script>", "x" * 5000])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ODD
ANY = st.recursive(
    LEAVES, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3)
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    engine = open_database(tmp_path_factory.mktemp("fuzz") / "server.sqlite")
    app = create_server(WebSettings(), engine, [])
    token = app.state.accounts.set_program("ada", "owner")
    client = TestClient(app, base_url=WebSettings().url, headers={"Authorization": f"Bearer {token}"})
    FakeRunner(client).begin("c000", "c001")
    client.put("/api/v1/runner/pools/p1", json=POOL)
    yield client
    engine.dispose()


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the paths of all values in a document."""
    yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Replace one value in a copy of a document."""
    if not path:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@given(st.data())
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.slow
def test_a_changed_document_is_no_internal_error(client: TestClient, data: st.DataObject) -> None:
    method, path, document = data.draw(st.sampled_from(REQUESTS))
    body = replaced(document, data.draw(st.sampled_from(list(places(document)))), data.draw(ANY))
    content = json_text(body)
    reply = client.request(method, path, content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code < 500, (path, content, reply.text)
    for each in ("", "/configurations", "/metrics", "/units", "/commands"):
        assert client.get(f"{RUN}{each}").status_code == 200, (each, content)
    assert client.get(f"{RUNNER}/commands").status_code == 200


def json_text(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"command": "add", "params": {"x": ' + b"[" * 400 + b"]" * 400 + b"}}",
        b'{"command": "add", "params": {"x": ' + b"9" * 5000 + b"}}",
        b'{"command": "add", "params": {"x": 1}, "revision": 18446744073709551616}',
        b"\xff",
        b"",
    ],
)
def test_an_extreme_body_is_refused(client: TestClient, body: bytes) -> None:
    before = client.get(f"{RUN}/commands").json()
    for path in (f"{RUN}/commands", f"{RUN}/effects"):
        reply = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code in {400, 422}, reply.text
    assert client.get(f"{RUN}/commands").json() == before


@pytest.mark.parametrize("path", [f"{RUN}/metrics", f"{RUN}/units"])
@pytest.mark.parametrize("since", ["-1", "x", str(1 << 64)])
def test_an_impossible_cursor_is_refused(client: TestClient, path: str, since: str) -> None:
    assert client.get(path, params={"since": since}).status_code == 422
