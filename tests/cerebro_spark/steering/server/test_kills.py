"""A server that is killed at random moments: each acknowledged command is carried out exactly once."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
httpx = pytest.importorskip("httpx")

from killed_server import KilledServer
from steered_runs import SETTINGS, order, origin, start

if TYPE_CHECKING:
    from pathlib import Path

RUN = "/api/v1/experiments/r1"
RUNNER = "/api/v1/runner/experiments/r1"


class Journal:
    """Runner with a journal: it carries a command out unless the journal has its id, and reports what is missing."""

    def __init__(self, server: KilledServer) -> None:
        self.server = server
        self.orders: list[Any] = []
        self.applied: set[str] = set()
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        with self.server.client() as client:
            due = None
            while not self.stopping:
                try:
                    if due is None:
                        due = client.put(RUNNER, json=SETTINGS).json()["next"]["orders"]
                    if due < len(self.orders):
                        documents = list(enumerate(self.orders))[due:]
                        reply = client.post(f"{RUNNER}/events", json={"stream": "orders", "documents": documents})
                        assert reply.status_code == 200, reply.text
                        due = reply.json()["next"]["orders"]
                    for command in client.get(f"{RUNNER}/commands", params={"wait": 0.2}).json()["commands"]:
                        self.apply(command)
                except httpx.TransportError:
                    due = None
                    time.sleep(0.01)

    def apply(self, command: dict[str, Any]) -> None:
        if command["id"] in self.applied:
            return
        self.applied.add(command["id"])
        params = command["command"]["params"]
        request = {"result": "added", "params": params, "epochs": 3, "source": None, "origin": origin(command)}
        started = start(f"c{len(self.orders):03d}", params=params, reason="added by the user")
        self.orders.append(order([request], [started]))


class User:
    """User that sends commands until it is stopped, and repeats each request until it is acknowledged."""

    def __init__(self, server: KilledServer, name: str) -> None:
        self.server, self.name = server, name
        self.acknowledged: dict[str, str] = {}
        self.repeated = 0
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        with self.server.client() as client:
            while not self.stopping:
                key = f"{self.name}-{len(self.acknowledged)}"
                body = {"command": "add", "params": {"key": key}}
                while key not in self.acknowledged:
                    try:
                        reply = client.post(f"{RUN}/commands", json=body, headers={"Idempotency-Key": key})
                    except httpx.TransportError:
                        self.repeated += 1
                        time.sleep(0.01)
                        continue
                    if reply.status_code != 404:  # the run is not registered yet
                        assert reply.status_code == 201, reply.text
                        self.acknowledged[key] = reply.json()["command"]["id"]
                time.sleep(0.02)


@pytest.mark.parametrize("kills", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_each_acknowledged_command_is_applied_once(tmp_path: Path, kills: int) -> None:
    moments = random.Random(17)
    server = KilledServer(tmp_path)
    server.start()
    journal = Journal(server)
    users = [User(server, name) for name in ("ada", "bob")]
    for thread in (journal.thread, *(user.thread for user in users)):
        thread.start()
    for number in range(kills):
        # However slow the machine is, each user's command is acknowledged between two kills.
        until = time.monotonic() + 60
        while min(len(user.acknowledged) for user in users) <= number:
            assert time.monotonic() < until
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.15))
        server.kill()
        server.start()
    for user in users:
        user.stopping = True
        user.thread.join(60)
        # Commands were sent at each kill, and some of the kills hit a request.
        assert len(user.acknowledged) >= kills and user.repeated
    acknowledged = {key: ident for user in users for key, ident in user.acknowledged.items()}
    until = time.monotonic() + 60
    with server.client() as client:
        while any(each["state"] != "applied" for each in client.get(f"{RUN}/commands").json()["commands"]):
            assert time.monotonic() < until
            time.sleep(0.05)
        listed = client.get(f"{RUN}/commands").json()["commands"]
        configurations = client.get(f"{RUN}/configurations").json()["configurations"]
    journal.stopping = True
    journal.thread.join(10)
    server.kill()
    # None is lost, none is there twice, and no command is there that was not sent.
    assert {each["command"]["params"]["key"]: each["id"] for each in listed} == acknowledged
    assert len(listed) == len(acknowledged)
    assert Counter(each["params"]["key"] for each in configurations) == Counter(list(acknowledged))
    with closing(sqlite3.connect(server.database)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        numbers = database.execute("SELECT number FROM events WHERE stream = 'orders' ORDER BY id").fetchall()
    assert [number for (number,) in numbers] == list(range(len(acknowledged)))
