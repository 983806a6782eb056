"""A search on real Spark and real data: exact, repeatable, resumable, and clear about what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from places import IMPORTS
from pyspark.sql import functions as F
from sessions import CONNECT

torch = pytest.importorskip("torch")

from searches import FEATURES, adult, plain_loop, search, states, trainer

from cerebro_spark import (
    ModelTrainer,
    Selection,
    SparkBackend,
    Store,
    TrainingFunctions,
    TunedModel,
)
from cerebro_spark.errors import (
    ColumnError,
    InvalidArgumentError,
    LabelError,
    NoModelError,
    RunError,
    ShardError,
    StoreError,
    TooFewSlotsError,
    TrainerError,
)
from cerebro_spark.hopper import Coordinator
from udfs.driver import _worker_jobs
from udfs.hopper import Checkpoints

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 1200


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return adult(spark, ROWS).cache()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.from_uri(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def found(spark: SparkSession, store: Store, table: DataFrame) -> Selection:
    return search(spark, store).fit(table, run_id="first")


def equal(one: dict[str, dict[str, np.ndarray]], other: dict[str, dict[str, np.ndarray]]) -> None:
    assert one.keys() == other.keys()
    for config, state in one.items():
        for name, value in state.items():
            np.testing.assert_array_equal(value, other[config][name], err_msg=f"{config} {name}")


def test_every_model_is_that_of_a_plain_loop(found: Selection) -> None:
    held = states(found)
    assert sorted(held) == ["c000", "c001", "c002", "c003"]
    for trial in found.trials:
        plain = plain_loop(found.prepared, trial.params, trial.trial_id, trial.visits, seed=5)
        for name, value in plain.items():
            np.testing.assert_array_equal(held[trial.trial_id][name], value, err_msg=f"{trial.trial_id} {name}")


def test_completeness_and_what_hops(found: Selection) -> None:
    for trial in found.trials:
        assert sorted(trial.visits) == [(epoch, partition) for epoch in range(2) for partition in range(2)]
        assert len(trial.history) == 2
    trained = [event for event in found.outcome.events if event.kind == "train"]
    assert len(trained) == 4 * 2 * 2
    for event in trained:
        state = len(Checkpoints(found.prepared.store, "first").read(event.trial_id, *last(found, event.trial_id)))
        # Of one model at a time; the text beside the tensors varies by a few characters.
        assert event.fetched_bytes == 0 or abs(event.fetched_bytes - state) < 600
    by_config = [event.trial_id for event in trained if event.fetched_bytes]
    assert len(by_config) >= 4, "two workers, two shards a model: each has to hop at least once"
    assert not any(event.from_store for event in trained)


def last(found: Selection, config: str) -> tuple[int, str]:
    record = Checkpoints(found.prepared.store, found.run_id).last(config)
    assert record is not None
    return record.version, record.digest


def test_a_run_leaves_a_models_last_checkpoint_and_the_one_before(found: Selection) -> None:
    for trial in found.trials:
        kept = found.prepared.store.list("runs", "first", "checkpoints", trial.trial_id)
        assert [name[:6] for name in kept] == ["000003", "000003", "000004", "000004"]


def test_the_numbers_are_those_of_the_model(found: Selection, table: DataFrame) -> None:
    """The held-out accuracy of the history is that of the saved model on the held-out rows."""
    best = found.best
    assert best.metric == max(trial.metric for trial in found.trials)
    assert best.history[-1]["val_accuracy"] == best.metric
    held = table.sparkSession.read.parquet(found.prepared.url("validation"))
    scored = found.best_model.transform(held)
    right = scored.select(F.avg((F.col("prediction") == F.col("label")).cast("double"))).first()
    assert right is not None
    assert right[0] == pytest.approx(best.metric)
    assert found.to_pandas().shape[0] == 8
    assert "4 configurations, 2 epochs, 2 shards on 2 workers" in found.explain()


def test_the_session_is_as_it_was(found: Selection, table: DataFrame) -> None:
    """Spark ML's models hold their session: it has to be one that can still be serialized."""
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import VectorAssembler

    assert found.best.status == "finished"
    joined = VectorAssembler(inputCols=FEATURES, outputCol="features").transform(table)
    model = LogisticRegression(labelCol="label", maxIter=2).fit(joined)
    assert model.transform(joined).where("prediction is not null").count() == ROWS


