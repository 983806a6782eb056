"""Searches that users of a server steer: each command once, the whole journal, and the bits of an undisturbed run."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from played_server import TOKEN, PlayedServer
from searches import adult, common, disk_full_after, search, states

from cerebro_spark import GridSearch, Selection, Store
from cerebro_spark.errors import InvalidArgumentError, RunError
from cerebro_spark.hopper import Journal
from cerebro_spark.steering.runner import _backoff, _runner
from optimizer.procedures import Added, Extended, OutOfTime, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from udfs.shards import PreparedData

EPOCHS = 6
MANY = 400


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    store = Store.from_uri(str(tmp_path_factory.mktemp("store")))
    return search(spark, store).prepare(adult(spark, 400))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_TOKEN", TOKEN)
    for name, value in {"_LOOK_S": 0.02, "_LAST_S": 0.05, "_WAIT_S": 1}.items():
        monkeypatch.setattr(_runner, name, value)
    monkeypatch.setattr(_backoff, "_FIRST_S", 0.01)
    monkeypatch.setattr(_backoff, "_LONGEST_S", 0.1)


@pytest.fixture
def server() -> Iterator[PlayedServer]:
    chance = random.Random(7)
    played = PlayedServer(lambda: chance.choice(["", "", "drop", "forget", "busy"]))
    with played.running():
        yield played


def grid(spark: SparkSession, store: Store, **settings: Any) -> GridSearch:
    usual = {
        "search_space": {"lr": [0.1, 0.01], "hidden": [4, 8]},
        "num_epochs": EPOCHS,
        "metric": "loss",
        "schedule": "fixed",
    }
    return GridSearch(**common(spark, store, **usual | settings))


def same_bits(found: Selection, whole: Selection) -> int:
    """Compare the configurations that have trained as many epochs; gives how many."""
    weights, expected = states(found), states(whole)
    lengths = {trial.trial_id: len(trial.history) for trial in whole.trials}
    finished = [trial for trial in found.trials if len(trial.history) == lengths.get(trial.trial_id)]
    for trial in finished:
        for name, value in expected[trial.trial_id].items():
            np.testing.assert_array_equal(weights[trial.trial_id][name], value, err_msg=f"{trial.trial_id} {name}")
    return len(finished)


def check_delivered(server: PlayedServer, store: Store, run: str) -> None:
    """Compare what the server has with the files of the run."""
    assert not server.problems
    assert server.streams["orders"] == [order.document() for order in Journal(store, run).orders()]
    units = [unit for part in server.streams["units"] for unit in part]
    assert len(units) == len(Journal(store, run).events())


def carried_out(store: Store, run: str) -> list[str]:
    """List the commands in the journal of a run."""
    return [
        result.origin.command
        for order in Journal(store, run).orders()
        for result in order.results
        if isinstance(result, (Added, Extended, Stopped, OutOfTime)) and result.origin is not None
    ]


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def test_commands_of_a_servers_users_are_carried_out_once(
    spark: SparkSession, prepared: PreparedData, server: PlayedServer, tmp_path: Path
) -> None:
    search = grid(spark, prepared.store, num_epochs=MANY, tensorboard=str(tmp_path))
    experiment = search.start(prepared, run_id="steered", server=server.address)
    until(lambda: len(experiment.trials) == 4 and all(trial.history for trial in experiment.trials))
    documents: dict[str, dict[str, Any]] = {
        "add": {"command": "add", "params": {"lr": 0.05, "hidden": 4}, "epochs": 2},
        "clone": {"command": "clone", "trial": "c000", "params": {"lr": 0.2}, "epoch": None, "epochs": 1},
        "stop": {"command": "stop", "trial": "c001"},
        "again": {"command": "stop", "trial": "c001"},
        "pause": {"command": "pause", "trial": "c002"},
        "typo": {"command": "clone", "trial": "c000", "params": {"learning_rate": 0.2}},
        "prioritise": {"command": "prioritise", "trial": "c003"},
    }
    for ident, document in documents.items():
        server.command(ident, document)
    server.until(lambda: "pending" not in server.states().values())
    paused = next(trial for trial in experiment.trials if trial.trial_id == "c002")
    assert paused.status == "paused"
    until(lambda: [len(trial.history) for trial in experiment.trials][4:] == [2, 1])
    server.command("end", {"command": "end"})
    found = experiment.wait()
    refused = {ident for ident, state in server.states().items() if state == "refused"}
    assert refused == {"again", "typo"}
    assert carried_out(prepared.store, "steered") == ["add", "clone", "stop", "end"]
    assert [trial.reason for trial in sorted(found.trials, key=lambda trial: trial.trial_id)] == [
        "ended by ada",
        "stopped by ada",
        "ended by ada",
        "ended by ada",
        "finished its 2 epochs",
        "finished its 1 epochs",
    ]
    check_delivered(server, prepared.store, "steered")
    assert server.settings["tensorboard"] == str(tmp_path)
    assert set(server.ended) == {""}
    assert server.settings["workers"] == 2
    assert server.settings["store"] == prepared.store.uri


def test_a_search_of_paused_configurations_says_once_that_it_waits(
    spark: SparkSession, prepared: PreparedData, server: PlayedServer, caplog: pytest.LogCaptureFixture
) -> None:
    experiment = grid(spark, prepared.store, num_epochs=MANY).start(prepared, run_id="waits", server=server.address)
    until(lambda: len(experiment.trials) == 4)
    for number in range(4):
        server.command(f"pause{number}", {"command": "pause", "trial": f"c00{number}"})
    server.until(lambda: "pending" not in server.states().values())
    with pytest.raises(TimeoutError):
        experiment.wait(timeout_s=5.0)
    assert caplog.messages.count("run waits waits until a user resumes or stops c000, c001, c002, c003") == 1
    server.command("end", {"command": "end"})
    experiment.wait()


@pytest.mark.parametrize("seed", [1, 2])
def test_any_history_of_pauses_and_stops_gives_the_bits_of_none(
    spark: SparkSession, prepared: PreparedData, server: PlayedServer, seed: int
) -> None:
    task = grid(spark, prepared.store, num_epochs=30)
    whole = task.fit(prepared)
    chance = random.Random(seed)
    run = f"history-{seed}"
    # The run waits for c000, and c003 for its stop, however fast they are.
    for trial in ("c000", "c003"):
        server.command(f"hold-{trial}", {"command": "pause", "trial": trial})
    experiment = task.start(prepared, run_id=run, server=server.address)
    until(lambda: len(experiment.trials) == 4)
    server.command("stop", {"command": "stop", "trial": "c003"})
    kinds = ["pause", "pause", "resume", "prioritise"]
    for number in range(30):
        document = {"command": chance.choice(kinds), "trial": f"c{chance.randint(1, 3):03d}"}
        server.command(f"{number:02d}", document)
        time.sleep(chance.random() * 0.1)
    for number in range(4):
        server.command(f"last-{number}", {"command": "resume", "trial": f"c{number:03d}"})
    found = experiment.wait(120)
    assert same_bits(found, whole) == 3
    assert carried_out(prepared.store, run) == ["stop"]
    assert "applied" in {server.states()[f"{number:02d}"] for number in range(30)}
    check_delivered(server, prepared.store, run)


def test_a_run_that_stopped_is_resumed_with_its_commands_and_the_same_bits(
    spark: SparkSession, prepared: PreparedData, server: PlayedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full; the server has a command by then that is still pending."""
    task = grid(spark, prepared.store)
    whole = task.fit(prepared)
    with disk_full_after(9, monkeypatch):
        experiment = task.start(prepared, run_id="stopped", server=server.address)
        with pytest.raises(RunError, match="the disk is full"):
            experiment.wait()
    server.until(lambda: bool(server.ended))
    assert "the disk is full" in server.ended[0]
    server.command("add", {"command": "add", "params": {"lr": 0.05, "hidden": 4}, "epochs": 2})
    found = task.resume("stopped", server=server.address)
    assert server.states() == {"add": "applied"}
    assert same_bits(found, whole) == 4
    assert {trial.trial_id: len(trial.history) for trial in found.trials}["c004"] == 2
    check_delivered(server, prepared.store, "stopped")


