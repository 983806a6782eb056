"""Training with weights of rows, in each framework that takes them: what equals what, and within what."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from places import IMPORTS
from pyspark import cloudpickle
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.tuning import CrossValidator
from pyspark.sql import functions as F
from searches import FEATURES, adult, common, estimator, search, trainer

from cerebro_spark import ModelTrainer, SparkBackend, SuccessiveHalving
from cerebro_spark.errors import RunError
from udfs.hopper import Checkpoints
from udfs.metrics import Metric, MetricError
from udfs.packing import unpack

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark import Selection

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 120
FULL_BATCH = 10_000


def torch_trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Linear(len(FEATURES), 2)
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=params["lr"]),
        loss=torch.nn.CrossEntropyLoss(),
        batch_size=params["batch"],
    )


def keras_trainer(params: dict[str, Any]) -> ModelTrainer:
    import keras  # on the worker

    net = keras.Sequential([keras.Input((len(FEATURES),)), keras.layers.Dense(2, "softmax")])
    return ModelTrainer(
        model=net,
        optimizer=keras.optimizers.SGD(params["lr"]),
        loss="sparse_categorical_crossentropy",
        batch_size=params["batch"],
    )


TRAINERS = {"torch": torch_trainer, "keras": keras_trainer}


@pytest.fixture(params=["torch", pytest.param("keras", marks=pytest.mark.slow)])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    pytest.importorskip(request.param)
    return {
        "trainer_fn": TRAINERS[request.param],
        "metric": "loss",
        "schedule": "fixed",
        "search_space": {"lr": [0.5], "batch": [16]},
    }


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """Rows of which a third has no weight, and the others have 0.5 to 3.5."""
    kind = F.pmod(F.xxhash64(*FEATURES), F.lit(6))
    return adult(spark, ROWS).withColumn("w", F.when(kind < 2, 0.0).otherwise(kind - 1.5)).cache()


def state(found: Selection) -> bytes:
    """Weights, the optimizer's state and random numbers of the only configuration."""
    (trial,) = found.trials
    assert trial.status == "finished", trial.traceback
    kept = Checkpoints(found.prepared.store, found.run_id)
    record = kept.last(trial.trial_id)
    assert record is not None
    return kept.read(trial.trial_id, record.version, record.digest)


def parameters(found: Selection) -> np.ndarray:
    model = unpack(state(found), lambda array, _kind: array)["model"]
    arrays = model.values() if hasattr(model, "values") else model
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def test_weights_of_one_give_the_same_bits_as_none(
    spark: SparkSession, tmp_path: Path, table: DataFrame, settings: dict[str, Any]
) -> None:
    plain = search(spark, tmp_path, **settings).fit(table)
    ones = search(spark, tmp_path, weight_column="w", **settings).fit(table.withColumn("w", F.lit(1)))
    assert state(ones) == state(plain)
    for theirs, ours in zip(plain.trials[0].history, ones.trials[0].history, strict=True):
        # A sum of products with 1.0 may be added up in another order than a plain sum.
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_a_weight_of_zero_gives_the_same_bits_as_no_row(
    spark: SparkSession, tmp_path: Path, table: DataFrame, settings: dict[str, Any]
) -> None:
    absent = search(spark, tmp_path / "a", weight_column="w", **settings).fit(table.where("w > 0"))
    zero = search(spark, tmp_path / "b", weight_column="w", **settings).fit(table)
    assert zero.prepared.rows("train") + zero.prepared.rows("validation") < ROWS
    assert [shard.digest for shard in zero.prepared.shards] == [shard.digest for shard in absent.prepared.shards]
    assert state(zero) == state(absent)
    assert zero.trials[0].history == absent.trials[0].history


def test_full_batches_of_a_weight_of_two_train_as_of_two_rows(
    spark: SparkSession, tmp_path: Path, table: DataFrame, settings: dict[str, Any]
) -> None:
    """One shard in one batch: the gradients are equal but for the order in which they are added up."""
    settings |= {
        "backend": SparkBackend(spark, num_workers=1, threads=1),
        "search_space": {"lr": [0.5], "batch": [FULL_BATCH]},
        "test_fraction": 0,
        "num_epochs": 5,
    }
    some = F.col("age") > 0
    rows = search(spark, tmp_path, **settings).fit(table.union(table.where(some)))
    weights = table.withColumn("w", F.when(some, 2).otherwise(1))
    weighted = search(spark, tmp_path, weight_column="w", **settings).fit(weights)
    plain = search(spark, tmp_path, **settings).fit(table)
    assert weighted.prepared.rows("train") == ROWS < rows.prepared.rows("train")
    np.testing.assert_allclose(parameters(weighted), parameters(rows), rtol=1e-4, atol=1e-6)
    assert not np.allclose(parameters(weighted), parameters(plain), rtol=1e-2)
    for theirs, ours in zip(rows.trials[0].history, weighted.trials[0].history, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)


