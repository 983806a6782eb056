"""Clones in searches on a real session: models along a lineage are those of plain loops, whatever ends in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from searches import BATCH, FEATURES, adult, network, search, states, trainer

from cerebro_spark import PBT, AgingEvolution, ScheduleSearch, SparkBackend, Store
from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Journal, inspect_store
from optimizer.procedures import Source
from optimizer.space import choice, log_uniform
from udfs.hopper import Checkpoints
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark import Selection
    from cerebro_spark.tune import Search, TrialResult
    from udfs.shards import PreparedData

# Of the plain loops below: a new scheduler takes its source's steps before its optimizer has taken any.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")

KINDS: dict[type[Search], dict[str, Any]] = {
    PBT: {"population": 4, "num_epochs": 3, "quantile": 0.5, "only": ["lr"]},
    AgingEvolution: {"population": 2, "num_configurations": 5, "num_epochs": 1, "concurrency": 2},
}
EXACT = {"schedule": "fixed", "rounds": "together"}


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    store = Store.from_uri(str(tmp_path_factory.mktemp("store")))
    return search(spark, store).prepare(adult(spark, 400))


def make(kind: type[Search], spark: SparkSession, store: Store, **settings: Any) -> Search:
    usual = {
        "backend": SparkBackend(spark, num_workers=2, threads=1),
        "store": store,
        "trainer_fn": trainer,
        "feature_columns": FEATURES,
        "label_columns": ["label"],
        "metric": "loss",
        "progress": False,
        "seed": 5,
    }
    if kind is not ScheduleSearch:
        usual["search_space"] = {"lr": log_uniform(1e-3, 1e-1), "hidden": choice([4, 8])}
    return kind(**usual | KINDS.get(kind, {}) | settings)


def ancestors(trials: dict[str, TrialResult], name: str) -> list[tuple[TrialResult, int | None]]:
    """A trial and those that it comes from, the first ancestor first, each with the epochs that it gave."""
    line: list[tuple[TrialResult, int | None]] = [(trials[name], None)]
    while (source := line[0][0].source) is not None:
        line.insert(0, (trials[source.trial_id], source.epoch))
    return line


def plain_lineage(prepared: PreparedData, line: list[tuple[TrialResult, int | None]], seed: int) -> dict[str, Any]:
    """Ordinary loops, one trainer after the other, on one thread, with nothing of ours but data and seeds.

    A new trainer has the weights of the one before, its optimizer's slots, and a scheduler that has stepped as often.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    units, epochs = len(prepared.partitions), 0
    before: tuple[Any, Any] | None = None
    for trial, given in line:
        torch.manual_seed(initial_seed(seed, trial.trial_id))
        net = network(trial.params["hidden"])
        optimizer = torch.optim.Adam(net.parameters(), lr=trial.params["lr"])
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        if before is not None:
            net.load_state_dict(before[0].state_dict())
            for own, other in zip(net.parameters(), before[0].parameters(), strict=True):
                optimizer.state[own] = before[1].state[other]
            for _ in range(epochs):
                scheduler.step()
        net.train()
        visits = trial.visits if given is None else trial.visits[: given * units]
        for place, (epoch, partition) in enumerate(visits):
            data = load_shard(prepared, "train", partition)
            order = row_order(seed, trial.trial_id, epoch, partition, data.rows)
            for start in range(0, data.rows, BATCH):
                picked = order[start : start + BATCH]
                optimizer.zero_grad()
                outputs = net(torch.from_numpy(data.inputs[0][picked]))
                torch.nn.functional.cross_entropy(outputs, torch.from_numpy(data.labels[0][picked])).backward()
                optimizer.step()
            if place % units == units - 1:
                scheduler.step()
                epochs += 1
        before = net, optimizer
    torch.set_num_threads(threads)
    return {name: value.numpy() for name, value in net.state_dict().items()}


def exact(found: Selection) -> None:
    held, trials = states(found), {trial.trial_id: trial for trial in found.trials}
    assert held.keys() == {name for name, trial in trials.items() if trial.visits}
    for name, state in held.items():
        for tensor, value in plain_lineage(found.prepared, ancestors(trials, name), 5).items():
            np.testing.assert_array_equal(state[tensor], value, err_msg=f"{name} {tensor}")


def told(found: Selection) -> dict[str, Any]:
    return {
        trial.trial_id: (trial.params, trial.source, trial.history, trial.status, trial.reason)
        for trial in found.trials
    }


def epochs_in_store(found: Selection) -> dict[str, set[int]]:
    checkpoints, units = Checkpoints(found.prepared.store, found.run_id), len(found.prepared.partitions)
    return {
        trial.trial_id: {
            record.version // units for record in checkpoints.records(trial.trial_id) if record.version % units == 0
        }
        for trial in found.trials
    }


@pytest.mark.parametrize("rounds", ["rolling", "together"])
def test_models_of_pbt_are_those_of_plain_loops_along_their_lineage(
    spark: SparkSession, prepared: PreparedData, rounds: str
) -> None:
    found = make(PBT, spark, prepared.store, rounds=rounds, generations=rounds).fit(prepared)
    clones = [trial for trial in found.trials if trial.source is not None]
    assert clones
    assert {trial.status for trial in found.trials} == {"finished"}
    for trial in clones:
        *_, (name, epoch), (own, finished) = found.lineage(trial.trial_id)
        assert Source(name, epoch) == trial.source
        assert (own, finished) == (trial.trial_id, len(trial.history))
    exact(found)
    assert all(not finding.defect for finding in inspect_store(prepared.store))
    # The states of sources are gone with the clones' need of them.
    for name, kept in epochs_in_store(found).items():
        assert kept == {len(found.history()[name])}, name


def test_aging_evolution_mutates_and_trains_from_new_weights(spark: SparkSession, prepared: PreparedData) -> None:
    found = make(AgingEvolution, spark, prepared.store).fit(prepared)
    assert len(found.trials) == 5
    assert all(trial.source is None for trial in found.trials)
    params = {trial.trial_id: trial.params for trial in found.trials}
    orders = Journal(prepared.store, found.run_id).orders()
    starts = [decision for order in orders for decision in order.decisions if hasattr(decision, "params")]
    mutated = [start for start in starts if start.reason.startswith("mutation of ")]
    assert len(mutated) == 3
    for start in mutated:
        parent = params[start.reason.removeprefix("mutation of ")]
        assert sum(start.params[name] != parent[name] for name in parent) == 1
    exact(found)


@pytest.mark.extended
@pytest.mark.parametrize("orders", [1, 2, 3])
def test_pbt_whose_driver_ends_anywhere_decides_the_same(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch, orders: int
) -> None:
    whole = make(PBT, spark, prepared.store, **EXACT).fit(prepared, run_id=f"whole-{orders}")
    write = Journal.order

    def full(journal: Journal, exchange: Any) -> None:
        if len(journal.orders()) == orders:
            raise OSError("the disk is full")
        write(journal, exchange)

    task = make(PBT, spark, prepared.store, **EXACT)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "order", full)
        with pytest.raises(RunError, match="the disk is full"):
            task.fit(prepared, run_id=f"cut-{orders}")
    found = task.resume(f"cut-{orders}")
    assert told(found) == told(whole)
    exact(found)
