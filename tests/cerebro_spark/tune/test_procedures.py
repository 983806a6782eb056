"""Searches by procedures on a real session: what their procedures decide, on models that are those of plain loops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest

torch = pytest.importorskip("torch")

from searches import adult, common, disk_full_after, plain_loop, search, states, trainer

from cerebro_spark import (
    ASHA,
    GridSearch,
    Hyperband,
    RandomSearch,
    Selection,
    SparkBackend,
    Spot,
    Store,
    SuccessiveHalving,
    draw_costs,
)
from cerebro_spark.callbacks import Callback, TrialFinished, TrialStarted
from cerebro_spark.errors import InvalidArgumentError, RunError
from optimizer.procedures import Patience
from optimizer.space import Space, choice, log_uniform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark.tune import Search
    from udfs.shards import PreparedData

SPACE = {"lr": log_uniform(1e-3, 1e-1), "hidden": choice([4, 8])}

KINDS: dict[type[Search], dict[str, Any]] = {
    RandomSearch: {"num_configurations": 3, "num_epochs": 1},
    SuccessiveHalving: {"num_configurations": 4, "max_epochs": 4, "eta": 2},
    Hyperband: {"max_epochs": 4, "eta": 2},
    ASHA: {"max_epochs": 4, "eta": 2, "max_configurations": 6, "concurrency": 3},
}


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    store = Store.from_uri(str(tmp_path_factory.mktemp("store")))
    return search(spark, store).prepare(adult(spark, 400))


def make(kind: type[Search], spark: SparkSession, store: Store, **settings: Any) -> Search:
    usual = {"search_space": SPACE, "metric": "loss", **KINDS.get(kind, {})}
    return kind(**common(spark, store, **usual | settings))


class Stories(Callback):
    """What is told of trials."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: dict[str, str] = {}

    def trial_started(self, event: TrialStarted) -> None:
        self.started.append(event.trial.trial_id)

    def trial_finished(self, event: TrialFinished) -> None:
        self.ended[event.trial_id] = event.reason


