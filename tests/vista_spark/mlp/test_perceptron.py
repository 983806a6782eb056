from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator, RegressionEvaluator
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.functions import array_to_vector
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F
from safetensors.torch import load
from torch import nn

import vista_spark.mlp._stages
from udfs.driver import task_slots
from udfs.mlp.network import Perceptron
from vista_spark import MLPClassificationModel, MLPClassifier, MLPRegressor
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError
from vista_spark.transfer._downstream import default_evaluator, is_classification, point_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

INPUT = "features array<double>, label double"


def blobs(count: int = 41) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 3, count)
    return draw.normal(size=(count, 5)) + 2 * np.eye(3, 5)[labels], labels.astype(float)


def frame(spark: SparkSession, count: int = 41) -> DataFrame:
    features, labels = blobs(count)
    return spark.createDataFrame(list(zip(features.tolist(), labels.tolist(), strict=True)), INPUT)


def small(**params: Any) -> MLPClassifier:
    return MLPClassifier(**{"layers": [7], "maxIter": 3, "numWorkers": 1, "seed": 2, **params})


def weights(model: Any) -> dict[str, torch.Tensor]:
    return model.toTorch().state_dict()


def test_digits(spark: SparkSession) -> None:
    """1,797 handwritten digits of 64 grey values."""
    digits = pytest.importorskip("sklearn.datasets", reason="pip install scikit-learn").load_digits()
    rows = [(n, Vectors.dense(x), int(y)) for n, (x, y) in enumerate(zip(digits.data, digits.target, strict=True))]
    df = spark.createDataFrame(rows, ["id", "features", "label"])
    model = MLPClassifier(layers=[64, 32], maxIter=10, batchSize=32).fit(df.where("id % 5 != 0"))
    found = model.transform(df.where("id % 5 = 0"))
    assert MulticlassClassificationEvaluator(metricName="accuracy").evaluate(found) > 0.93
    assert model.numClasses == 10
    assert model.layers == [64, 64, 32, 10]
    assert model.numRows == 1437
    assert model.numWorkers == task_slots(spark)
    assert len(model.lossHistory) == 10
    assert model.lossHistory[-1] < 0.2 * model.lossHistory[0]


