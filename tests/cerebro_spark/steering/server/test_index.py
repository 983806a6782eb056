"""Runs of a store: a database that was lost is rebuilt, and damage is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from starlette.testclient import TestClient
from steered_runs import FakeRunner, epoch, order, start, unit

from cerebro_spark.steering.server import IndexedRun, create_server, index_store, open_database
from udfs.documents import write_document
from udfs.training import HELD_OUT_FOLD
from udfs.web import WebSettings

if TYPE_CHECKING:
    from pathlib import Path

    from udfs.store import Store

ORDERS = [
    order(decisions=[start("c000"), start("c001")]),
    order([epoch("c000", 1, 0.4)]),
    order([{"result": "ended", "trial": "c001", "status": "raised"}]),
]
UNITS = [[unit("c000", 0)], [unit("c000", 1, "w1")]]
SPEC = {"run": "r1", "metric": "loss", "larger_is_better": False, "epochs": 3, "procedure": "ASHA", "trainer": "mlp"}
STOPPED = order(decisions=[{"decision": "stop", "trial": "c000", "reason": "rank 2"}])


def write_run(store: Store, run: str = "r1") -> None:
    write_document(store, SPEC, "runs", run, "run.json")
    for folder, word, documents in (("orders", "order", ORDERS), ("events", "part", UNITS)):
        for number, document in enumerate(documents):
            write_document(store, document, "runs", run, folder, f"{word}-{number:06d}.json")
    write_document(store, {"traceback": "KeyError: 'lr'"}, "runs", run, "trials", "c001.json")
    write_document(store, {"traceback": ""}, "runs", run, "trials", "c000.json")


def documents(path: Path) -> list[Any]:
    engine = open_database(path)
    app = create_server(WebSettings(), engine, [])
    token = app.state.accounts.set_program("ada", "owner")
    client = TestClient(app, base_url=WebSettings().url, headers={"Authorization": f"Bearer {token}"})
    run = "/api/v1/experiments/r1"
    read = [client.get(f"{run}{each}").json() for each in ("", "/configurations", "/metrics", "/units")]
    engine.dispose()
    return read


def index(path: Path, store: Store) -> list[IndexedRun]:
    engine = open_database(path)
    indexed = list(index_store(engine, store.uri))
    engine.dispose()
    return indexed


def test_an_index_shows_the_runs_of_a_store(tmp_path: Path, store: Store) -> None:
    write_run(store)
    path = tmp_path / "server.sqlite"
    assert index(path, store) == [IndexedRun("r1", 5)]
    experiment, configurations, metrics, units = documents(path)
    shown = experiment["experiment"]
    assert (shown["state"], shown["procedure"], shown["workers"], shown["store"]) == ("away", "ASHA", 2, store.uri)
    first, second = configurations["configurations"]
    assert (first["status"], first["finished"]) == ("running", 1)
    assert (second["status"], second["traceback"]) == ("raised", "KeyError: 'lr'")
    assert metrics["curves"] == {"c000": {"epochs": [1], "values": [0.4]}}
    assert units["units"] == [unit("c000", 0), unit("c000", 1, "w1")]


def test_runs_of_label_errors_are_no_experiments(tmp_path: Path, store: Store) -> None:
    write_run(store)
    folds = {**SPEC, "run": "r0", "configs": [{"lr": 0.1, HELD_OUT_FOLD: fold} for fold in range(2)]}
    write_document(store, folds, "runs", "r0", "run.json")
    assert index(tmp_path / "server.sqlite", store) == [IndexedRun("r1", 5)]


def test_a_second_index_adds_what_is_new(tmp_path: Path, store: Store) -> None:
    write_run(store)
    path = tmp_path / "server.sqlite"
    index(path, store)
    write_document(store, STOPPED, "runs", "r1", "orders", "order-000003.json")
    assert index(path, store) == [IndexedRun("r1", 1)]
    assert index(path, store) == [IndexedRun("r1", 0)]
    assert documents(path)[0]["experiment"]["state"] == "ended"


def test_a_lost_database_is_rebuilt_as_the_runner_had_reported_it(tmp_path: Path, store: Store) -> None:
    write_run(store)
    reported = tmp_path / "reported.sqlite"
    engine = open_database(reported)
    app = create_server(WebSettings(), engine, [])
    token = app.state.accounts.set_program("cluster", "runner")
    client = TestClient(app, base_url=WebSettings().url, headers={"Authorization": f"Bearer {token}"})
    runner = FakeRunner(client)
    runner.register(store=store.uri, session="process")
    runner.report("orders", *ORDERS)
    runner.report("units", *UNITS)
    engine.dispose()
    # The runner does not report tracebacks, which an index adds.
    assert index(reported, store) == [IndexedRun("r1", 0)]
    index(tmp_path / "rebuilt.sqlite", store)
    assert documents(tmp_path / "rebuilt.sqlite")[1] == documents(reported)[1]


def test_a_journal_that_began_anew_is_read_again(tmp_path: Path, store: Store) -> None:
    write_run(store)
    path = tmp_path / "server.sqlite"
    index(path, store)
    store.delete("runs", "r1", "orders")
    write_document(store, order(decisions=[start("c000", 9)]), "runs", "r1", "orders", "order-000000.json")
    assert index(path, store) == [IndexedRun("r1", 1)]
    assert [each["granted"] for each in documents(path)[1]["configurations"]] == [9]


def test_a_damaged_run_is_named_and_others_are_read(tmp_path: Path, store: Store) -> None:
    write_run(store, "r0")
    write_run(store)
    store.write(b"{", "runs", "r0", "orders", "order-000001.json")
    damaged, intact = index(tmp_path / "server.sqlite", store)
    assert (damaged.run, damaged.documents) == ("r0", 0) and "order-000001.json is damaged" in damaged.problem
    assert intact == IndexedRun("r1", 5)


def test_half_of_a_surrogate_pair_reaches_viewers(tmp_path: Path, store: Store) -> None:
    """A request with one is refused, but a name of a file in a journal may have one."""
    write_run(store)
    named = order(decisions=[start("c002", params={"path": "caf\udce9"}, reason="\ud800")])
    write_document(store, named, "runs", "r1", "orders", "order-000003.json")
    path = tmp_path / "server.sqlite"
    assert [each.problem for each in index(path, store)] == [""]
    assert documents(path)[1]["configurations"][2]["params"] == {"path": "caf\udce9"}
