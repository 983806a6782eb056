"""Clones in searches on a real session: models along a lineage are those of plain loops, whatever ends in between."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from searches import BATCH, FEATURES, adult, common, disk_full_after, network, search, states
from sessions import CONNECT

from cerebro_spark import (
    PBT,
    AgingEvolution,
    GridSearch,
    ModelTrainer,
    RandomSearch,
    ScheduleSearch,
    Store,
)
from cerebro_spark.callbacks import Callback
from cerebro_spark.errors import InvalidArgumentError, NoModelError, RunError
from cerebro_spark.hopper import KEEPS, Journal, inspect_store
from cerebro_spark.hopper._state import RunState
from optimizer import procedures
from optimizer.procedures import Patience, Schedule, Segment, Source
from optimizer.space import choice, log_uniform
from udfs.hopper import Checkpoints, SourceState
from udfs.packing import unpack
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark import Selection
    from cerebro_spark.callbacks import TrialStarted
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
    usual: dict[str, Any] = {"metric": "loss", **KINDS.get(kind, {})}
    if kind is not ScheduleSearch:
        usual["search_space"] = {"lr": log_uniform(1e-3, 1e-1), "hidden": choice([4, 8])}
    return kind(**common(spark, store, **usual | settings))


def ancestors(trials: dict[str, TrialResult], name: str) -> list[tuple[TrialResult, int | None]]:
    """A trial and those that it comes from, the first ancestor first, each with the epochs that it gave."""
    line: list[tuple[TrialResult, int | None]] = [(trials[name], None)]
    while (source := line[0][0].source) is not None:
        line.insert(0, (trials[source.trial_id], source.epoch))
    return line


def plain_lineage(prepared: PreparedData, line: list[tuple[TrialResult, int | None]], seed: int) -> dict[str, Any]:
    """Ordinary loops, one trainer after the other, on one thread, with nothing of ours but data and seeds.

    A new trainer has the weights of the one before, its optimizer's slots, and a scheduler that has stepped as often.
    A child has the part of the weights that both have, and nothing else.
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
        if before is not None and trial.source is not None and trial.source.weights_only:
            epochs = 0
            overlay(net, before[0])
        elif before is not None:
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


def overlay(net: torch.nn.Module, parent: torch.nn.Module) -> None:
    """Copy each element that both networks have, one by one."""
    with torch.no_grad():
        for own, other in zip(net.state_dict().values(), parent.state_dict().values(), strict=True):
            for place in np.ndindex(*own.shape):
                if all(index < size for index, size in zip(place, other.shape, strict=True)):
                    own[place] = other[place]


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


def records(found: Selection, trial_id: str) -> list[Any]:
    return Checkpoints(found.prepared.store, found.run_id).records(trial_id)


@pytest.mark.parametrize("rounds", ["rolling", pytest.param("together", marks=pytest.mark.slow)])
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


def test_children_of_aging_evolution_inherit_and_go_on_within_an_epoch(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"inherit_weights": True, "num_configurations": 6, "concurrency": 1}
    task = make(AgingEvolution, spark, prepared.store, **settings, **EXACT)
    whole = task.fit(prepared)
    exact(whole)
    children = [trial for trial in whole.trials if trial.source is not None]
    assert len(children) == 4
    assert any("in part" in trial.inherited for trial in children)
    for trial in children:
        source = trial.source
        assert source is not None
        assert source.weights_only
        assert whole.lineage(trial.trial_id) == ((trial.trial_id, 1),)
    with disk_full_after(4, monkeypatch), pytest.raises(RunError, match="the disk is full"):
        task.fit(prepared, run_id="cut")
    resumed = task.resume("cut")
    assert told(resumed) == told(whole)
    assert [trial.inherited for trial in resumed.trials] == [trial.inherited for trial in whole.trials]
    exact(resumed)
    again = whole.replay(backend=task.backend)
    exact(again)


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("orders", [1, 2, 3])
@pytest.mark.parametrize("place", ["order", "write_trial"])
def test_pbt_whose_driver_ends_anywhere_decides_the_same(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch, place: str, orders: int
) -> None:
    """Before decisions are written, and after that, when clones are still at their beginning."""
    whole = make(PBT, spark, prepared.store, **EXACT).fit(prepared)
    write, run = getattr(Journal, place), f"cut-{place}-{orders}"

    def full(journal: Journal, what: Any) -> None:
        if len(journal.orders()) == orders + (place == "write_trial") and getattr(what, "status", "") != "running":
            raise OSError("the disk is full")
        write(journal, what)

    task = make(PBT, spark, prepared.store, **EXACT)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, place, full)
        with pytest.raises(RunError, match="the disk is full"):
            task.fit(prepared, run_id=run)
    if place == "write_trial" and orders < 3:
        begun = {trial.trial_id for trial in whole.trials if trial.source is not None}
        assert begun - set(Journal(prepared.store, run).trial_ids()), "a clone has nothing in the store yet"
    found = task.resume(run)
    assert told(found) == told(whole)
    exact(found)