def test_workers_do_not_change_the_model_and_it_is_plain_torchs(spark: SparkSession) -> None:
    df = frame(spark)
    full = {"solver": "sgd", "stepSize": 0.2, "batchSize": 1000, "maxIter": 20, "regParam": 0.01}
    one, two = (small(numWorkers=workers, **full).fit(df) for workers in (1, 2))
    assert (one.numWorkers, two.numWorkers) == (1, 2)
    plain = Perceptron([5, 7, 3])
    plain.initialise(2)
    features, labels = blobs()
    features = features.astype(np.float32).astype(float)
    scaled = torch.tensor((features - features.mean(0)) / features.std(0), dtype=torch.float32)
    penalised, rest = (
        [value for value in plain.parameters() if (value.dim() > 1) == wanted] for wanted in (True, False)
    )
    optimizer = torch.optim.SGD([{"params": penalised, "weight_decay": 0.01}, {"params": rest}], lr=0.2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(plain.layers(scaled), torch.tensor(labels).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for name, value in plain.layers.state_dict().items():
        for model in (one, two):
            torch.testing.assert_close(weights(model)[f"layers.{name}"], value, atol=1e-4, rtol=0)
    for model in (one, two):
        np.testing.assert_allclose(model.lossHistory, losses, atol=1e-4)


def test_the_same_seed_gives_the_same_bits(spark: SparkSession) -> None:
    df = frame(spark).repartition(5)
    once, again, other = (small(numWorkers=2, batchSize=8, seed=seed).fit(df)._network for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_the_order_of_the_rows_does_not_matter(spark: SparkSession) -> None:
    df = frame(spark).coalesce(1)
    turned = df.orderBy(F.xxhash64("features"))
    assert small(batchSize=8).fit(df)._network == small(batchSize=8).fit(turned)._network


def test_features_of_any_form(spark: SparkSession) -> None:
    df = frame(spark).withColumn("features", F.transform("features", lambda x: F.when(x > 0, x).otherwise(0.0)))
    vector = df.withColumn("features", array_to_vector("features"))
    sparse = spark.createDataFrame(
        [
            (Vectors.sparse(5, [(place, x) for place, x in enumerate(row["features"]) if x]), row["label"])
            for row in df.collect()
        ],
        ["features", "label"],
    )
    forms = [
        df,
        df.withColumn("features", F.col("features").cast("array<float>")),
        vector,
        sparse,
        df.withColumn("label", F.col("label").cast("int")),
    ]
    models = [small(batchSize=64, solver="sgd", stepSize=0.1).fit(form) for form in forms]
    expected = sorted(row["prediction"] for row in models[0].transform(df).collect())
    for model, form in zip(models, forms, strict=True):
        for name, value in weights(models[0]).items():
            torch.testing.assert_close(weights(model)[name], value, atol=1e-5, rtol=1e-5)
        assert sorted(row["prediction"] for row in model.transform(form).collect()) == expected


def test_probabilities(spark: SparkSession) -> None:
    df = frame(spark)
    model = small().fit(df)
    out = model.transform(df)
    assert out.schema["probability"].metadata["ml_attr"]["num_attrs"] == 3
    rows = out.collect()
    chances = np.array([row["probability"].toArray() for row in rows])
    with torch.no_grad():
        expected = model.toTorch()(torch.tensor([row["features"] for row in rows], dtype=torch.float32)).softmax(1)
    np.testing.assert_allclose(chances, expected, atol=1e-6)
    assert [row["prediction"] for row in rows] == chances.argmax(1).tolist()


def test_regression(spark: SparkSession) -> None:
    features, _ = blobs(200)
    wanted = 1000 + 300 * features[:, 0] - 200 * np.abs(features[:, 1])
    df = spark.createDataFrame(list(zip(features.tolist(), wanted.tolist(), strict=True)), INPUT)
    model = MLPRegressor(layers=[32], maxIter=60, stepSize=0.01, batchSize=16, numWorkers=2).fit(df)
    found = np.array([row["prediction"] for row in model.transform(df).collect()])
    residual = np.sort(found) - np.sort(wanted)
    assert np.mean(residual**2) < 0.05 * wanted.var()
    assert model.lossHistory[0] > 0.3 * wanted.var(), "losses are in the label's own unit, squared"
    assert model.layers == [5, 32, 1]


def test_classes_that_the_metadata_knows(spark: SparkSession) -> None:
    df = frame(spark).withColumn("kind", F.concat(F.lit("k"), F.col("label")))
    indexed = StringIndexer(inputCol="kind", outputCol="indexed").fit(df).transform(df)
    model = small(labelCol="indexed").fit(indexed.where("indexed < 2"))
    assert model.numClasses == 3
    assert small().fit(df.where("label != 1")).numClasses == 3, "a class without rows"


def test_too_many_workers_are_refused_before_the_job(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match=r"numWorkers=3, but 2 tasks run at a time"):
        small(numWorkers=3).fit(frame(spark))


@pytest.mark.parametrize(
    ("column", "value", "error", "message"),
    [
        ("features", "array(1D, 2D)", ColumnError, "'features' has rows of 2 to 5 numbers"),
        ("features", "array(1D, 2D, 3D, 4D, double('nan'))", ColumnError, "'features' has NaN.* 1 of 41 rows"),
        ("label", "null", LabelError, "'label' is null or NaN in 1 of 41 rows"),
        ("label", "double('nan')", LabelError, "'label' is null or NaN in 1 of 41 rows"),
        ("label", "0.5D", LabelError, "'label' is no whole number from 0 on in 1 of 41 rows.*StringIndexer"),
    ],
)
def test_rows_that_cannot_be_learned(
    spark: SparkSession, column: str, value: str, error: type[Exception], message: str
) -> None:
    df = (
        frame(spark)
        .withColumn("first", F.monotonically_increasing_id() == 0)
        .withColumn(column, F.expr(f"if(first, {value}, {column})"))
    )
    with pytest.raises(error, match=message):
        small(numWorkers=2).fit(df)


def test_what_no_rows_can_be_learned_from(spark: SparkSession) -> None:
    df = frame(spark)
    with pytest.raises(LabelError, match="all of class 1: two are needed"):
        small().fit(df.where("label = 1"))
    with pytest.raises(EmptyInputError, match="must have rows"):
        small(numWorkers=2).fit(df.where("label > 7"))
    assert MLPRegressor(layers=[], maxIter=1).fit(df.where("label = 1").limit(1)).numRows == 1


def test_columns_that_cannot_be_learned(
    spark: SparkSession, no_job: Callable[[], AbstractContextManager[None]]
) -> None:
    df = frame(spark)
    with no_job():
        with pytest.raises(ColumnError, match=r"'text' of .* must be a Spark ML vector .*got string"):
            small(featuresCol="text").fit(df.withColumn("text", F.lit("x")))
        with pytest.raises(ColumnError, match=r"array<string>"):
            small(featuresCol="texts").fit(df.withColumn("texts", F.array(F.lit("x"))))
        with pytest.raises(LabelError, match=r"'text' of .* must be a number, got string.*StringIndexer"):
            small(labelCol="text").fit(df.withColumn("text", F.lit("x")))


def test_a_learning_rate_that_is_too_high(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match=r"not a number any more in epoch \d+: lower stepSize=1e\+30"):
        MLPRegressor(layers=[7], stepSize=1e30, solver="sgd", numWorkers=2, maxIter=50).fit(frame(spark))


def test_a_model_too_large_for_a_query(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LARGEST_CONNECT", "_LARGEST_CLASSIC"):
        monkeypatch.setattr(vista_spark.mlp._stages, name, 200)
    with pytest.raises(InvalidArgumentError, match=r"\[5, 7, 3\] have 264 bytes of weights, and 200 is the most"):
        small().fit(frame(spark))


def test_features_of_another_length(spark: SparkSession) -> None:
    df = frame(spark)
    model = small().fit(df)
    assembled = VectorAssembler(inputCols=["label"], outputCol="one").transform(df)
    with pytest.raises(ColumnError, match=r"'one' of .* must have 5 features, as in training, got 1"):
        model.transform(assembled, {model.featuresCol: "one"})
    with pytest.raises(Exception, match="trained on 5"):
        model.transform(df.withColumn("features", F.array(F.lit(1.0)))).collect()


def test_saved_state_is_json_and_safetensors(spark: SparkSession, tmp_path: Path) -> None:
    model = small().fit(frame(spark))
    model.save(str(tmp_path / "model"))
    state = load(pq.read_table(tmp_path / "model" / "network")["network"][0].as_py())
    for name, value in weights(model).items():
        assert torch.equal(state[name], value)
    (text,) = (tmp_path / "model" / "metadata").glob("part-*")
    facts = json.loads(text.read_text())["network"]
    assert facts["sizes"] == [5, 7, 3]
    loaded = MLPClassificationModel.load(str(tmp_path / "model"))
    assert loaded.lossHistory == model.lossHistory
    assert (loaded.numClasses, loaded.numFeatures, loaded.numRows, loaded.numWorkers) == (3, 5, 41, 1)


def test_downstream_of_a_transfer(spark: SparkSession) -> None:
    assert is_classification(MLPClassifier())
    assert not is_classification(MLPRegressor())
    df = frame(spark).toDF("inputs", "kind")
    model = point_at(small(), "inputs", "kind").fit(df)
    score = point_at(default_evaluator(small()), "inputs", "kind").evaluate(model.transform(df))
    assert 0 < score <= 1


def test_raw_predictions_weights_and_measures(spark: SparkSession) -> None:
    """As Spark ML's own classifiers have them: an evaluator of margins works, and a row of weight 0 teaches nothing."""
    df = frame(spark).withColumn("label", F.when(F.col("label") > 1, 0.0).otherwise(F.col("label")))
    weighted = df.withColumn("w", F.lit(1.0)).union(df.selectExpr("features", "1 - label as label", "0D as w"))
    model = small(weightCol="w", maxIter=30, stepSize=0.02).fit(weighted)
    out = model.transform(df)
    row = out.first()
    chances = np.exp(row["rawPrediction"].toArray())
    np.testing.assert_allclose(row["probability"].toArray(), chances / chances.sum(), atol=1e-6)
    assert BinaryClassificationEvaluator().evaluate(out) > 0.9
    summary = model.evaluate(weighted)
    assert summary.accuracy == pytest.approx(MulticlassClassificationEvaluator(metricName="accuracy").evaluate(out))
    assert summary.accuracy > 0.8
    assert 0.8 < summary.weightedFMeasure() <= 1
    assert summary.numInstances == 82
    with pytest.raises(ColumnError, match="'w'"):
        model.evaluate(df)
    with pytest.raises(ColumnError, match="weight 'w' is negative"):
        small(weightCol="w").fit(weighted.withColumn("w", F.lit(-1)))
    with pytest.raises(ColumnError, match=r"weight 'features' of .* must be a number, got array"):
        small(weightCol="features").fit(weighted)
    numbers = MLPRegressor(layers=[], maxIter=2, numWorkers=1).fit(df)
    measured = numbers.evaluate(df)
    assert measured.rootMeanSquaredError == pytest.approx(RegressionEvaluator().evaluate(numbers.transform(df)))
    assert measured.meanSquaredError == pytest.approx(measured.rootMeanSquaredError**2)
