"""Members of cascades: perceptrons, feature transfers, tuned networks, several proxies, classes of any type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from photographs import crops, encode
from pyspark.ml import PipelineModel
from pyspark.ml.feature import StandardScaler, StringIndexerModel, VectorAssembler
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from stages import tuned_model

from optimizer.cascades import Certificate
from udfs.mlp.network import Perceptron, to_bytes
from vista_spark import Cascade, CascadeModel, CNNFeaturizer, MLPClassificationModel, register_sql
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.transfer import FeatureTransferModel, PredictorInputs, TransferPredictor

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def perceptron(*sizes: int, features: str = "features") -> MLPClassificationModel:
    """Return a network of drawn weights and standardised inputs."""
    network = Perceptron(sizes)
    network.initialise(4)
    network.mean.copy_(torch.linspace(-1, 1, sizes[0]))
    network.scale.copy_(torch.linspace(0.1, 1, sizes[0]))
    return MLPClassificationModel(to_bytes(network), {"sizes": list(sizes)}).setFeaturesCol(features)


def fixed(oracle: Any, proxies: list[Any], least: float, labels: tuple[Any, ...] = (0.0, 1.0)) -> CascadeModel:
    """Return a cascade with a threshold that no sample has shown."""
    cascade = Cascade(oracle=oracle, proxies=proxies)
    names = [f"proxy {place + 1}" for place in range(len(proxies))] + ["oracle"]
    thresholds, zeros = (*[least] * len(proxies), None), (0.0,) * len(names)
    certificate = Certificate("accuracy", 0.9, 0.1, 0.9, 1.0, tuple(names), thresholds, zeros, zeros, 1, 1)
    return CascadeModel([*cascade.getProxies(), cascade.getOracle()], certificate, labels)


def agrees(answers: DataFrame, models: dict[str, DataFrame], least: float) -> list[str | None]:
    """Compare answers, by id, with those of the models' own transform; return the models that answered."""
    rows = {row["id"]: row for row in answers.collect()}
    expected = {name: {row["id"]: row for row in frame.collect()} for name, frame in models.items()}
    for number, row in rows.items():
        sure = [
            name
            for name, same in expected.items()
            if same[number]["probability"] is not None
            and (name == "oracle" or max(same[number]["probability"]) >= least)
        ]
        assert row["answered_by"] == (sure[0] if sure else None)
        if sure:
            same = expected[sure[0]][number]
            assert row["prediction"] == same["prediction"]
            np.testing.assert_allclose(row["probability"], same["probability"], atol=1e-6)
        else:
            assert row["cascade_error"]
    return [row["answered_by"] for row in rows.values()]


def test_perceptrons_and_pipelines_that_end_in_one_answer_as_they_transform(spark: SparkSession) -> None:
    draw = np.random.default_rng(1)
    table = spark.createDataFrame(
        [(number, *map(float, draw.normal(size=2))) for number in range(60)], "id long, x double, z double"
    )
    table = VectorAssembler(inputCols=["x", "z"], outputCol="raw").transform(table)
    scaler = StandardScaler(inputCol="raw", outputCol="features", withMean=True).fit(table)
    oracle = PipelineModel([scaler, perceptron(2, 8, 3)])
    proxy = perceptron(2, 3, features="raw")
    labels = (0.0, 1.0, 2.0)
    answers = fixed(oracle, [proxy], 0.75, labels).transform(table)
    names = agrees(answers, {"proxy 1": proxy.transform(table), "oracle": oracle.transform(table)}, 0.75)
    assert {"proxy 1", "oracle"} == set(names)


def transfers(structured: int = 1) -> tuple[FeatureTransferModel, FeatureTransferModel]:
    """Return transfers of drawn weights: of a photograph and numbers, and of numbers alone."""
    columns = ("age", "size")[:structured]
    network = CNNFeaturizer(
        model="squeezenet1_1", layers="fire3", outputCols=["transfer_image"], imageSize=48, seed=1, pooling="mean",
        errorCol="transfer_error",
    )  # fmt: skip
    inputs = PredictorInputs(columns, structured, "transfer_image", 128)
    last = TransferPredictor(perceptron(structured + 128, 2, features="transfer_features"), inputs)
    alone = TransferPredictor(
        perceptron(max(structured, 1), 2, features="transfer_features"), PredictorInputs(columns, structured)
    )
    return FeatureTransferModel(PipelineModel([network, last])), FeatureTransferModel(PipelineModel([alone]))


@pytest.fixture(scope="module")
def photos(spark: SparkSession) -> DataFrame:
    """Return photographs with numbers; some of each are missing."""
    rows: list[tuple[Any, ...]] = [
        (number, encode(picture), number / 12 - 0.5, 1.0) for number, (*_, picture) in enumerate(crops(12, side=48))
    ]
    rows += [(20, None, 0.1, 1.0), (21, b"no image", 0.1, 1.0), (22, rows[0][1], None, 1.0)]
    return spark.createDataFrame(rows, "id long, image binary, age double, size double").cache()