@pytest.mark.extended
@pytest.mark.parametrize("rounds", ["together", pytest.param("rolling", marks=pytest.mark.slow)])
def test_a_source_whose_state_is_damaged_trains_up_to_there_again_while_its_clone_waits(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch, rounds: str
) -> None:
    settings = {"schedule": "fixed", "rounds": rounds}
    whole = make(PBT, spark, prepared.store, **settings).fit(prepared)
    write, run = Journal.write_trial, f"damaged-{rounds}"

    def full(journal: Journal, trial: Any) -> None:
        if len(journal.orders()) == 2 and trial.status != "running":
            raise OSError("the disk is full")
        write(journal, trial)

    task = make(PBT, spark, prepared.store, **settings)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write_trial", full)
        with pytest.raises(RunError, match="the disk is full"):
            task.fit(prepared, run_id=run)
    folder = Path(prepared.store.path("runs", run, "checkpoints"))
    sources = {trial.source.trial_id for trial in whole.trials if trial.source and trial.source.epoch == 1}
    damaged = [path for name in sources for path in (folder / name).glob("000002-*.safetensors")]
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    found = task.resume(run)
    assert told(found) == told(whole)
    exact(found)


class KillsOne(Callback):
    """Kills a worker's process as soon as the first clone has started."""

    def __init__(self) -> None:
        self.killed = 0

    def trial_started(self, event: TrialStarted) -> None:  # the first one will do
        if self.killed:
            return
        import psutil  # not everybody has it

        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                if any(word.startswith("heartbeat of ") for word in process.cmdline()):
                    process.parent().kill()
                    self.killed += 1
                    return


@pytest.mark.slow
@pytest.mark.skipif(CONNECT, reason="the workers are below the server's process")
def test_a_worker_that_is_killed_changes_no_decision(spark: SparkSession, prepared: PreparedData) -> None:
    pytest.importorskip("psutil")
    whole = make(PBT, spark, prepared.store, **EXACT).fit(prepared, run_id="calm")
    kills = KillsOne()
    found = make(PBT, spark, prepared.store, callbacks=[kills], **EXACT).fit(prepared, run_id="killed")
    assert kills.killed == 1
    assert told(found) == told(whole)
    exact(found)


@pytest.mark.slow
def test_the_schedule_of_the_best_trains_alone(spark: SparkSession, prepared: PreparedData) -> None:
    found = make(PBT, spark, prepared.store).fit(prepared)
    clone = next(trial for trial in found.trials if trial.source is not None and len(trial.history) == 1)
    schedule = found.schedule_of(clone.trial_id)
    line = found.lineage(clone.trial_id)
    trials = {trial.trial_id: trial for trial in found.trials}
    assert [(dict(part.params), part.epochs) for part in schedule.segments] == [
        (trials[name].params, epochs) for name, epochs in line
    ]
    assert found.schedule_of().segments[-1].params == found.best_params
    alone = make(ScheduleSearch, spark, prepared.store, segments=schedule).fit(prepared)
    assert [trial.source for trial in sorted(alone.trials, key=lambda trial: trial.trial_id)] == [
        None,
        *(Source(f"c{number:03d}", epochs) for number, (_, epochs) in enumerate(line[:-1])),
    ]
    exact(alone)
    with pytest.raises(InvalidArgumentError, match="trials, got 'c99'"):
        found.schedule_of("c99")