@pytest.mark.slow
def test_a_validator_leaves_rows_of_weight_zero_out(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    """Its averages and its best model are those of the validator on the rows that have a weight."""
    folds = table.withColumn("fold", F.pmod(F.xxhash64(*FEATURES, F.lit(1)), F.lit(2)).cast("int"))
    averages, outputs = [], []
    for name, rows in (("zero", folds), ("absent", folds.where("w > 0"))):
        made = estimator(spark, tmp_path / name).setWeightCol("w")
        found = CrossValidator(
            estimator=made,
            estimatorParamMaps=[{made.lr: 0.1}, {made.lr: 0.001}],
            evaluator=MulticlassClassificationEvaluator(metricName="logLoss", weightCol="w"),
            numFolds=2,
            foldCol="fold",
        ).fit(rows)
        averages.append(found.avgMetrics)
        scored = found.bestModel.transform(folds.drop("w")).sort(*FEATURES)
        outputs.append([row["rawPrediction"] for row in scored.select("rawPrediction").collect()])
    # Rows are evaluated in other batches, whose products round in other orders.
    assert averages[0] == pytest.approx(averages[1], rel=1e-6)
    assert averages[0][0] != pytest.approx(averages[0][1], rel=1e-3)
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-6)


def test_a_metric_without_a_weighted_form_is_refused_before_training(
    spark: SparkSession, tmp_path: Path, table: DataFrame
) -> None:
    def counts(params: dict[str, Any]) -> ModelTrainer:
        made = torch_trainer(params)
        rows = Metric("rows", lambda outputs, _: np.array([len(outputs)]), lambda sums: float(sums[0]), True)
        return ModelTrainer(model=made.model, optimizer=made.optimizer, loss=made.loss, metrics=[rows])

    settings: dict[str, Any] = {"trainer_fn": counts, "search_space": {"lr": [0.1], "batch": [8]}, "metric": "rows"}
    with pytest.raises(MetricError, match=r"'rows' has no weighted form.*or leave the weight column out"):
        search(spark, tmp_path, weight_column="w", **settings).fit(table)
    assert not (tmp_path / "runs").exists()


def test_a_run_is_resumed_with_its_own_weights(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    settings = {"search_space": {"lr": [0.1], "hidden": [4]}, "num_configurations": 1, "max_epochs": 1}

    def halving(weight_column: str | None) -> SuccessiveHalving:
        return SuccessiveHalving(**common(spark, tmp_path, **settings), weight_column=weight_column)

    begun = halving("w").fit(table, run_id="first")
    with pytest.raises(RunError, match=r"run 'first' has weight_column='w', and this search weight_column=None"):
        halving(None).resume("first")
    assert halving("w").resume("first").trials[0].history == begun.trials[0].history


@pytest.mark.slow
def test_a_fresh_process_reads_the_weights_and_predicts_without_them(
    spark: SparkSession, tmp_path: Path, table: DataFrame
) -> None:
    settings = {"search_space": {"lr": [0.01], "hidden": [8]}, "schedule": "fixed", "trainer_fn": trainer}
    found = search(spark, tmp_path / "store", weight_column="w", **settings).fit(table, run_id="first")
    found.best_model.save(str(tmp_path / "model"))
    rows = table.drop("w").toPandas()
    rows.to_parquet(tmp_path / "rows.parquet")
    scored = found.best_model.transform(spark.createDataFrame(rows)).sort(*FEATURES)
    expected = [row[0].tolist() for row in scored.select("rawPrediction").collect()]
    code = f"""
        import sys
        sys.path[:0] = {IMPORTS!r}
        from searches import FEATURES
        from sessions import new_session
        from cerebro_spark import PreparedData, Store, TunedModel
        spark = new_session()
        prepared = PreparedData.load(Store.from_uri({str(tmp_path / "store")!r}), {found.prepared.name!r})
        print("TOLD", prepared.explain().splitlines()[3])
        rows = spark.read.parquet({str(tmp_path / "rows.parquet")!r}).sort(*FEATURES)
        scored = TunedModel.load({str(tmp_path / "model")!r}).transform(rows).sort(*FEATURES)
        print("FOUND", [row[0].tolist() for row in scored.select("rawPrediction").collect()])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("TOLD", "FOUND")))
    # Rows lie in other batches there, whose products round in other orders.
    np.testing.assert_allclose(ast.literal_eval(told["FOUND"]), expected, rtol=1e-5, atol=1e-6)
    zeros = table.where("w = 0").count()
    assert told["TOLD"] == f"  weights of the rows: w; left out: {zeros} rows of weight 0"