def test_feature_transfers_answer_as_they_transform(photos: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    oracle, proxy = transfers()
    least = float(np.median([max(row["probability"]) for row in proxy.transform(photos.where("age < 9")).collect()]))
    model = fixed(oracle, [proxy], least)
    model.save(str(tmp_path / "model"))
    for each in (model, CascadeModel.load(str(tmp_path / "model"))):
        expected = {"proxy 1": proxy.transform(photos), "oracle": oracle.transform(photos)}
        names = agrees(each.transform(photos), expected, least)
        assert {"proxy 1", "oracle", None} == set(names)
    register_sql(spark, shown=model)
    photos.createOrReplaceTempView("photos")
    called = spark.sql("SELECT id, cascade(struct(*), 'shown') AS answer FROM photos").selectExpr("id", "answer.*")
    agrees(called.withColumnRenamed("error", "cascade_error"), expected, least)


def test_a_transfer_of_images_alone_and_a_pipeline_of_one_are_members(photos: DataFrame) -> None:
    whole, _ = transfers(2)
    _, proxy = transfers(2)
    image_only, _ = transfers(0)
    for oracle in (whole.best_model, PipelineModel([image_only])):
        answers = fixed(oracle, [proxy], 0.9).transform(photos)
        agrees(answers, {"proxy 1": proxy.transform(photos), "oracle": oracle.transform(photos)}, 0.9)
    for column in ("label", "age"):
        stages = [StringIndexerModel.from_labels(["old", "new"], "kind", column), whole]
        if column == "label":  # no stage of the prediction reads it
            assert len(Cascade(oracle=PipelineModel(stages)).getOracle().stages) == 2
        else:
            with pytest.raises(InvalidArgumentError, match="must add columns that it does not read, got StringIndexer"):
                Cascade(oracle=PipelineModel(stages))
    texts = photos.selectExpr("id", "image", "'old' AS age", "size", "0.5 AS guess")
    with pytest.raises(ColumnError, match="column 'age' must be a vector, an array or a number for oracle, got string"):
        fixed(whole, ["guess"], 0.9).transform(texts)


def test_models_of_other_packages_are_members_by_class_scores(spark: SparkSession) -> None:
    tuned = tuned_model().setPredictionCol("prediction").setProbabilityCol("probability")
    rows = [(number, [float(number % 5 - 2), float(number % 3 - 1), 1.0, 0.0]) for number in range(12)]
    table = spark.createDataFrame(rows, "id long, numbers array<float>")
    answers = fixed(tuned, [tuned], 0.6).transform(table)
    names = agrees(answers, {"proxy 1": tuned.transform(table), "oracle": tuned.transform(table)}, 0.6)
    assert len(names) == 12


@pytest.mark.parametrize("count", [2, 3])
def test_several_proxies_answer_as_a_loop_over_their_scores(spark: SparkSession, count: int) -> None:
    inputs, digits = load_digits(return_X_y=True)
    oracle = RandomForestClassifier(60, random_state=0).fit(inputs[:500], digits[:500])
    answers = oracle.predict(inputs)
    models = [
        RandomForestClassifier(8, random_state=1),
        LogisticRegression(C=0.01, max_iter=300),
        ExtraTreesClassifier(30, max_depth=6, random_state=2),
    ]
    proxies = [model.fit(inputs[:500], answers[:500]) for model in (models if count > 2 else models[::2])]
    table = spark.createDataFrame(
        [(number, row.tolist()) for number, row in enumerate(inputs)], "id long, features array<double>"
    )
    costs = [*(10.0**place for place in range(count)), 1000.0]
    cascade = Cascade(oracle=oracle, proxies=proxies, target=0.95, delta=0.1, costs=costs, batchSize=4096)
    model = cascade.fit(table)
    rows = model.transform(table).orderBy("id").toPandas()
    scores = [each.getCompiled().predict_proba(inputs) for each in (*cascade.getProxies(), cascade.getOracle())]
    thresholds = model.certificate.thresholds
    for number, row in enumerate(rows.itertuples()):
        for place, least in enumerate(thresholds):
            chances = scores[place][number]
            if place == count or (least is not None and chances.max() >= least - 1e-12):
                assert row.answered_by == model.certificate.models[place]
                assert row.prediction == chances.argmax()
                np.testing.assert_allclose(row.probability.toArray(), chances, atol=1e-9)
                break
    assert rows.answered_by.value_counts().min() > 10
    assert rows.answered_by.nunique() == count + 1
    assert (rows.prediction == answers).mean() >= 0.95