def test_a_server_that_never_answers_costs_a_search_nothing_but_its_report(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_runner, "_DELIVERY_S", 0.2)
    with pytest.raises(InvalidArgumentError, match="server must be a URL"):
        grid(spark, prepared.store).start(prepared, server="there")
    server = PlayedServer()
    with server.running():
        pass
    task = grid(spark, prepared.store, num_epochs=1)
    found = task.fit(prepared, run_id="unreported", server=server.address)
    assert [trial.status for trial in found.trials] == ["finished"] * 4
    assert not server.settings


def test_more_epochs_give_the_bits_of_epochs_that_were_granted_at_once(
    spark: SparkSession, prepared: PreparedData, server: PlayedServer
) -> None:
    """For a running, a stopped and a finished configuration; the driver that resumes trains the same."""
    task = grid(spark, prepared.store)
    longer = grid(spark, prepared.store, num_epochs=EPOCHS + 3).fit(prepared)
    server.command("hold", {"command": "pause", "trial": "c003"})
    experiment = task.start(prepared, run_id="longer", server=server.address)
    server.until(lambda: server.states().get("hold") == "applied")
    server.command("running", {"command": "extend", "trial": "c003", "epochs": 3})
    server.command("stop", {"command": "stop", "trial": "c001"})
    server.until(lambda: server.states().get("stop") == "applied")
    left = EPOCHS + 3 - len(experiment.trials[1].history)
    server.command("stopped", {"command": "extend", "trial": "c001", "epochs": left})
    until(lambda: experiment.trials[0].status == experiment.trials[2].status == "finished")
    for number, epochs in enumerate((1, 2)):
        server.command(f"finished-{number}", {"command": "extend", "trial": "c000", "epochs": epochs})
    server.command("typo", {"command": "extend", "trial": "c009", "epochs": 1})
    server.until(lambda: "pending" not in server.states().values())
    server.command("free", {"command": "resume", "trial": "c003"})
    found = experiment.wait(120)
    assert {ident for ident, state in server.states().items() if state == "refused"} == {"typo"}
    assert {trial.trial_id: len(trial.history) for trial in found.trials} == {
        "c000": EPOCHS + 3,
        "c001": EPOCHS + 3,
        "c002": EPOCHS,
        "c003": EPOCHS + 3,
    }
    assert same_bits(found, longer) == 3
    assert carried_out(prepared.store, "longer") == ["running", "stop", "stopped", "finished-0", "finished-1"]
    check_delivered(server, prepared.store, "longer")
    again = task.resume("longer")
    assert [(trial.trial_id, trial.history, trial.reason) for trial in again.trials] == [
        (trial.trial_id, trial.history, trial.reason) for trial in found.trials
    ]
