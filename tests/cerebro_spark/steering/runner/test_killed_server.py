"""A real search beside the real server, which is killed while its users steer the search."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
for _package in ("fastapi", "sqlalchemy", "httpx"):
    pytest.importorskip(_package)

from killed_server import TOKEN, KilledServer
from searches import adult, common, search

from cerebro_spark import GridSearch, Store
from cerebro_spark.hopper import Journal
from cerebro_spark.steering import Client
from optimizer.procedures import Added, OutOfTime, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

KILLS = 4


def documents(server: KilledServer, stream: str) -> list[Any]:
    """Read the documents of a stream from the database."""
    with sqlite3.connect(server.database) as database:
        rows = database.execute("select document from events where stream = ? order by number", (stream,))
        return [json.loads(document) for (document,) in rows]


def test_commands_and_documents_survive_kills_of_the_server(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEREBRO_TOKEN", TOKEN)
    chance = random.Random(3)
    server = KilledServer(tmp_path)
    server.start()
    client = Client(server.url, TOKEN, patience_s=60.0)
    store = Store.from_uri(str(tmp_path / "store"))
    space = {"lr": [0.1, 0.01], "hidden": [4, 8]}
    task = GridSearch(**common(spark, store, search_space=space, num_epochs=4000, metric="loss"))
    experiment = task.start(search(spark, store).prepare(adult(spark, 400)), run_id="steered", server=server.url)
    until(lambda: bool(experiment.trials) and all(trial.history for trial in experiment.trials))
    until(lambda: any(each["run"] == "steered" for each in client.experiments()))
    sent = []
    for number in range(KILLS):
        sent.append(client.add("steered", {"lr": 0.05, "hidden": 4}, epochs=1 + number)["id"])
        # c000 is paused and resumed in turn: each of these is carried out once, or it would be refused.
        sent.append((client.resume if number % 2 else client.pause)("steered", "c000")["id"])
        time.sleep(chance.random() * 0.3)
        server.kill()
        time.sleep(chance.random() * 0.5)
        server.start()
    sent.append(client.stop("steered", "c003")["id"])
    records = {ident: client.wait("steered", ident, 60) for ident in sent}
    assert {record["state"] for record in records.values()} == {"applied"}
    until(lambda: all(trial.status == "finished" for trial in experiment.trials[4:]))
    client.end("steered")
    found = experiment.wait(60)
    trials = {trial.trial_id: trial for trial in found.trials}
    assert {name: len(trials[name].history) for name in sorted(trials)[4:]} == {
        f"c{4 + number:03d}": 1 + number for number in range(KILLS)
    }
    orders = Journal(store, "steered").orders()
    requests = [
        result.origin.command
        for order in orders
        for result in order.results
        if isinstance(result, (Added, Stopped, OutOfTime)) and result.origin is not None
    ]
    assert len(requests) == len(set(requests)) == KILLS + 2
    assert documents(server, "orders") == [order.document() for order in orders]
    assert sum(map(len, documents(server, "units"))) == len(Journal(store, "steered").events())
    assert client.experiment("steered")["state"] == "ended"
    server.kill()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)
