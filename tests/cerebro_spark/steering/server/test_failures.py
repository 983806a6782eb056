"""Full disk, locked database, a clock that is set back, another process that writes: nothing is half done."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from sqlalchemy import event
from starlette.testclient import TestClient
from steered_runs import FakeRunner

from cerebro_spark.steering.server import create_server, open_database
from udfs.web import WebSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Engine

RUN = "/api/v1/experiments/r1"
COMMANDS = f"{RUN}/commands"


def open_client(engine: Engine) -> TestClient:
    app = create_server(WebSettings(), engine, [])
    token = app.state.accounts.set_program("ada", "owner", "token of the test")
    return TestClient(app, base_url=WebSettings().url, headers={"Authorization": f"Bearer {token}"})


def fill(client: TestClient, trials: int = 200) -> list[str]:
    """Send commands until one is refused, and return the ids of those that were acknowledged."""
    acknowledged: list[str] = []
    for number in range(trials):
        body = {"command": "add", "params": {"n": number, "text": "x" * 50_000}}
        reply = client.post(COMMANDS, json=body)
        if reply.status_code != 201:
            assert reply.status_code == 503 and reply.headers["Retry-After"], reply.text
            message = reply.json()["error"]["message"]
            assert "full" in message and "free disk space" in message
            return acknowledged
        acknowledged.append(reply.json()["command"]["id"])
    raise AssertionError("the disk did not fill")


def test_a_full_disk_loses_no_acknowledged_command(small_disk: Callable[[str], Path], tmp_path: Path) -> None:
    folder = small_disk("3m")
    engine = open_database(folder / "server.sqlite")
    client = open_client(engine)
    FakeRunner(client).begin("c000", n=0, text="")
    acknowledged = fill(client)
    assert acknowledged
    # Reading goes on, and the disk may be full at the next start too.
    assert [each["id"] for each in client.get(COMMANDS).json()["commands"]] == acknowledged
    engine.dispose()
    shutil.copytree(folder, tmp_path / "copy")
    engine = open_database(tmp_path / "copy" / "server.sqlite")
    assert [each["id"] for each in open_client(engine).get(COMMANDS).json()["commands"]] == acknowledged
    engine.dispose()


def test_a_full_database_goes_on_once_there_is_room(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "server.sqlite")
    pages = [400]
    event.listen(engine, "begin", lambda each: each.exec_driver_sql(f"PRAGMA max_page_count = {pages[0]}").close())
    client = open_client(engine)
    runner = FakeRunner(client)
    runner.begin("c000", n=0, text="")
    acknowledged = fill(client)
    assert acknowledged
    pages[0] = 100_000
    reply = client.post(COMMANDS, json={"command": "pause", "trial": "c000", "revision": 1})
    assert reply.status_code == 201
    assert [each["id"] for each in runner.pending()] == [*acknowledged, reply.json()["command"]["id"]]
    # What failed left no trace in memory: the pause is the second revision.
    assert client.get(f"{RUN}/configurations").json()["configurations"][0]["revision"] == 2
    engine.dispose()


def test_a_locked_database_is_503_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "server.sqlite"
    engine = open_database(path, busy_s=0.1)
    client = open_client(engine)
    FakeRunner(client).begin("c000")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        reply = client.post(COMMANDS, json={"command": "stop", "trial": "c000"})
        assert reply.status_code == 503 and reply.headers["Retry-After"]
        assert "locked" in reply.json()["error"]["message"]
        assert client.get(RUN).json()["experiment"]["pending"] == 0
        other.execute("ROLLBACK")
    assert client.post(COMMANDS, json={"command": "stop", "trial": "c000"}).status_code == 201
    engine.dispose()


def test_a_clock_that_is_set_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_database(tmp_path / "server.sqlite")
    client = open_client(engine)
    runner = FakeRunner(client)
    runner.begin("c000", n=0)
    now = time.time()
    sent = []
    for number in range(5):
        monkeypatch.setattr(time, "time", lambda number=number: now - 3600 * number)
        reply = client.post(COMMANDS, json={"command": "add", "params": {"n": number}})
        sent.append(reply.json()["command"]["id"])
    runner.train("c000", 1)
    assert [each["id"] for each in runner.pending()] == sent
    assert [each["id"] for each in client.get(COMMANDS).json()["commands"]] == sent
    experiment = client.get(RUN).json()["experiment"]
    assert (experiment["state"], experiment["finished"]) == ("running", 1)
    engine.dispose()


def test_a_restarted_server_has_the_same_state(tmp_path: Path) -> None:
    def documents(client: TestClient) -> list[Any]:
        # The state is "away" until the runner asks again.
        experiment = client.get(RUN).json()["experiment"] | {"state": ""}
        return [experiment, *(client.get(f"{RUN}/{each}").json() for each in ("configurations", "metrics", "units"))]

    first = open_database(tmp_path / "server.sqlite")
    client = open_client(first)
    runner = FakeRunner(client)
    runner.begin("c000", "c001")
    runner.train("c000", 1, 0.3)
    client.post(COMMANDS, json={"command": "pause", "trial": "c001"})
    runner.settle(runner.pending()[0])
    client.post(COMMANDS, json={"command": "stop", "trial": "c000"})
    runner.stop(runner.pending()[0])
    second = open_database(tmp_path / "server.sqlite")
    other = open_client(second)
    assert documents(other) == documents(client)
    # A server also shows what another process of the same database has written.
    runner.train("c001", 1, 0.2)
    assert documents(other) == documents(client)
    first.dispose()
    second.dispose()