def test_pictures(found: Selection) -> None:
    bars = found.gantt().axes[0].patches
    assert len(bars) == len(found.outcome.events) == 4 * 2 * 2 * 2
    assert len(found.plot().axes[0].lines) == 4
    followed = found.gantt(follow="c001").axes[0].lines[0]
    path = [event for event in found.outcome.events if event.trial_id == "c001" and event.kind == "train"]
    assert list(followed.get_ydata()) == [int(event.worker[1:]) for event in path]
    with pytest.raises(InvalidArgumentError, match=r"trials, got 'c01'.*did you mean 'c001'"):
        found.gantt(follow="c01")


def test_pictures_of_plotly(found: Selection) -> None:
    pytest.importorskip("plotly")
    curves = found.interactive().data
    assert [curve.name for curve in curves] == [trial.trial_id for trial in found.trials], "the best first"
    assert list(curves[0].y) == [entry[found.spec.metric] for entry in found.best.history]
    assert all(f"{name} = {value}" in curves[0].hovertemplate for name, value in found.best.params.items())
    *bars, followed = found.interactive_gantt(follow="c001").data
    assert sum(len(bar.x) for bar in bars) == len(found.outcome.events)
    assert {bar.name for bar in bars if bar.opacity == 1.0} == {"c001"}, "who is not followed is pale"
    path = [event for event in found.outcome.events if event.trial_id == "c001" and event.kind == "train"]
    assert list(followed.y) == [event.worker for event in path]
    with pytest.raises(InvalidArgumentError, match="did you mean 'c001'"):
        found.interactive_gantt(follow="c01")


def test_the_same_data_is_not_prepared_twice(found: Selection, spark: SparkSession, table: DataFrame) -> None:
    again = search(spark, found.prepared.store, seed=5).prepare(table.repartition(3))
    assert again == found.prepared


def test_a_replay_gives_the_same_bits(found: Selection, spark: SparkSession) -> None:
    again = found.replay(backend=SparkBackend(spark, num_workers=2, threads=1), progress=False)
    equal(states(again), states(found))
    visits = {trial.trial_id: trial.visits for trial in found.trials}
    assert {trial.trial_id: trial.visits for trial in again.trials} == visits
    workers = {(event.trial_id, event.epoch, event.partition): event.worker for event in found.outcome.events}
    assert {(event.trial_id, event.epoch, event.partition): event.worker for event in again.outcome.events} == workers
    with pytest.raises(RunError, match="has a run"):
        found.replay(backend=SparkBackend(spark, num_workers=2))


def test_a_run_can_be_given_more_epochs(spark: SparkSession, store: Store, table: DataFrame) -> None:
    """And the seed alone decides what comes of it, where the schedule is fixed."""
    task = {"schedule": "fixed", "search_space": {"lr": [0.01], "hidden": [8, 16, 24]}}
    whole = search(spark, store, **task).fit(table, run_id="whole")
    part = search(spark, store, num_epochs=1, **task).fit(table, run_id="part")
    assert all(len(trial.visits) == 2 for trial in part.trials)
    backend = SparkBackend(spark, num_workers=2, threads=1)
    rest = Selection.resume(store, "part", backend=backend, trainer_fn=trainer, num_epochs=2, progress=False)
    spans = [[event for event in rest.outcome.events if event.epoch == epoch] for epoch in (0, 1)]
    assert max(event.ended for event in spans[0]) <= min(event.began for event in spans[1]), "the clock goes on"
    equal(states(rest), states(whole))
    assert rest.history() == whole.history()
    assert len(rest.outcome.events) == len(whole.outcome.events)
    again = Selection.resume(store, "part", backend=backend, trainer_fn=trainer, num_epochs=2, progress=False)
    assert again.history() == rest.history()


