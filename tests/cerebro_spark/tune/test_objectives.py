"""Searches that make several metrics good: decisions, fronts, and what goes on with their runs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from pyspark import cloudpickle
from searches import adult, common, disk_full_after, search, states, trainer

from cerebro_spark import (
    ASHA,
    PBT,
    AgingEvolution,
    GridSearch,
    Hyperband,
    ModelTrainer,
    RandomSearch,
    Selection,
    SparkBackend,
    Store,
    SuccessiveHalving,
)
from cerebro_spark.errors import InvalidArgumentError, NoModelError, RunError
from cerebro_spark.hopper import Journal
from optimizer.space import choice, log_uniform
from udfs.documents import write_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark.tune import Search
    from cerebro_spark.tune._result import TrialResult
    from udfs.shards import PreparedData

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BOTH = ["accuracy", "loss"]
GOALS = {"val_accuracy": 1, "val_loss": -1}
SPACE = {"lr": log_uniform(1e-4, 1e-1), "hidden": choice([4, 8])}

KINDS: list[tuple[type[Search], dict[str, Any]]] = [
    (RandomSearch, {"num_configurations": 4, "num_epochs": 2}),
    (SuccessiveHalving, {"num_configurations": 4, "max_epochs": 4, "eta": 2}),
    (Hyperband, {"max_epochs": 4, "eta": 2, "sampler": "tpe"}),
    (ASHA, {"max_epochs": 4, "eta": 2, "max_configurations": 6, "concurrency": 3}),
    (PBT, {"population": 4, "num_epochs": 3, "ready": 1}),
    (AgingEvolution, {"population": 2, "num_configurations": 4, "num_epochs": 1}),
]


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    store = Store.from_uri(str(tmp_path_factory.mktemp("store")))
    return search(spark, store).prepare(adult(spark, 400))


def grid(spark: SparkSession, store: Store, **settings: Any) -> GridSearch:
    space = {"lr": [0.1, 0.01, 0.001], "hidden": [4, 24]}
    return search(spark, store, **{"metric": BOTH, "search_space": space, "num_epochs": 1} | settings)


def beats(one: TrialResult, other: TrialResult) -> bool:
    gains = [way * (one.scores[name] - other.scores[name]) for name, way in GOALS.items()]
    return min(gains) >= 0 and max(gains) > 0


def assert_front(found: Selection) -> None:
    ended = [trial for trial in found.trials if trial.status == "finished"]
    assert all(trial.scores == {name: trial.history[-1][name] for name in GOALS} for trial in ended)
    expected = [trial.trial_id for trial in ended if not any(beats(other, trial) for other in ended)]
    assert [trial.trial_id for trial in found.front] == expected
    assert found.front[0].trial_id == found.best.trial_id
    assert found.best.metric == max(trial.scores["val_accuracy"] for trial in ended)
    tied = [trial for trial in ended if trial.metric == found.best.metric]
    assert found.best.scores["val_loss"] == min(trial.scores["val_loss"] for trial in tied)


def test_a_grid_has_a_front(spark: SparkSession, prepared: PreparedData) -> None:
    found = grid(spark, prepared.store).fit(prepared, run_id="grid")
    assert_front(found)
    assert found.spec.metric == "val_accuracy"
    assert [(each.metric, each.mode) for each in found.spec.objectives] == [
        ("val_accuracy", "max"),
        ("val_loss", "min"),
    ]
    assert Journal(prepared.store, "grid").spec() == found.spec
    said = found.explain()
    assert said.startswith("front of val_accuracy (max), val_loss (min):\n")
    assert all(f"  {trial.trial_id}: " in said for trial in found.front)
    (row,) = found.tables()["experiments"].to_dict("records")
    assert (row["metric"], row["mode"]) == ("val_accuracy,val_loss", "max,min")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [pytest.param(*pair, marks=() if pair[0] is ASHA else pytest.mark.slow, id=pair[0].__name__) for pair in KINDS],
)
def test_every_search_has_a_front(
    spark: SparkSession, prepared: PreparedData, kind: type[Search], settings: dict[str, Any]
) -> None:
    task = kind(**common(spark, prepared.store, metric=BOTH, search_space=SPACE, schedule="fixed", **settings))
    assert str(task.plan())
    found = task.fit(prepared)
    assert_front(found)
    assert [each.metric for each in found.ledger.objectives] == list(GOALS)
    again = found.replay(backend=task.backend, progress=False)
    ours, theirs = states(found), states(again)
    assert all((ours[config][name] == theirs[config][name]).all() for config in ours for name in ours[config])
    assert [trial.trial_id for trial in again.front] == [trial.trial_id for trial in found.front]


def test_the_worst_in_one_metric_may_be_the_best_in_the_other(spark: SparkSession, prepared: PreparedData) -> None:
    settings: dict[str, Any] = {
        "search_space": {"kind": ["right", "poor", "sure"]},
        "trainer_fn": of_two_minds,
        "num_epochs": 1,
        "test_fraction": 0.25,
    }
    found = grid(spark, prepared.store, **settings).fit(prepared)
    kinds = {trial.params["kind"]: trial for trial in found.trials}
    assert kinds["right"].scores["val_accuracy"] > kinds["sure"].scores["val_accuracy"]
    assert kinds["right"].scores["val_loss"] > kinds["sure"].scores["val_loss"]
    assert [trial.params["kind"] for trial in found.front] == ["right", "sure"]


def of_two_minds(params: dict[str, Any]) -> ModelTrainer:
    """Networks that do not learn: wildly sure of the usual class, of the other one, and undecided on the wrong side."""
    bias = {"right": (60.0, -60.0), "poor": (-60.0, 60.0), "sure": (0.0, 0.01)}[params["kind"]]
    net = torch.nn.Linear(5, 2)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.copy_(torch.tensor(bias))
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.0),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=64,
    )


def failing(params: dict[str, Any]) -> ModelTrainer:
    if params["hidden"] == 8:
        raise ValueError("no eight")
    if params["hidden"] == 16:
        params = {**params, "lr": float("inf")}
    return trainer(params)


def test_who_fails_or_diverges_is_not_on_the_front(spark: SparkSession, prepared: PreparedData) -> None:
    space = {"lr": [0.01], "hidden": [4, 8, 16]}
    found = grid(spark, prepared.store, search_space=space, trainer_fn=failing).fit(prepared)
    assert sorted(trial.status for trial in found.trials) == ["diverged", "finished", "raised"]
    assert [trial.params["hidden"] for trial in found.front] == [4]
    assert found.trials[0].params["hidden"] == 4
    with pytest.raises(NoModelError, match="all configurations ended without a val_accuracy"):
        _ = (
            grid(spark, prepared.store, search_space={"lr": [0.01], "hidden": [16]}, trainer_fn=failing)
            .fit(prepared)
            .front
        )


def test_a_run_goes_on_with_all_its_objectives(spark: SparkSession, prepared: PreparedData) -> None:
    settings: dict[str, Any] = {"schedule": "fixed", "rounds": "together"}
    grid(spark, prepared.store, **settings).fit(prepared, run_id="short")
    backend = SparkBackend(spark, num_workers=2, threads=1)
    resumed = Selection.resume(
        prepared.store, "short", backend=backend, trainer_fn=trainer, num_epochs=2, progress=False
    )
    assert_front(resumed)
    whole = grid(spark, prepared.store, num_epochs=2, **settings).fit(prepared)
    assert [trial.scores for trial in resumed.trials] == [trial.scores for trial in whole.trials]
    with pytest.raises(RunError, match=r"metric=\['val_accuracy', 'val_loss'\], and this search metric='val_accuracy'"):
        grid(spark, prepared.store, metric="accuracy", **settings).resume("short")


def test_a_killed_search_decides_the_same_by_both(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"metric": BOTH, "search_space": SPACE, "schedule": "fixed", "rounds": "together"}
    task = SuccessiveHalving(**common(spark, prepared.store, num_configurations=4, max_epochs=4, eta=2, **settings))
    whole = task.fit(prepared)
    with disk_full_after(3, monkeypatch), pytest.raises(RunError, match="the disk is full"):
        task.fit(prepared, run_id="halved")
    found = task.resume("halved")
    assert [(trial.trial_id, trial.scores, trial.reason) for trial in found.trials] == [
        (trial.trial_id, trial.scores, trial.reason) for trial in whole.trials
    ]


def test_a_run_of_an_earlier_release_has_one(spark: SparkSession, prepared: PreparedData) -> None:
    found = grid(spark, prepared.store, metric="accuracy").fit(prepared, run_id="plain")
    assert found.front[0].trial_id == found.best.trial_id
    assert {trial.metric for trial in found.front} == {found.best.metric}
    data = asdict(found.spec) | {"run": "older"}
    del data["other_objectives"]
    write_document(prepared.store, data, "runs", "older", "run.json")
    assert Journal(prepared.store, "older").spec().objectives == found.spec.objectives
    for others in ([["val_loss", "least"]], [["val_loss"]], "val_loss"):
        write_document(prepared.store, data | {"other_objectives": others}, "runs", "older", "run.json")
        with pytest.raises(RunError):
            Journal(prepared.store, "older").spec()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"metric": []}, "must be a name or a sequence of names"),
        ({"metric": [""]}, "must be a name or a sequence of names"),
        ({"metric": ["accuracy", 3]}, "must be a text or a list of texts"),
        ({"metric": ["loss", "loss"]}, "once, got 'loss' twice"),
        ({"metric": ["accuracy", "val_accuracy"]}, "once, got 'accuracy' twice"),
        ({"mode": "max"}, "mode must have one entry for each metric"),
        ({"mode": ["max"]}, "one direction for each of the 2 metrics"),
        ({"mode": ["max", "least"]}, "'least'"),
        ({"metric": "loss", "mode": "most"}, "'most'"),
        ({"metric": "loss", "mode": ["min", "min"]}, "one direction for each of the 1 metrics"),
    ],
    ids=str,
)
def test_objectives_that_cannot_be(
    spark: SparkSession, prepared: PreparedData, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        grid(spark, prepared.store, **settings)


def test_a_metric_that_the_trainer_has_not(spark: SparkSession, prepared: PreparedData) -> None:
    with pytest.raises(InvalidArgumentError, match="the trainer's, loss, accuracy, auc, got 'latency'"):
        grid(spark, prepared.store, metric=["accuracy", "latency"]).fit(prepared)


def test_a_mode_is_taken_at_its_word(spark: SparkSession, prepared: PreparedData) -> None:
    found = grid(spark, prepared.store, mode=["min", "max"]).fit(prepared)
    assert found.best.metric == min(trial.metric for trial in found.trials)
    assert [(each.metric, each.mode) for each in found.spec.objectives] == [
        ("val_accuracy", "min"),
        ("val_loss", "max"),
    ]