def exact(found: Selection) -> None:
    held = states(found)
    assert held.keys() == {trial.trial_id for trial in found.trials}
    for trial in found.trials:
        plain = plain_loop(found.prepared, trial.params, trial.trial_id, trial.visits, seed=5)
        for name, value in plain.items():
            np.testing.assert_array_equal(held[trial.trial_id][name], value, err_msg=f"{trial.trial_id} {name}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_procedure_trains_what_it_plans(kind: type[Search], spark: SparkSession, prepared: PreparedData) -> None:
    stories = Stories()
    task = make(kind, spark, prepared.store, callbacks=[stories])
    plan = task.plan()
    found = task.fit(prepared, run_id=kind.__name__.lower())
    assert {trial.status for trial in found.trials} == {"finished"}
    assert all(trial.reason for trial in found.trials)
    assert stories.ended == {trial.trial_id: trial.reason for trial in found.trials}
    assert len(found.trials) == plan.configurations
    assert plan.procedure == kind.__name__
    reached = Counter(len(trial.history) for trial in found.trials)
    if kind is not ASHA:
        assert sum(epochs * count for epochs, count in reached.items()) == plan.epochs
        assert stories.started == [], "all configurations are known at first"
    else:
        assert stories.started
        assert max(reached) == 4
    for trial in found.trials:
        epochs = range(len(trial.history))
        assert sorted(trial.visits) == [(epoch, partition) for epoch in epochs for partition in range(2)]
    assert found.best.metric == min(trial.metric for trial in found.trials)
    exact(found)


@pytest.mark.slow
def test_rounds_together_in_fixed_order_are_a_function_of_the_seed(spark: SparkSession, prepared: PreparedData) -> None:
    settings = {"schedule": "fixed", "rounds": "together"}
    runs = [
        make(ASHA, spark, prepared.store, **settings).fit(prepared, run_id=f"together-{number}") for number in range(2)
    ]
    one, other = ({trial.trial_id: trial for trial in found.trials} for found in runs)
    assert {name: (trial.params, trial.visits, trial.history) for name, trial in one.items()} == {
        name: (trial.params, trial.visits, trial.history) for name, trial in other.items()
    }


@pytest.mark.extended
def test_a_hyperband_is_replayed(spark: SparkSession, prepared: PreparedData) -> None:
    found = make(Hyperband, spark, prepared.store).fit(prepared, run_id="to-replay")
    again = found.replay(backend=SparkBackend(spark, num_workers=2, threads=1), progress=False)
    one, other = states(found), states(again)
    for name, state in one.items():
        for tensor, value in state.items():
            np.testing.assert_array_equal(value, other[name][tensor], err_msg=f"{name} {tensor}")


@pytest.mark.parametrize(("sampler", "orders"), [("random", 1), ("random", 3), ("tpe", 4)])
def test_a_search_whose_driver_ends_anywhere_decides_the_same(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch, sampler: str, orders: int
) -> None:
    """With one order of all visits, so that the losses on which it decides are those of an undisturbed run."""
    learning = optuna.samplers.TPESampler(seed=1, n_startup_trials=2)
    settings = {"schedule": "fixed", "rounds": "together", "sampler": learning if sampler == "tpe" else sampler}
    whole = make(Hyperband, spark, prepared.store, **settings).fit(prepared, run_id=f"whole-{sampler}-{orders}")
    run = f"cut-{sampler}-{orders}"

    task = make(Hyperband, spark, prepared.store, **settings)
    with disk_full_after(orders, monkeypatch), pytest.raises(RunError, match="the disk is full"):
        task.fit(prepared, run_id=run)
    found = task.resume(run)
    assert {trial.trial_id: (trial.params, trial.history, trial.reason) for trial in found.trials} == {
        trial.trial_id: (trial.params, trial.history, trial.reason) for trial in whole.trials
    }
    exact(found)
    units = [event for event in found.outcome.events if event.kind == "train"]
    assert found.unit_seconds * len(units) == pytest.approx(sum(event.seconds for event in found.outcome.events))
    study = found.study(SPACE)
    assert study.best_value == min(trial.metric for trial in found.trials if len(trial.history) == 4)
    by_id = {trial.trial_id: trial for trial in found.trials}
    for theirs in study.trials:
        ours = by_id[theirs.user_attrs["trial_id"]]
        assert theirs.params == ours.params
        assert theirs.intermediate_values == {epoch: row["val_loss"] for epoch, row in enumerate(ours.history, 1)}
        assert theirs.state.name == ("COMPLETE" if len(ours.history) == 4 else "PRUNED")


def test_a_search_that_knows_a_study_keeps_to_what_it_knew(spark: SparkSession, prepared: PreparedData) -> None:
    study = optuna.create_study()
    study.enqueue_trial({"lr": 0.01, "hidden": 8})
    distributions = {
        "lr": optuna.distributions.FloatDistribution(1e-3, 1e-1, log=True),
        "hidden": optuna.distributions.CategoricalDistribution([4, 8]),
    }
    study.tell(study.ask(distributions), 0.5)
    task = make(Hyperband, spark, prepared.store, sampler="tpe", study=study)
    study.tell(study.ask(distributions), 0.6)
    assert "knows 1 trials of a study" in str(task.plan())
    assert "knows 2 trials of a study" in str(make(Hyperband, spark, prepared.store, sampler="tpe", study=study).plan())
    with pytest.raises(InvalidArgumentError, match="must have the parameter 'width'"):
        make(Hyperband, spark, prepared.store, sampler="tpe", study=study, search_space={"width": [1, 2]})


def test_what_cannot_be_resumed_says_so(spark: SparkSession, prepared: PreparedData) -> None:
    make(RandomSearch, spark, prepared.store).fit(prepared, run_id="drawn")
    backend = SparkBackend(spark, num_workers=2, threads=1)
    with pytest.raises(InvalidArgumentError, match=r"'drawn' is a RandomSearch.* its resume\('drawn'\)"):
        Selection.resume(prepared.store, "drawn", backend=backend, trainer_fn=trainer)
    with pytest.raises(RunError, match="run_id must name a run of a Hyperband, got 'drawn', a run of a RandomSearch"):
        make(Hyperband, spark, prepared.store).resume("drawn")
    with pytest.raises(RunError, match=r"run 'drawn' cannot go on: decision 0 of call 0 differs"):
        make(RandomSearch, spark, prepared.store, seed=6).resume("drawn")
    for settings, said in (
        ({"metric": "accuracy"}, "metric='val_loss', and this search metric='val_accuracy'"),
        ({"mode": "max"}, "mode='min', and this search mode='max'"),
        ({"schedule": "fixed"}, "schedule='least-far-along', and this search schedule='fixed'"),
        ({"rounds": "together"}, "rounds='rolling', and this search rounds='together'"),
        ({"keep": "best"}, "keep='last', and this search keep='best'"),
        ({"replicas": 2}, "replicas=1, and this search replicas=2"),
    ):
        with pytest.raises(RunError, match=said):
            make(RandomSearch, spark, prepared.store, **settings).resume("drawn")


def test_early_stopping_and_limits(spark: SparkSession, prepared: PreparedData) -> None:
    space = {"lr": [0.0, 0.05], "hidden": [4]}
    stopped = make(
        GridSearch, spark, prepared.store, search_space=space, num_epochs=4, stoppers=[Patience(1, min_delta=10.0)]
    ).fit(prepared)
    assert {len(trial.history) for trial in stopped.trials} == {2}
    assert all(trial.reason.startswith("patience") for trial in stopped.trials)
    limited = make(RandomSearch, spark, prepared.store, max_total_epochs=2).fit(prepared)
    assert sum(len(trial.history) for trial in limited.trials) == 2
    brief = make(RandomSearch, spark, prepared.store, num_epochs=500, max_seconds=4.0).fit(prepared)
    assert all("seconds are over" in trial.reason for trial in brief.trials)
    assert all(len(trial.history) < 500 for trial in brief.trials)
    # Two workers at a cent a second, 8 cents: some four seconds.
    poor = make(RandomSearch, spark, prepared.store, num_epochs=500, price=36.0, max_cost=0.08).fit(prepared)
    assert all("the budget of 0.08 is spent" in trial.reason for trial in poor.trials)
    assert all(len(trial.history) < 500 for trial in poor.trials)


def test_a_plan_has_the_time_and_the_cost_by_workers(spark: SparkSession, prepared: PreparedData) -> None:
    """Nine configurations, 21 epochs, over 4 shards in units of an hour; 9 epochs follow one another in any case."""
    settings = {"num_shards": 4, "num_configurations": 9, "max_epochs": 9, "eta": 3}
    task = make(SuccessiveHalving, spark, prepared.store, **settings, price=0.5)
    assert task.plan().offers == ()
    plan = task.plan(3600.0)
    assert [(offer.workers, offer.seconds, offer.cost) for offer in plan.offers] == [
        (2, 42 * 3600, 42.0),
        (3, 36 * 3600, 54.0),
    ]
    assert str(plan).endswith("  at least, with 2 workers: 151200 s, 42\n  at least, with 3 workers: 129600 s, 54")
    assert [offer.workers for offer in task.plan(3600.0, workers=(1, 4)).offers] == [1, 4]
    free = make(SuccessiveHalving, spark, prepared.store, **settings)
    assert str(free.plan(3600.0)).splitlines()[-1] == "  at least, with 2 workers: 151200 s"
    assert free.plan(3600.0, price=0.5).offers == plan.offers
    spot = Spot(price=0.1, interruptions_per_hour=0.05, grace_s=120.0, restart_s=600.0)
    with pytest.raises(InvalidArgumentError, match="unit_seconds must be given with spot"):
        task.plan(spot=spot)
    with pytest.raises(InvalidArgumentError, match="plan must have offers with costs, got none"):
        draw_costs(free.plan(3600.0))
    machines = task.plan(3600.0, spot=spot)
    assert [(offer.workers, offer.seconds) for offer in machines.offers] == [
        (1, 84 * 3600.0),
        (2, 42 * 3600.0),
        (3, 36 * 3600.0),
        (4, 36 * 3600.0),
    ]
    useful = (1 - 0.05 / 3600 * (3600**2 - 120**2) / 7200) / (1 + 0.05 / 3600 * 600)
    assert [offer.expected_seconds for offer in machines.offers] == pytest.approx(
        [hours * 3600 / useful for hours in (84, 42, 36, 36)]
    )
    axes = draw_costs(machines).axes[0]
    front = axes.lines[-1]
    assert list(front.get_xdata()) == pytest.approx([36.0, 36 / useful, 42 / useful])
    assert list(front.get_ydata()) == pytest.approx([54.0, 36 / useful * 0.3, 42 / useful * 0.2])


def test_a_grid_of_a_space_has_its_live_branches_only(spark: SparkSession, prepared: PreparedData) -> None:
    space = Space({"lr": [0.1, 0.01], "net": choice({"flat": {}, "deep": {"hidden": [4, 8]}})})
    found = make(GridSearch, spark, prepared.store, search_space=space, num_epochs=1).configurations
    assert len(found) == 6
    assert {"lr": 0.1, "net": "flat"} in found


def test_bad_settings_are_refused_before_anything_is_trained(spark: SparkSession, prepared: PreparedData) -> None:
    for kind, settings, said in (
        (ASHA, {"max_configurations": None}, "max_total_epochs, max_seconds or max_cost"),
        (RandomSearch, {"max_cost": 1.0}, "max_cost must come with price"),
        (RandomSearch, {"price": 0}, "price must be a positive number or None, got 0"),
        (Hyperband, {"eta": 1}, r"eta must be .*, got 1"),
        (Hyperband, {"max_epochs": 0}, r"max_epochs must be .*, got 0"),
        (SuccessiveHalving, {"min_epochs": 9}, "min_epochs"),
        (RandomSearch, {"num_configurations": 0}, r"configurations must be .*, got 0"),
        (RandomSearch, {"search_space": {"lr": log_uniform}}, "lr"),
        (GridSearch, {"search_space": {"lr": log_uniform(0.1, 1)}, "num_epochs": 1}, r"search_space=Space\("),
        (RandomSearch, {"rounds": "togehter"}, "did you mean 'together'"),
        (RandomSearch, {"max_seconds": 0}, "max_seconds must be a positive number or None, got 0"),
        (RandomSearch, {"stoppers": ["patience"]}, "stoppers must be rules.*got 'patience'"),
        (Hyperband, {"sampler": "tpa"}, "did you mean 'tpe'"),
        (ASHA, {"sampler": optuna.samplers.TPESampler()}, r"must have a seed.*TPESampler\(seed=5\)"),
        (RandomSearch, {"study": optuna.create_study()}, "sampler must learn from the trials of study"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            make(kind, spark, prepared.store, **settings)
