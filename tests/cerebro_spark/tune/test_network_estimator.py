"""An Estimator of Spark ML with Params, in its validators: a fold is one run."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from pyspark import cloudpickle
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import (
    BinaryClassificationEvaluator,
    MulticlassClassificationEvaluator,
    RegressionEvaluator,
)
from pyspark.ml.feature import StringIndexer
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions as F
from searches import FEATURES, adult, estimator, search, trainer

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, TunedModel
from cerebro_spark.errors import InvalidArgumentError, LabelError, NoModelError, TooFewSlotsError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return adult(spark, 240).withColumn("fold", (F.xxhash64(*FEATURES) % 2 + 2) % 2).cache()


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "runs").iterdir()) if (folder / "runs").exists() else []


def trials(run: Path) -> int:
    return len(list((run / "trials").iterdir()))


def scores(model: Any, table: DataFrame) -> np.ndarray:
    rows = model.transform(table).sort(*FEATURES).collect()
    return np.array([row[model.getRawPredictionCol()].toArray() for row in rows])


# ---- Params


def test_hyperparameters_are_params(spark: SparkSession, tmp_path: Path) -> None:
    made = estimator(spark, tmp_path, hyperparameters={"lr": 0.01, "hidden": 4, "deep": True, "act": "relu", "k": [3]})
    assert [param.name for param in made.params] == sorted(
        ["lr", "hidden", "deep", "act", "k", "predictionCol", "rawPredictionCol", "probabilityCol", "weightCol"]
    )
    assert made.hasParam("lr")
    assert made.getParam("lr") == made.lr
    assert "lr: hyperparameter of trainer_fn: a finite number (default: 0.01)" in made.explainParams()
    assert {p.name: v for p, v in made.extractParamMap({made.lr: 1.0}).items()}["lr"] == 1.0
    made.set(made.lr, 1)
    assert (made.getOrDefault("lr"), type(made.getOrDefault("lr"))) == (1.0, float)
    assert made.setParams(hidden=np.int64(8), predictionCol="guess").getOrDefault("hidden") == 8
    twin = made.copy({made.lr: 0.5})
    assert (twin.uid, twin.getOrDefault("lr"), made.getOrDefault("lr")) == (made.uid, 0.5, 1.0)
    assert not estimator(spark, tmp_path).hasParam("deep"), "Params are the instance's own"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lr", "0.1", r"lr must be a finite number, like its default 0.01, got '0.1'"),
        ("lr", float("nan"), r"lr must be a finite number, .*, got nan"),
        ("hidden", 8.5, r"hidden must be a whole number, .*, got 8.5"),
        ("hidden", True, r"hidden must be a whole number, .*, got True"),
        ("deep", 1, r"deep must be true or false, .*, got 1"),
        ("act", 3, r"act must be a string, .*, got 3"),
        ("k", object, r"k must be plain data: .*, got <class 'object'>"),
    ],
)
def test_a_value_of_another_type_is_refused(
    spark: SparkSession, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    made = estimator(spark, tmp_path, hyperparameters={"lr": 0.01, "hidden": 4, "deep": True, "act": "relu", "k": [3]})
    with pytest.raises(TypeError, match=message):
        made.set(made.getParam(name), value)
    with pytest.raises(TypeError, match=message):
        made.fitMultiple(spark.range(1), [{made.getParam(name): value}])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hyperparameters": {}}, "a mapping of names to defaults"),
        ({"hyperparameters": {"fit": 1}}, "'fit', which Spark ML's.*'fit_'"),
        ({"hyperparameters": {"batchSize": 1}}, "'batchSize', which Spark ML's"),
        ({"hyperparameters": {"learning rate": 1}}, "'learning rate': it becomes an attribute"),
        ({"hyperparameters": {"_lr": 1}}, "'_lr': it becomes an attribute"),
        ({"search_space": {"lr": [1]}}, "search_space must not be given to a NetworkEstimator"),
        ({"missing_classes": "alow"}, "missing_classes must be one of raise, allow, got 'alow'; did you mean 'allow'"),
        ({"num_epochs": 0}, "num_epochs must be a positive integer, got 0"),
        ({"num_shard": 2}, "num_shard.*did you mean 'num_shards'"),
    ],
)
def test_settings_are_checked_when_it_is_made(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        estimator(spark, tmp_path, **settings)


def test_a_param_of_another_stage_is_refused(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made, other = estimator(spark, tmp_path), estimator(spark, tmp_path)
    grid = ParamGridBuilder().addGrid(other.lr, [0.1, 0.2]).build()
    message = rf"sets {other.uid}__lr, which is no Param of {made.uid}.*estimator.lr"
    with pytest.raises(InvalidArgumentError, match=f"param map 0 {message}"):
        made.fitMultiple(table, grid)
    with pytest.raises(InvalidArgumentError, match=message):
        made.fit(table, grid[0])
    with pytest.raises(InvalidArgumentError, match="has no Param 'lrr'; did you mean 'lr'"):
        made.setParams(lrr=1.0)
    assert not runs(tmp_path)


def test_an_unfitted_one_is_not_saved(spark: SparkSession, tmp_path: Path) -> None:
    made = estimator(spark, tmp_path / "store")
    with pytest.raises(InvalidArgumentError, match=r"trainer_fn.*no code.*model\.save"):
        made.save(str(tmp_path / "estimator"))
    with pytest.raises(ValueError, match=r"not MLWritable|not writable"):
        Pipeline(stages=[made]).save(str(tmp_path / "pipeline"))
    assert not list(tmp_path.glob("[ep]*"))


# ---- fit


@pytest.mark.connect_slow
def test_models_equal_a_grid_search_of_the_same_list(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path / "ours")
    models = made.fit(table, [{made.lr: 0.1}, {made.hidden: 6}])
    listed = [{"lr": 0.1, "hidden": 4}, {"lr": 0.01, "hidden": 6}]
    settings = {"num_epochs": 1, "test_fraction": 0.0, "metric": "loss", "schedule": "fixed"}
    theirs = search(spark, tmp_path / "theirs", search_space=listed, **settings).fit(table)
    assert len(runs(tmp_path / "ours")) == 1
    ours = [scores(model, table) for model in models]
    for number, model in enumerate(models):
        assert isinstance(model, TunedModel)
        assert model.uid == made.uid
        assert np.array_equal(ours[number], scores(theirs.model(f"c{number:03d}"), table))
    assert not np.array_equal(*ours)


@pytest.mark.slow
def test_the_models_of_threads_are_of_one_run(
    spark: SparkSession, tmp_path: Path, table: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    made = estimator(spark, tmp_path)
    maps = [{made.lr: 0.1}, {made.lr: 0.1, made.predictionCol: "guess"}, {made.lr: 0.2}]
    got: dict[int, TunedModel] = {}

    def take() -> None:
        got.update([next(models)])

    with caplog.at_level(logging.INFO, logger="cerebro_spark"):
        models = made.fitMultiple(table, maps)
        made.set(made.hidden, 7)
        threads = [threading.Thread(target=take) for _ in maps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == [0, 1, 2]
    (run,) = runs(tmp_path)
    assert trials(run) == 2, "equal configurations train once"
    assert f"run {run.name} trained 2 configurations" in "\n".join(caplog.messages)
    assert [got[number].getPredictionCol() for number in range(3)] == ["prediction", "guess", "prediction"]
    assert np.array_equal(scores(got[0], table), scores(got[1], table))
    assert not np.array_equal(scores(got[0], table), scores(got[2], table))
    with pytest.raises(StopIteration):
        next(models)
    assert list(made.fitMultiple(table, [])) == []


def failing(params: dict[str, Any]) -> ModelTrainer:
    if params["hidden"] == 5:
        raise ZeroDivisionError("five units")
    return trainer(params)


def test_a_failed_configuration_raises_in_its_own_place(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path, trainer_fn=failing)
    models = made.fitMultiple(table, [{made.hidden: 4}, {made.hidden: 5}, {made.hidden: 6}])
    assert next(models)[0] == 0
    with pytest.raises(NoModelError, match=r"(?s)param map 1, .*'hidden': 5.*raised.*Traceback.*five units"):
        next(models)
    assert next(models)[0] == 2
    assert len(runs(tmp_path)) == 1


def test_an_error_of_the_run_is_raised_at_once(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path, backend=SparkBackend(spark, num_workers=64))
    with pytest.raises(TooFewSlotsError):
        made.fitMultiple(table, [{made.hidden: 4}, {made.hidden: 6}])


@pytest.mark.slow
def test_the_caller_of_a_validator_trains_and_so_hears_an_interrupt(
    spark: SparkSession, tmp_path: Path, table: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    fit = GridSearch.fit

    def noted(search: GridSearch, data: Any, *arguments: Any, **settings: Any) -> Any:
        threads.append(threading.current_thread())
        return fit(search, data, *arguments, **settings)

    monkeypatch.setattr(GridSearch, "fit", noted)
    made = estimator(spark, tmp_path)
    grid = ParamGridBuilder().addGrid(made.lr, [0.1, 0.2]).build()
    evaluator = MulticlassClassificationEvaluator(labelCol="label")
    TrainValidationSplit(estimator=made, estimatorParamMaps=grid, evaluator=evaluator, parallelism=2).fit(table)
    assert threads == [threading.current_thread()] * 2


# ---- validators and evaluators


@pytest.mark.slow
@pytest.mark.connect_slow
def test_a_fold_is_one_run(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path)
    grid = ParamGridBuilder().addGrid(made.lr, [0.1, 0.01, 0.001]).build()
    validator = CrossValidator(
        estimator=made,
        estimatorParamMaps=grid,
        evaluator=BinaryClassificationEvaluator(),
        numFolds=2,
        foldCol="fold",
        parallelism=2,
        collectSubModels=True,
    )
    found = validator.fit(table)
    # Two folds, and the refit of the best.
    assert sorted(map(trials, runs(tmp_path))) == [1, 3, 3]
    assert len(set(found.avgMetrics)) == 3
    assert all(0 < metric < 1 for metric in found.avgMetrics)
    assert isinstance(found.bestModel, TunedModel)
    again = made.fit(table, grid[int(np.argmax(found.avgMetrics))])
    assert np.array_equal(scores(found.bestModel, table), scores(again, table))
    fold = made.fit(table.where("fold != 1"), grid)
    for ours, theirs in zip(found.subModels[1], fold, strict=True):
        assert np.array_equal(scores(ours, table), scores(theirs, table))
    found.bestModel.save(str(tmp_path / "best"))
    loaded = TunedModel.load(str(tmp_path / "best"))
    assert np.array_equal(scores(loaded, table), scores(found.bestModel, table))


@pytest.mark.slow
def test_a_validator_in_a_pipeline(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    words = table.withColumn("income", F.when(F.col("label") == 1, "high").otherwise("low"))
    made = estimator(spark, tmp_path, label_columns=["indexed"])
    split = TrainValidationSplit(
        estimator=made,
        estimatorParamMaps=ParamGridBuilder().addGrid(made.lr, [0.1, 0.0001]).build(),
        evaluator=MulticlassClassificationEvaluator(labelCol="indexed", metricName="logLoss"),
        trainRatio=0.7,
        seed=1,
    )
    model = Pipeline(stages=[StringIndexer(inputCol="income", outputCol="indexed"), split]).fit(words)
    assert sorted(map(trials, runs(tmp_path))) == [1, 2]
    rows = model.transform(words).collect()
    # StringIndexer's labels are doubles: the loss says that they are classes.
    assert {row["prediction"] for row in rows} <= {0.0, 1.0}
    assert len(set(model.stages[1].validationMetrics)) == 2


def test_a_pipeline_ends_with_it(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path / "store").setPredictionCol("guess")
    model = Pipeline(stages=[made]).fit(table)
    model.save(str(tmp_path / "model"))
    loaded = PipelineModel.load(str(tmp_path / "model"))
    assert np.array_equal(scores(loaded.stages[0], table), scores(model.stages[0], table))
    rows = loaded.transform(table).collect()
    for row in rows:
        logits = row["rawPrediction"].toArray()
        powers = np.exp(logits - logits.max())
        np.testing.assert_allclose(row["probability"].toArray(), powers / powers.sum(), rtol=1e-12)
        assert row["guess"] == np.argmax(logits)


@pytest.mark.slow
def test_pipelines_in_a_validator_take_turns(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    made = estimator(spark, tmp_path)
    validator = CrossValidator(
        estimator=Pipeline(stages=[made]),
        estimatorParamMaps=ParamGridBuilder().addGrid(made.lr, [0.1, 0.01]).build(),
        evaluator=BinaryClassificationEvaluator(),
        numFolds=2,
        foldCol="fold",
        parallelism=2,
    )
    assert len(set(validator.fit(table).avgMetrics)) == 2
    assert list(map(trials, runs(tmp_path))) == [1] * 5


def one_output(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Sequential(torch.nn.Linear(len(FEATURES), 1))
    loss: torch.nn.Module = torch.nn.BCEWithLogitsLoss() if params["loss"] == "logits" else torch.nn.MSELoss()
    if params["loss"] == "probabilities":
        net.append(torch.nn.Sigmoid())
        loss = torch.nn.BCELoss()
    return ModelTrainer(model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=loss)


@pytest.mark.parametrize("loss", ["logits", pytest.param("probabilities", marks=pytest.mark.slow)])
def test_a_single_output_between_two_classes(spark: SparkSession, tmp_path: Path, table: DataFrame, loss: str) -> None:
    made = estimator(spark, tmp_path, trainer_fn=one_output, hyperparameters={"loss": loss})
    scored = made.fit(table).transform(table).cache()
    assert BinaryClassificationEvaluator().evaluate(scored) > 0.5
    by_probability = BinaryClassificationEvaluator(rawPredictionCol="probability").evaluate(scored)
    assert by_probability == pytest.approx(BinaryClassificationEvaluator().evaluate(scored), abs=1e-3)
    assert MulticlassClassificationEvaluator().evaluate(scored) > 0.3
    for row in scored.collect():
        low, high = row["rawPrediction"].toArray()
        zero, one = row["probability"].toArray()
        assert row["prediction"] == float(one > 0.5)
        assert zero + one == pytest.approx(1)
        if loss == "logits":
            assert (low, one) == (-high, pytest.approx(1 / (1 + np.exp(-high))))
        else:
            assert (low, high) == (zero, one)


@pytest.mark.parametrize("kind", ["double", pytest.param("bigint", marks=pytest.mark.slow)])
def test_a_regression(spark: SparkSession, tmp_path: Path, table: DataFrame, kind: str) -> None:
    counted = table.withColumn("label", (F.round(F.col("age") * 3) + 20).cast(kind))
    made = estimator(spark, tmp_path, trainer_fn=one_output, hyperparameters={"loss": "values"}, num_epochs=20)
    scored = made.fit(counted).transform(counted)
    assert scored.columns == [*counted.columns, "rawPrediction", "prediction"]
    assert RegressionEvaluator(metricName="r2").evaluate(scored) > 0.5


# ---- folds without a class


def three(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Linear(len(FEATURES), 3)
    return ModelTrainer(
        model=net, optimizer=torch.optim.SGD(net.parameters(), lr=params["lr"]), loss=torch.nn.CrossEntropyLoss()
    )


def test_a_fold_without_a_class_is_refused(spark: SparkSession, tmp_path: Path, table: DataFrame) -> None:
    # All rows of class 2 are in fold 1, so that the training rows of fold 1 have none.
    rare = table.withColumn("label", F.when(F.col("fold") == 1, 2).otherwise(F.col("label")))
    made = estimator(spark, tmp_path, trainer_fn=three)
    validator = CrossValidator(
        estimator=made,
        estimatorParamMaps=[{made.lr: 0.1}],
        evaluator=MulticlassClassificationEvaluator(),
        numFolds=2,
        foldCol="fold",
    )
    with pytest.raises(LabelError, match=r"label 'label' has 3 classes, and there is no row to train on of class"):
        validator.fit(rare)
    assert not runs(tmp_path)
    allowed = estimator(spark, tmp_path, trainer_fn=three, missing_classes="allow")
    assert isinstance(allowed.fit(rare.where("fold = 0")), TunedModel)


def test_classes_are_those_of_all_rows_where_the_column_has_them(
    spark: SparkSession, tmp_path: Path, table: DataFrame
) -> None:
    words = table.withColumn("word", F.when(F.col("fold") == 1, "rare").otherwise(F.col("label").cast("string")))
    indexed = StringIndexer(inputCol="word", outputCol="indexed").fit(words).transform(words)
    made = estimator(spark, tmp_path, label_columns=["indexed"], trainer_fn=three)
    with pytest.raises(LabelError, match=r"3 classes.*of class \d \('rare'\).*foldCol"):
        made.fit(indexed.where("fold = 0"))