def test_a_clone_with_a_rate_of_zero_does_not_move(spark: SparkSession, prepared: PreparedData) -> None:
    segments = Schedule((Segment({"lr": 0.05, "hidden": 4}, 1), Segment({"lr": 0.0, "hidden": 4}, 1)))
    found = make(ScheduleSearch, spark, prepared.store, segments=segments).fit(prepared)
    held = states(found)
    named = [name for name, _ in network(4).named_parameters()]
    for name in named:
        np.testing.assert_array_equal(held["c001"][name], held["c000"][name], err_msg=name)
    exact(found)


@pytest.mark.parametrize("case", ["other shapes", "no state"])
def test_a_clone_that_cannot_be_made_fails_alone(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    settings = {"quantile": 0.25, "num_epochs": 2}
    if case == "other shapes":
        settings["only"] = ["hidden"]
    else:
        lost = SourceState("c000", 2, "0" * 32)
        monkeypatch.setattr(RunState, "source_state", lambda _, trial: None if trial.source is None else lost)
    found = make(PBT, spark, prepared.store, **settings).fit(prepared)
    (clone,) = [trial for trial in found.trials if trial.source is not None]
    assert not clone.visits
    if case == "other shapes":
        assert clone.status == "raised"
        assert "the tensor 0.weight is (" in clone.traceback
    else:
        assert clone.status == "failed"
        assert f"a clone of {clone.source.trial_id} after epoch 1, whose state is damaged or missing" in clone.traceback
        assert "the store does not give the checkpoint of c000 at version 2" in clone.traceback
    others = [trial for trial in found.trials if trial.trial_id != clone.trial_id]
    assert {trial.status for trial in others} == {"finished"}
    assert max(len(trial.history) for trial in found.trials) == 2
    exact(found)


@pytest.mark.parametrize("keep", KEEPS)
def test_states_are_kept_as_keep_says(spark: SparkSession, prepared: PreparedData, keep: str) -> None:
    found = make(
        GridSearch,
        spark,
        prepared.store,
        search_space={"lr": [0.8, 0.02], "hidden": [8]},
        num_epochs=4,
        keep=keep,
        stoppers=[Patience(1)],
        schedule="fixed",  # The others follow measured times, and in 2 of 16 orders of visits none gets worse again.
    ).fit(prepared)
    rows = load_shard(prepared, "validation", 0)
    metric, stored = found.spec.metric, epochs_in_store(found)
    for trial in found.trials:
        values = [metrics[metric] for metrics in trial.history]
        best, last = values.index(min(values)) + 1, len(values)
        assert trial.epoch == (last if keep == "last" else best)
        assert trial.metric == values[trial.epoch - 1]
        assert stored[trial.trial_id] == {"last": {last}, "best": {best, last}, "epochs": {*range(1, last + 1)}}[keep]
        for epoch in (None, *stored[trial.trial_id]):
            net = network(8)
            weights = plain_lineage(prepared, [(trial, epoch or trial.epoch)], 5)
            net.load_state_dict({name: torch.from_numpy(np.asarray(value)) for name, value in weights.items()})
            with torch.inference_mode():
                expected = net.eval()(torch.from_numpy(rows.inputs[0])).numpy()
            (outputs,) = found.model(trial.trial_id, epoch=epoch).network.open()(rows.inputs)
            np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
        for epoch in {0, *range(1, 6)} - stored[trial.trial_id]:
            with pytest.raises(NoModelError, match=f"{trial.trial_id} after epoch {epoch}; .* keep='{keep}' are of"):
                found.model(trial.trial_id, epoch=epoch)
    assert found.best.metric == min(trial.metric for trial in found.trials)
    assert any(trial.epoch < len(trial.history) for trial in found.trials) == (keep != "last"), "some got worse again"
    assert all(not finding.defect for finding in inspect_store(prepared.store))


@pytest.mark.slow
def test_keras_models_of_pbt_are_those_of_plain_loops(spark: SparkSession, prepared: PreparedData) -> None:
    keras = pytest.importorskip("keras")

    def keras_trainer(params: dict[str, Any]) -> ModelTrainer:
        import keras  # on the worker

        net = keras.Sequential(
            [
                keras.Input((len(FEATURES),)),
                keras.layers.Dense(6, "relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.2),
                keras.layers.Dense(2, "softmax"),
            ]
        )
        return ModelTrainer(
            model=net,
            optimizer=keras.optimizers.Adam(params["lr"]),
            loss="sparse_categorical_crossentropy",
            batch_size=BATCH,
        )

    space = {"lr": log_uniform(1e-3, 1e-1)}
    settings = {"population": 2, "num_epochs": 2, "trainer_fn": keras_trainer, "search_space": space}
    found = make(PBT, spark, prepared.store, **settings).fit(prepared)
    trials, units = {trial.trial_id: trial for trial in found.trials}, len(prepared.partitions)
    assert trials["c002"].source is not None
    for name in trials:
        before: Any = None
        for trial, given in ancestors(trials, name):
            keras.utils.set_random_seed(initial_seed(5, trial.trial_id))
            made = keras_trainer(trial.params)
            made.model.compile(optimizer=made.optimizer, loss=made.loss, jit_compile=False)
            made.optimizer.build(made.model.trainable_variables)
            if before is not None:
                made.model.set_weights(before.model.get_weights())
                for own, other in zip(made.optimizer.variables, before.optimizer.variables, strict=True):
                    if own.name != "learning_rate":
                        own.assign(other)
            for epoch, partition in trial.visits if given is None else trial.visits[: given * units]:
                data = load_shard(prepared, "train", partition)
                order = row_order(5, trial.trial_id, epoch, partition, data.rows)
                for start in range(0, data.rows, BATCH):
                    picked = order[start : start + BATCH]
                    made.model.train_on_batch(data.inputs[0][picked], data.labels[0][picked])
            before = made
        last = records(found, name)[-1]
        read = Checkpoints(prepared.store, found.run_id).read(name, last.version, last.digest)
        state = unpack(read, lambda array, _kind: array)
        for value, variable in zip(state["model"], before.model.variables, strict=True):
            np.testing.assert_array_equal(value, variable.numpy(), err_msg=f"{name} {variable.path}")


SMALL = {"search_space": {"lr": [0.1]}, "num_epochs": 1}


def test_bad_settings_are_refused_before_anything_is_trained(spark: SparkSession, prepared: PreparedData) -> None:
    for kind, settings, said in (
        (PBT, {"population": 1}, r"population must be .*, got 1"),
        (PBT, {"quantile": 0.6}, r"quantile must be .*, got 0.6"),
        (PBT, {"ready": 9}, "ready must be at most epochs=3, got 9"),
        (PBT, {"only": "lr"}, "only must be a list of names.*got 'lr'"),
        (PBT, {"factors": ()}, "factors must have at least one number"),
        (PBT, {"generations": "rollign"}, r"generations must be .*, got 'rollign'"),
        (AgingEvolution, {"population": 1}, r"population must be .*, got 1"),
        (AgingEvolution, {"sample_size": 3}, "sample must be at most population=2, got 3"),
        (AgingEvolution, {"num_configurations": 1}, "configurations must be at least population=2"),
        (ScheduleSearch, {"segments": [{"lr": 0.1}]}, "a Schedule"),
        (RandomSearch, {"num_configurations": 1, "num_epochs": 1, "keep": "lsat"}, "did you mean 'last'"),
        (GridSearch, SMALL | {"checkpoints": "epoch"}, "did you mean 'epochs'"),
        (PBT, {"checkpoints": "end"}, "'visits' or 'epochs' .* PBT clones"),
        (GridSearch, SMALL | {"checkpoints": "end", "keep": "best"}, "keep='best' keeps"),
        (GridSearch, SMALL | {"checkpoints": "end", "max_seconds": 9.0}, "a limit may end"),
        (GridSearch, SMALL | {"checkpoints": "end", "stoppers": [Patience(1)]}, "stoppers end"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            make(kind, spark, prepared.store, **settings)


class ClonesNothing(procedures.Procedure):
    """Starts a clone of a configuration that has no state yet."""

    def decide(self, fresh: Any, idle: int) -> None:
        first = self.start({"lr": 0.1, "hidden": 4}, 1)
        assert first is not None
        self.start({"lr": 0.2, "hidden": 4}, 1, source=Source(first.trial_id, 1))

    def plan(self) -> Any:
        return procedures.Plan(
            procedure="ClonesNothing",
            stages=(),
            epochs_each=1,
            chain=1,
            configurations=2,
            clones=1,
            most_epochs=2,
        )


def test_a_clone_of_what_has_no_state_is_refused(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make(PBT, spark, prepared.store)
    monkeypatch.setattr(PBT, "procedure", lambda _self, **rules: ClonesNothing(**rules))
    with pytest.raises(procedures.ProcedureError, match="source must be a finished epoch of c000, 1 to 0, got epoch 1"):
        task.fit(prepared)


def test_the_users_clones_go_on_from_their_source(spark: SparkSession, prepared: PreparedData) -> None:
    space = {"lr": [0.05, 0.01], "hidden": [4]}
    task = make(GridSearch, spark, prepared.store, search_space=space, num_epochs=400, keep="epochs")
    experiment = task.start(prepared)
    while min(len(trial.history) for trial in experiment.trials) < 3:
        time.sleep(0.05)
    still = experiment.clone("c000", lr=0.0, epoch=2, epochs=1)
    late = experiment.clone("c001", epochs=2, lr=0.02)
    for call, said in (
        (lambda: experiment.clone("c000", lrr=0.1), "c000 has no parameter 'lrr'; did you mean 'lr'"),
        (lambda: experiment.clone("c009"), "trial_id must name a configuration of the run, got 'c009'"),
        (lambda: experiment.clone("c000", epoch=400, lr=0.1), "no state of c000 after epoch 400"),
        (lambda: experiment.clone("c000", epoch=0, lr=0.1), "no state of c000 after epoch 0"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            call()
    while any(len(trial.history) < 1 for trial in experiment.trials[2:]):
        time.sleep(0.05)
    again = experiment.clone(still, {"lr": 0.1}, epochs=1)
    while "running" in {trial.status for trial in experiment.trials if trial.trial_id in {again, late}}:
        time.sleep(0.05)
    experiment.end()
    found = experiment.wait()
    trials = {trial.trial_id: trial for trial in found.trials}
    assert trials[still].source == Source("c000", 2)
    assert trials[again].source == Source(still, 1)
    assert (trials[late].source.trial_id, len(trials[late].history)) == ("c001", 2)
    kept = {name: state for name, state in states(found).items() if name in {still, again}}
    for name, state in kept.items():
        for tensor, value in plain_lineage(prepared, ancestors(trials, name), 5).items():
            np.testing.assert_array_equal(state[tensor], value, err_msg=f"{name} {tensor}")


def test_a_clone_of_a_state_that_is_gone_is_refused(spark: SparkSession, prepared: PreparedData) -> None:
    space = {"lr": [0.05], "hidden": [4]}
    experiment = make(GridSearch, spark, prepared.store, search_space=space, num_epochs=400).start(prepared)
    while len(experiment.trials[0].history) < 3:
        time.sleep(0.05)
    with pytest.raises(InvalidArgumentError, match=r'no state of c000 after epoch 1: .* keep="epochs" keeps'):
        experiment.clone("c000", epoch=1, lr=0.1)
    clone = experiment.clone("c000", lr=0.1, epochs=1)
    while len(experiment.trials[1].history) < 1:
        time.sleep(0.05)
    experiment.end()
    found = experiment.wait()
    assert found.lineage(clone)[0][0] == "c000"