def test_one_that_fails_ends_alone(spark: SparkSession, store: Store, table: DataFrame) -> None:
    def fragile(params: dict[str, Any]) -> ModelTrainer:
        if params["what"] == "raises":
            raise ZeroDivisionError("of the user's own")
        made = trainer({"hidden": 8, "lr": 1e30 if params["what"] == "diverges" else 0.01})
        if params["what"] == "memory":

            class Hungry(torch.nn.Module):
                def __init__(self) -> None:
                    super().__init__()
                    self.inner = made.model

                def forward(self, rows: torch.Tensor) -> torch.Tensor:
                    if self.training:
                        torch.empty(1 << 50)
                    return self.inner(rows)

            hungry = Hungry()
            return ModelTrainer(model=hungry, optimizer=made.optimizer, loss=made.loss, metrics=["accuracy"])
        return made

    space = [{"what": what} for what in ("works", "raises", "diverges", "memory")]
    found = search(spark, store, trainer_fn=fragile, search_space=space, num_epochs=3).fit(table)
    by_kind = {trial.params["what"]: trial for trial in found.trials}
    assert {what: trial.status for what, trial in by_kind.items()} == {
        "works": "finished",
        "raises": "raised",
        "diverges": "diverged",
        "memory": "out of memory",
    }
    assert "of the user's own" in by_kind["raises"].traceback
    assert len(by_kind["works"].history) == 3
    assert found.best.params == {"what": "works"}
    (rows,) = re.findall(r"after (\d+) rows of the shard", by_kind["diverges"].traceback)
    assert int(rows) <= table.count()
    again = found.replay(backend=SparkBackend(spark, num_workers=2, threads=1), progress=False)
    assert [trial.status for trial in again.trials] == [trial.status for trial in found.trials]
    assert again.history() == found.history()
    nothing = search(spark, store, trainer_fn=fragile, search_space=[{"what": "memory"}]).fit(table)
    with pytest.raises(NoModelError, match="out of memory"):
        _ = nothing.best_model


