"""Replays of searches with clones, and of what the user did meanwhile: every state has the bits of the first run."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from searches import BATCH, adult, common, disk_full_after, network, search

from cerebro_spark import PBT, GridSearch, ModelTrainer, Selection, SparkBackend, Store
from cerebro_spark.errors import RunError
from optimizer.procedures import Source
from optimizer.space import choice, log_uniform
from udfs.hopper import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from udfs.shards import PreparedData

pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    store = Store.from_uri(str(tmp_path_factory.mktemp("store")))
    return search(spark, store).prepare(adult(spark, 400))


def pbt(spark: SparkSession, store: Store, **others: Any) -> PBT:
    usual = {"population": 4, "num_epochs": 3, "quantile": 0.5, "only": ["lr"]}
    space = {"lr": log_uniform(1e-3, 1e-1), "hidden": choice([4, 8])}
    return PBT(search_space=space, **common(spark, store, metric="loss", **usual | others))


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def digests(found: Selection) -> dict[str, dict[int, str]]:
    """By configuration and version, the bits of every state that the store has."""
    checkpoints = Checkpoints(found.prepared.store, found.run_id)
    return {
        trial.trial_id: {record.version: record.digest for record in checkpoints.records(trial.trial_id)}
        for trial in found.trials
    }


def replayed(found: Selection, spark: SparkSession, workers: int = 2) -> Selection:
    """Replay a run, and compare all that it has with the first one's."""
    again = found.replay(backend=SparkBackend(spark, num_workers=workers, threads=1), progress=False)
    first, second = ({trial.trial_id: trial for trial in each.trials} for each in (found, again))
    assert first.keys() == second.keys()
    for name, trial in first.items():
        other = second[name]
        for attribute in ("params", "source", "visits", "history", "status", "reason", "traceback", "metric", "epoch"):
            assert repr(getattr(other, attribute)) == repr(getattr(trial, attribute)), f"{name} {attribute}"
    states, others = digests(found), digests(again)
    for name, of_trial in states.items():
        assert max(of_trial, default=0) == max(others[name], default=0), name
        for version in of_trial.keys() & others[name].keys():
            assert of_trial[version] == others[name][version], f"{name} after {version} units"
    return again


@pytest.mark.parametrize(("rounds", "workers"), [("rolling", 2), ("together", 1)])
def test_a_pbt_is_replayed_with_its_clones(
    spark: SparkSession, prepared: PreparedData, rounds: str, workers: int
) -> None:
    # A rolling generation of few epochs may have no clone: a late report has a lower loss than earlier ones.
    found = pbt(spark, prepared.store, rounds=rounds, generations=rounds, num_epochs=8).fit(prepared)
    assert any(trial.source is not None for trial in found.trials)
    again = replayed(found, spark, workers)
    if workers == 2:
        placed = [
            {(event.trial_id, event.epoch, event.partition): event.worker for event in each.outcome.events}
            for each in (found, again)
        ]
        assert placed[0] == placed[1]
    checkpoints = Checkpoints(prepared.store, again.run_id)
    units = len(prepared.partitions)
    for trial in again.trials:
        kept = {record.version // units for record in checkpoints.records(trial.trial_id) if not record.version % units}
        assert kept == {len(trial.history)}, f"{trial.trial_id}: a pin is left"


@pytest.mark.parametrize("kind", [pytest.param(GridSearch, marks=pytest.mark.slow), PBT])
def test_a_replay_that_stopped_is_begun_again(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch, kind: type[GridSearch | PBT]
) -> None:
    """A resumed run would train on, but not follow the visits of the first run."""
    make = {PBT: pbt, GridSearch: search}[kind]
    task = make(spark, prepared.store)
    name = f"first-{kind.__name__}"
    found = task.fit(prepared, run_id=name)
    backend = SparkBackend(spark, num_workers=2, threads=1)
    said = f"the disk is full.*replay {name!r} again, with another run_id"
    with disk_full_after(1, monkeypatch), pytest.raises(RunError, match=said):
        found.replay(backend=backend, run_id=f"cut-{kind.__name__}", progress=False)
    said = f"'cut-{kind.__name__}' is a replay of {name!r}, and is not resumed"
    settings: dict[str, Any] = {"backend": backend, "trainer_fn": task.trainer_fn, "progress": False}
    resume = task.resume if kind is PBT else partial(Selection.resume, prepared.store, **settings)
    with pytest.raises(RunError, match=said):
        resume(f"cut-{kind.__name__}")
    replayed(found, spark)


def test_what_the_user_did_is_replayed(spark: SparkSession, prepared: PreparedData) -> None:
    """Configurations added, cloned from an epoch long past, paused, and stopped within an epoch."""
    space = {"lr": [0.05, 0.01], "hidden": [4]}
    task = GridSearch(search_space=space, **common(spark, prepared.store, metric="loss", num_epochs=400, keep="epochs"))
    experiment = task.start(prepared)

    def epochs(name: str) -> int:
        return next(len(trial.history) for trial in experiment.trials if trial.trial_id == name)

    until(lambda: min(epochs("c000"), epochs("c001")) >= 3)
    experiment.pause("c001")
    late = experiment.clone("c000", lr=0.02, epoch=1, epochs=3)
    added = experiment.add({"lr": 0.1, "hidden": 8}, epochs=400)
    until(lambda: epochs(late) >= 1 and epochs(added) >= 1)
    again = experiment.clone(late, lr=0.2, epoch=1, epochs=400)
    until(lambda: epochs(again) >= 1)
    experiment.stop(added)
    experiment.resume("c001")
    until(lambda: epochs("c001") >= 5)
    experiment.stop("c001")
    experiment.end()
    found = experiment.wait()
    trials = {trial.trial_id: trial for trial in found.trials}
    assert (trials[late].source, trials[again].source) == (Source("c000", 1), Source(late, 1))
    assert trials[added].reason == "stopped by the user"
    replayed(found, spark)


def test_those_that_fail_are_replayed_up_to_there(spark: SparkSession, prepared: PreparedData) -> None:
    """One at its first unit, one within an epoch, one that clones were made of, and a clone."""

    def fragile(params: dict[str, Any]) -> ModelTrainer:
        class Breaks(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = network(params["hidden"])
                self.register_buffer("steps", torch.zeros(1))

            def forward(self, rows: torch.Tensor) -> torch.Tensor:
                if self.training:
                    self.steps += 1
                    if self.steps > params["steps"]:
                        raise ZeroDivisionError("of the user's own")
                return self.inner(rows)

        net = Breaks()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=BATCH)

    # An epoch is some six steps: within the first unit, within the second epoch, and long after.
    space = [{"steps": steps, "hidden": 4} for steps in (10**6, 1, 9, 200)]
    task = GridSearch(
        search_space=space,
        **common(spark, prepared.store, metric="loss", trainer_fn=fragile, num_epochs=400, keep="epochs"),
    )
    experiment = task.start(prepared)
    until(lambda: len(experiment.trials[3].history) >= 1)
    clone = experiment.clone("c003", steps=150, epoch=1, epochs=400)
    until(lambda: all(trial.status != "running" for trial in experiment.trials[1:]))
    experiment.end()
    found = experiment.wait()
    trials = {trial.trial_id: trial for trial in found.trials}
    assert {trials[name].status for name in ("c001", "c002", "c003", clone)} == {"raised"}
    assert not trials["c001"].visits
    assert trials["c002"].history
    assert trials[clone].history
    replayed(found, spark)