@pytest.mark.slow
def test_a_saved_model_needs_none_of_the_users_code(found: Selection, table: DataFrame, tmp_path: Path) -> None:
    model = found.best_model
    model.write().overwrite().save(str(tmp_path / "model"))
    expected = [row["prediction"] for row in model.transform(table).select("prediction").collect()]
    table.toPandas().to_parquet(tmp_path / "rows.parquet")
    code = f"""
        import sys
        sys.path[:0] = {IMPORTS!r}
        from sessions import new_session
        from cerebro_spark import TunedModel
        spark = new_session()
        rows = spark.read.parquet({str(tmp_path / "rows.parquet")!r})
        found = TunedModel.load({str(tmp_path / "model")!r}).transform(rows).select("prediction").collect()
        print("FOUND", [row[0] for row in found])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert line.removeprefix("FOUND ") == str(expected)


def test_a_model_leaves_rows_that_it_cannot_read(found: Selection, table: DataFrame) -> None:
    holed = table.limit(4).withColumn("age", F.when(F.col("hours_per_week") < 0, F.col("age")))
    scored = found.best_model.setPredictionCol("guess").transform(holed).collect()
    assert [row["guess"] is None for row in scored] == [row["age"] is None for row in scored]
    assert found.best_model.transform(table.limit(0)).count() == 0
    nothing = table.limit(3).withColumn("age", F.lit(None).cast("double"))
    assert found.best_model.transform(nothing).where("prediction is null").count() == 3


def test_several_inputs_and_vectors(spark: SparkSession, store: Store, table: DataFrame) -> None:
    from pyspark.ml.feature import VectorAssembler

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.deep = torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)

        def forward(self, wide: torch.Tensor, deep: torch.Tensor) -> torch.Tensor:
            return self.wide(wide) + self.deep(deep)

    def two(params: dict[str, Any]) -> ModelTrainer:
        net = Two()
        return ModelTrainer(
            model=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=params["lr"], momentum=0.9),
            loss=torch.nn.BCEWithLogitsLoss(),
            metrics=["accuracy", "f1"],
        )

    joined = VectorAssembler(inputCols=FEATURES[:3], outputCol="deep").transform(table)
    columns = {"wide": FEATURES[3:], "deep": ["deep"]}
    found = search(spark, store, trainer_fn=two, search_space={"lr": [0.1]}, feature_columns=columns, metric="f1").fit(
        joined
    )
    assert found.best.metric > 0
    scored = found.best_model.transform(joined)
    assert scored.where("prediction = 1").count() > 0
    assert scored.where("prediction = 1 and label = 1").count() / scored.where("prediction = 1").count() > 0.5


@pytest.mark.slow
def test_ids_beyond_what_floats_hold(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    """One id in two is a friend: who reads them as float32 takes neighbours for one."""
    rows = spark.range(400).selectExpr(f"id + {2**24} as user", "id % 3 as film", "id / 400 as x", "id % 2 as label")

    class Embedded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.last = torch.nn.Embedding(2, 4), torch.nn.Linear(5, 2)

        def forward(self, ids: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
            return self.last(torch.cat([self.users(ids[:, 0] % 2), numbers], dim=1))

    def embedded(params: dict[str, Any]) -> ModelTrainer:
        net = Embedded()
        optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])

    columns = {"ids": ["user", "film"], "numbers": ["x"]}
    task = search(spark, store, trainer_fn=embedded, search_space={"lr": [0.1]}, feature_columns=columns, num_epochs=3)
    found = task.fit(rows)
    assert found.best.metric == 1.0
    found.best_model.write().save(str(tmp_path / "model"))
    scored = TunedModel.load(str(tmp_path / "model")).transform(rows)
    assert scored.where("prediction = label").count() == 400
    assert scored.schema["user"].dataType.simpleString() == "bigint"
    with pytest.raises(ColumnError, match=r"'user' is a number of float32; the network was trained on int64"):
        found.best_model.transform(rows.withColumn("user", F.col("user").cast("double")))
    dense = search(spark, store, search_space={"lr": [0.1], "hidden": [4]}, feature_columns={"all": ["user", "film"]})
    with pytest.raises(TrainerError, match=r"all int64\(4, 2\), label .*'all' is int64, being of integers alone: cast"):
        dense.fit(rows)


def test_the_three_functions_of_the_paper(spark: SparkSession, store: Store, table: DataFrame) -> None:
    def functions(_params: dict[str, Any]) -> TrainingFunctions:
        def model_fn(params: dict[str, Any]) -> tuple[Any, Any]:
            net = torch.nn.Linear(len(FEATURES), 2)
            return net, torch.optim.SGD(net.parameters(), lr=params["lr"])

        def train_fn(data: Any, model: Any, optimizer: Any, _params: dict[str, Any]) -> dict[str, float]:
            loss = torch.nn.functional.cross_entropy(
                model(torch.from_numpy(data.inputs[0])), torch.from_numpy(data.labels[0])
            )
            if loss.requires_grad:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return {"loss": loss.item()}

        return TrainingFunctions(model_fn=model_fn, train_fn=train_fn)

    found = search(
        spark, store, trainer_fn=functions, search_space={"lr": [0.1, 0.5]}, num_epochs=3, metric="loss"
    ).fit(table)
    assert all(trial.history[-1]["val_loss"] < trial.history[0]["val_loss"] for trial in found.trials)
    assert found.best_model.transform(table.limit(3)).where("prediction is not null").count() == 3


@pytest.mark.filterwarnings("default")  # mlflow's own, on import
def test_mlflow_and_tensorboard_have_every_epoch(
    spark: SparkSession, store: Store, table: DataFrame, tracking: Any, tmp_path: Path
) -> None:
    tracking.create_experiment("hopping", artifact_location=(tmp_path / "mlruns").as_uri())
    task = {"search_space": {"lr": [0.01], "hidden": [4, 8]}, "experiment": "hopping"}
    found = search(spark, store, tensorboard=str(tmp_path / "events"), **task).fit(table)
    runs = tracking.search_runs(experiment_names=["hopping"], output_format="list")
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = {run.info.run_name: run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id}
    assert sorted(children) == ["c000", "c001"]
    for trial in found.trials:
        child = children[trial.trial_id]
        assert child.data.params == {name: str(value) for name, value in trial.params.items()}
        logged = tracking.MlflowClient().get_metric_history(child.info.run_id, "val_accuracy")
        assert [metric.value for metric in logged] == [entry["val_accuracy"] for entry in trial.history]
        assert list((tmp_path / "events" / trial.trial_id).glob("events.out.tfevents.*"))
    names = {artifact.path for artifact in tracking.MlflowClient().list_artifacts(parent.info.run_id)}
    assert names >= {"gantt.png", "learning_curves.png", "visits.json", "run.txt", "best_model"}
    assert parent.data.tags["best_trial_id"] == found.best.trial_id
    assert parent.data.tags["environment.torch"] == torch.__version__


@pytest.mark.slow
def test_one_that_was_taken_for_lost_comes_back(
    spark: SparkSession, store: Store, table: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to stop, and ends without an error: its job has to be started again all the same."""
    look_after = Coordinator.look_after
    lost: list[str] = []

    def forgetful(self: Coordinator) -> tuple[str, ...]:
        if not lost and "w0" in self.alive and self.trials[0].version >= 1:
            lost.append("w0")
            self.lose("w0", "taken for lost")
        return look_after(self)

    monkeypatch.setattr(Coordinator, "look_after", forgetful)
    monkeypatch.setattr(_worker_jobs, "_LOOK_S", 0.005)
    task = {"schedule": "fixed", "num_epochs": 12, "search_space": {"lr": [0.01], "hidden": [8, 16]}}
    found = search(spark, store, **task).fit(table)
    assert lost
    assert "taken for lost" in found.outcome.losses[0].why
    monkeypatch.undo()
    equal(states(found), states(search(spark, store, **task).fit(table)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"search_space": {}}, "search_space must have at least one configuration"),
        ({"search_space": {"lr": []}}, "'lr'.* must have at least one value"),
        ({"search_space": {"lr": 0.1}}, "a list of values"),
        ({"search_space": [{"lr": 0.1}, {"lr": 0.1}]}, "configurations 0 and 1 are the same"),
        ({"search_space": {"lr": [object()]}}, "must be plain data"),
        ({"search_space": {"lr": [float("nan")]}}, "must be plain data"),
        ({"num_epochs": 0}, "num_epochs must be a positive integer, got 0"),
        ({"mode": "best"}, "mode must be one of min, max, got 'best'"),
        ({"schedule": "random"}, "did you mean 'randomized'"),
        ({"replicas": 3}, "replicas must be between 1 and the number of workers, 2, got 3"),
        ({"num_shards": 1}, "num_shards must be at least the number of workers, 2, got 1"),
        ({"trainer_fn": 3}, "trainer_fn must be a function, got 3"),
        ({"callbacks": [print]}, r"callbacks\[0\] must be a cerebro_spark.callbacks.Callback"),
        ({"evaluation_metric": "auc"}, "no parameter 'evaluation_metric'; did you mean 'metric'"),
        ({"partitions": 2}, "no parameter 'partitions'; did you mean 'num_shards'"),
        ({"validation": 0.5}, "no parameter 'validation'; did you mean 'test_fraction'"),
    ],
)
def test_arguments_that_cannot_be(settings: dict[str, Any], message: str, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        search(spark, tmp_path, **settings)


@pytest.mark.usefixtures("found")
def test_what_is_wrong_is_said_before_anything_is_trained(
    spark: SparkSession, store: Store, table: DataFrame, tmp_path: Path
) -> None:
    runs = len(store.list("runs"))
    lock = threading.Lock()
    with pytest.raises(TrainerError, match="must be picklable"):
        search(spark, store, trainer_fn=lambda params: (lock, trainer(params)))
    with pytest.raises(TooFewSlotsError, match="the cluster runs 2 tasks"):
        search(spark, tmp_path / "unwritten", backend=SparkBackend(spark, num_workers=3)).fit(table)
    assert not (tmp_path / "unwritten").exists()
    with pytest.raises(InvalidArgumentError, match="did you mean 'accuracy'"):
        search(spark, store, metric="acuracy").fit(table)
    with pytest.raises(TrainerError, match=r"does not run on the prepared data.*features float32\(4, 2\)"):
        search(spark, store, feature_columns=FEATURES[:2]).fit(table)
    with pytest.raises(TrainerError, match="got None"):
        search(spark, store, trainer_fn=lambda _params: None).fit(table)
    with pytest.raises(InvalidArgumentError, match="metric must be 'loss' without validation rows"):
        search(spark, store, test_fraction=0.0).fit(table)
    halves = table.withColumn("label", F.col("label") + 0.5)
    with pytest.raises(LabelError, match=r"got [01]\.5 .*the label [01]\.5 is no number of a class"):
        search(spark, store).fit(halves)
    small = SparkBackend(spark, num_workers=2, memory_bytes=1 << 20)
    with pytest.raises(InvalidArgumentError, match="bytes of weights"):
        search(spark, store, backend=small, search_space={"lr": [0.1], "hidden": [30_000]}).fit(table)
    with pytest.raises(RunError, match=r"has no run 'frist'; runs:.*first"):
        Selection.resume(store, "frist", backend=small, trainer_fn=trainer)
    assert len(store.list("runs")) == runs


def test_what_is_wrong_with_the_store_is_said_before_anything_is_trained(
    spark: SparkSession, table: DataFrame, tmp_path: Path
) -> None:
    store = Store.from_uri(str(tmp_path / "store"))
    task = search(spark, store, num_epochs=1, search_space={"lr": [0.01], "hidden": [4]})
    prepared = task.prepare(table)
    trained = task.fit(prepared, run_id="mine")
    with pytest.raises(RunError, match="the store has a run 'mine': resume it, or take another run_id"):
        task.fit(prepared, run_id="mine")
    assert states(trained).keys() == {"c000"}, "and the first one is as it was"
    store.delete(*prepared.path(prepared.shard("validation", 1)))
    with pytest.raises(ShardError, match=r"gone from .*: validation/shard-00001.parquet; prepare it again"):
        task.fit(prepared, run_id="other")
    assert store.list("runs") == ["mine"]
    store.delete("runs")
    store.write(b"", "runs")
    with pytest.raises(StoreError, match="a file lies where a folder has to be"):
        task.fit(task.prepare(table))


def test_a_larger_model_than_the_first_ends_alone_before_it_is_trained(
    spark: SparkSession, store: Store, table: DataFrame
) -> None:
    backend = SparkBackend(spark, num_workers=2, threads=1, memory_bytes=1 << 20)
    space = {"lr": [0.01], "hidden": [8, 30_000]}
    found = search(spark, store, backend=backend, search_space=space, num_epochs=1).fit(table)
    by_size = {trial.params["hidden"]: trial for trial in found.trials}
    assert {size: trial.status for size, trial in by_size.items()} == {8: "finished", 30_000: "out of memory"}
    assert "1,440,016 bytes of weights" in by_size[30_000].traceback
    assert by_size[30_000].visits == ()


def test_a_worker_without_validation_rows(spark: SparkSession, store: Store, table: DataFrame) -> None:
    """So few rows are held out that a shard of them is empty: the numbers are those of the others."""
    few = table.limit(20)
    task = search(spark, store, test_fraction=0.05, num_epochs=1, search_space={"lr": [0.01], "hidden": [4]})
    prepared = task.prepare(few)
    assert [prepared.shard("validation", part).rows for part in prepared.partitions] == [1, 0]
    (trial,) = task.fit(prepared).trials
    assert trial.status == "finished"
    assert trial.history[0]["val_accuracy"] in {0.0, 1.0}
    assert 0 < trial.history[0]["val_loss"] < 10


def test_without_validation_the_training_loss_decides(spark: SparkSession, store: Store, table: DataFrame) -> None:
    task = {"test_fraction": 0.0, "metric": "loss", "search_space": {"lr": [0.01, 1e-6], "hidden": [8]}}
    found = search(spark, store, **task).fit(table)
    assert found.best.params["lr"] == 0.01
    assert found.spec.metric == "loss"
    assert {event.kind for event in found.outcome.events} == {"train"}


def test_more_shards_than_workers_and_copies(spark: SparkSession, store: Store, table: DataFrame) -> None:
    task = {"num_shards": 5, "replicas": 2, "num_epochs": 1, "search_space": {"lr": [0.01], "hidden": [4, 8]}}
    found = search(spark, store, **task).fit(table)
    for trial in found.trials:
        assert sorted(trial.visits) == [(0, partition) for partition in range(5)]


@pytest.mark.connect
@pytest.mark.skipif(not CONNECT, reason="classic Spark has the other tests")
def test_it_runs_on_spark_connect(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    found = search(spark, str(tmp_path / "store")).fit(table)
    assert [trial.status for trial in found.trials] == ["finished"] * 4
    assert found.best_model.transform(table).where("prediction is not null").count() == ROWS
