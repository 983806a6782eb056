"""Cascades over DataFrames: tables, features of images, columns of probabilities, errors, stored answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression as SparkLogisticRegression
from pyspark.ml.feature import VectorAssembler
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from vista_spark import Cascade, CascadeModel, CNNFeaturizer, TensorPipeline, compile_pipeline, register_sql
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 600


@pytest.fixture(scope="module")
def table() -> Any:
    """Return a table of three classes whose first column decides most rows."""
    pd = pytest.importorskip("pandas")
    draw = np.random.default_rng(0)
    kind = draw.integers(3, size=ROWS)
    frame = pd.DataFrame({"x": kind + draw.normal(scale=0.35, size=ROWS), "z": draw.normal(size=ROWS)})
    frame["kind"] = np.array(["low", "mid", "top"])[kind]
    return frame


@pytest.fixture(scope="module")
def df(spark: SparkSession, table: Any) -> DataFrame:
    return spark.createDataFrame(table).cache()


@pytest.fixture(scope="module")
def models(table: Any) -> tuple[Any, Any]:
    inputs = table[["x", "z"]]
    oracle = RandomForestClassifier(20, max_depth=4, random_state=0).fit(inputs, table.kind)
    return oracle, LogisticRegression().fit(inputs, table.kind)


@pytest.fixture(scope="module")
def fitted(df: DataFrame, models: tuple[Any, Any]) -> CascadeModel:
    oracle, proxy = models
    return Cascade(oracle=oracle, proxies=[proxy], target=0.97, costs=[1, 50]).fit(df)


def test_a_table_is_answered_by_both_models(fitted: CascadeModel, df: DataFrame, table: Any, models: Any) -> None:
    rows = fitted.transform(df).toPandas()
    truth = models[0].predict(table[["x", "z"]])
    assert (rows.prediction == truth).mean() >= 0.97
    by_proxy = rows.answered_by == "proxy 1"
    assert 0.5 < by_proxy.mean() < 1
    assert (rows.prediction[~by_proxy] == truth[~by_proxy.to_numpy()]).all()
    # Proxies answer from their threshold on, with their own probabilities.
    odds = models[1].predict_proba(table[["x", "z"]])
    least = fitted.certificate.thresholds[0]
    np.testing.assert_array_equal(by_proxy, odds.max(axis=1) >= least)
    np.testing.assert_allclose(np.stack(rows.probability[by_proxy].map(lambda v: v.toArray())), odds[by_proxy])


def test_the_certificate_has_what_the_sample_shows(fitted: CascadeModel, df: DataFrame) -> None:
    certificate = fitted.certificate
    assert certificate.is_met
    assert (certificate.bound, certificate.target, certificate.sample_rows) == (0.97, 0.97, ROWS)
    assert certificate.oracle_calls <= ROWS
    share = fitted.transform(df).where("answered_by = 'proxy 1'").count() / ROWS
    assert certificate.shares == pytest.approx((share, 1 - share))
    assert "times the throughput of the oracle" in fitted.explain()


def test_models_of_spark_and_columns_are_members(df: DataFrame, table: Any, spark: SparkSession) -> None:
    labelled = df.selectExpr("*", "CAST(kind = 'top' AS DOUBLE) AS label", "1 / (1 + exp(6 * (1.5 - x))) AS guess")
    oracle = Pipeline(
        stages=[VectorAssembler(inputCols=["x", "z"], outputCol="features"), SparkLogisticRegression()]
    ).fit(labelled)
    model = Cascade(oracle=oracle, proxies=["guess"], target=0.9, metric="recall", costs=[1, 50]).fit(labelled)
    rows = model.transform(labelled).toPandas()
    truth = oracle.transform(labelled).toPandas().prediction
    assert model.certificate.is_met
    assert rows.prediction[truth == 1].mean() >= 0.9
    assert (rows.prediction[rows.answered_by == "proxy 1"] == 0).all()


def test_columns_alone_make_a_cascade(df: DataFrame, spark: SparkSession) -> None:
    scored = df.selectExpr(
        "x",
        "transform(array('low', 'mid', 'top'), name -> CAST(name = kind AS DOUBLE)) AS truth",
        "transform(array(0, 1, 2), k -> exp(-8 * (x - k) * (x - k))) AS guess",
    )
    model = Cascade(oracle="truth", proxies=["guess"], target=0.9, costs=[1, 50]).fit(scored)
    rows = model.transform(scored).toPandas()
    assert model.certificate.is_met
    assert (rows.prediction == np.stack(rows.truth).argmax(axis=1)).mean() >= 0.9
    # One row of scores that is missing is bad only where the oracle would have to answer.
    holes = scored.selectExpr("x", "IF(x > 1, truth, NULL) AS truth", "guess")
    answered = model.transform(holes)
    assert answered.where("prediction IS NULL AND x > 1 OR answered_by = 'oracle' AND x <= 1").count() == 0
    assert answered.where("prediction IS NULL AND cascade_error = 'null'").count() > 0


def test_features_of_images_are_classified(spark: SparkSession, tmp_path: Path) -> None:
    photos = spark.createDataFrame(
        [(number, label, encode(picture)) for number, (label, _, _, picture) in enumerate(crops(16, side=64))],
        "id long, label int, image binary",
    )
    featurizer = CNNFeaturizer(model="squeezenet1_1", layers="fire3", outputCols=["numbers"], imageSize=64, seed=1)
    classifier = SparkLogisticRegression(featuresCol="numbers", maxIter=5)
    oracle = Pipeline(stages=[featurizer, classifier]).fit(photos)
    small = PipelineModel([featurizer.copy({featurizer.imageSize: 48}), *oracle.stages[1:]])
    model = Cascade(oracle=oracle, proxies=[small], target=0.4, delta=0.3, costs=[1, 9]).fit(photos)
    rows = {row["id"]: row for row in model.transform(photos).collect()}
    expected = {row["id"]: row for row in oracle.transform(photos).collect()}
    for number, row in rows.items():
        if row["answered_by"] == "oracle":
            assert row["prediction"] == expected[number]["prediction"]
            np.testing.assert_allclose(row["probability"], expected[number]["probability"], atol=1e-6)
    model.save(str(tmp_path / "model"))
    again = CascadeModel.load(str(tmp_path / "model"))
    assert again.certificate == model.certificate
    bad = spark.createDataFrame([(1, b"no image"), (2, None)], "id long, image binary")
    assert [row["cascade_error"] for row in again.transform(bad).collect()] == [
        "not a JPEG, PNG, WEBP, GIF, BMP or TIFF image",
        "null",
    ]
    assert again.copy({again.errors: "drop"}).transform(bad).count() == 0


def test_answers_are_reused(df: DataFrame, models: tuple[Any, Any], tmp_path: Path) -> None:
    oracle, proxy = models
    cascade = Cascade(oracle=oracle, proxies=[proxy], target=0.9, costs=[1, 50], reuse=str(tmp_path))
    first = cascade.fit(df)
    files = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.arrow"))
    second = cascade.fit(df)
    assert second.certificate.thresholds == first.certificate.thresholds
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.arrow")) == files


@pytest.mark.connect
def test_a_query_gives_the_rows_of_transform(fitted: CascadeModel, df: DataFrame, spark: SparkSession) -> None:
    assert register_sql(spark, kinds=fitted) == ("cascade",)
    df.createOrReplaceTempView("measured")
    called = spark.sql("SELECT x, cascade(struct(*), 'kinds') AS answer FROM measured").selectExpr("x", "answer.*")
    expected = {row["x"]: row for row in fitted.transform(df).collect()}
    for row in called.collect():
        same = expected[row["x"]]
        assert (row["prediction"], row["answered_by"]) == (same["prediction"], same["answered_by"])
        np.testing.assert_allclose(row["probability"], same["probability"].toArray())
    with pytest.raises(Exception, match="must have column 'z'"):
        spark.sql("SELECT cascade(struct(x), 'kinds') FROM measured").collect()


@pytest.mark.connect
def test_a_stream_and_a_query_of_a_probability_give_the_rows_of_transform(
    df: DataFrame, models: tuple[Any, Any], spark: SparkSession, tmp_path: Path
) -> None:
    top = df.selectExpr("x", "z", "1 / (1 + exp(9 * (1.5 - x))) AS guess")
    oracle = LogisticRegression().fit(*_binary(df))
    model = Cascade(oracle=oracle, proxies=["guess"], target=0.9, costs=[1, 50], positive=True, metric="recall").fit(
        top
    )
    assert model.certificate.is_met
    expected = {row["x"]: (row["prediction"], row["answered_by"]) for row in model.transform(top).collect()}
    assert {name for _, name in expected.values()} == {"proxy 1", "oracle"}
    top.coalesce(1).write.parquet(str(tmp_path / "rows"))
    stream = model.transform(spark.readStream.schema(top.schema).parquet(str(tmp_path / "rows")))
    stream.writeStream.format("memory").queryName("answers").trigger(availableNow=True).start().awaitTermination()
    register_sql(spark, top=model)
    top.createOrReplaceTempView("scored")
    query = (
        "SELECT x, answer.prediction, answer.answered_by FROM (SELECT x, cascade(struct(*), 'top') AS answer FROM {})"
    )
    for frame in (spark.table("answers"), spark.sql(query.format("scored"))):
        assert {row["x"]: (row["prediction"], row["answered_by"]) for row in frame.collect()} == expected


def _binary(df: DataFrame) -> tuple[Any, Any]:
    rows = df.toPandas()
    return rows[["x", "z"]], (rows.kind == "top").to_numpy()


def test_an_oracle_without_names_of_classes_is_compared_by_width(df: DataFrame, table: Any) -> None:
    scored = df.selectExpr("x", "z", "transform(array(0, 1, 2), k -> exp(-8 * (x - k) * (x - k))) AS truth")
    rows = table[["x", "z"]]
    two = LogisticRegression().fit(rows, table.kind == "top")
    with pytest.raises(InvalidArgumentError, match=r"proxy 1 must have scores of the 3 classes of the oracle, got 2\."):
        Cascade(oracle="truth", proxies=[two]).fit(scored)
    three = LogisticRegression().fit(rows, table.kind)
    model = Cascade(oracle="truth", proxies=[three], target=0.9, costs=[1, 50]).fit(scored)
    answered = model.transform(scored).toPandas()
    assert "proxy 1" in set(answered.answered_by)
    assert (answered.prediction == np.stack(answered.truth).argmax(axis=1)).mean() >= 0.9


def test_an_oracle_that_fails_on_all_rows_of_the_sample_is_reported(df: DataFrame, models: tuple[Any, Any]) -> None:
    empty = df.selectExpr("*", "CAST(NULL AS ARRAY<DOUBLE>) AS truth")
    with pytest.warns(UserWarning, match=r"the oracle answers none of the \d+ rows that it was asked"):
        model = Cascade(oracle="truth", proxies=[models[1]], target=0.9, costs=[1, 50]).fit(empty)
    assert not model.certificate.is_met
    (row,) = model.transform(empty).limit(1).collect()
    assert (row["prediction"], row["cascade_error"]) == (None, "null")


def test_a_sample_that_is_too_small_is_reported(df: DataFrame, models: tuple[Any, Any]) -> None:
    oracle, proxy = models
    reason = "the sample has 30 rows, and a target of 0.98 at delta 0.05 takes at least"
    with pytest.warns(UserWarning, match=reason) as caught:
        model = Cascade(oracle=oracle, proxies=[proxy]).fit(df.limit(30))
    assert caught[0].filename == __file__
    assert {row["answered_by"] for row in model.transform(df).collect()} == {"oracle"}
    assert model.certificate.seconds[1] > 0
    assert (model.certificate.bound, model.certificate.is_met) == (1.0, False)


def test_members_are_checked_before_a_job(df: DataFrame, table: Any, models: tuple[Any, Any]) -> None:
    oracle, proxy = models
    other = LogisticRegression().fit(table[["x", "z"]], np.where(table.kind == "top", "peak", table.kind))
    with pytest.raises(InvalidArgumentError, match=r"proxy 1 must have classes of the oracle .*got 'peak'"):
        Cascade(oracle=oracle, proxies=[other]).fit(df)
    with pytest.raises(InvalidArgumentError, match="proxies must be set, got none"):
        Cascade(oracle=oracle).fit(df)
    with pytest.raises(InvalidArgumentError, match=r"metric must be 'accuracy' for an oracle of 3 classes"):
        Cascade(oracle=oracle, proxies=[proxy], metric="recall").fit(df)
    with pytest.raises(InvalidArgumentError, match=r"costs must have a number for each of 1 proxies"):
        Cascade(oracle=oracle, proxies=[proxy], costs=[1.0]).fit(df)
    with pytest.raises(InvalidArgumentError, match="oracle must be a featurizer"):
        Cascade(oracle=3)
    with pytest.raises(ColumnError, match="kind"):
        Cascade(oracle=oracle, proxies=["kind"]).fit(df)
    with pytest.raises(EmptyInputError, match="sample must have rows"):
        Cascade(oracle=oracle, proxies=[proxy]).fit(df.where("x > 100"))
    two = compile_pipeline(LogisticRegression().fit(table[["x", "z"]], table.kind == "top"))
    with pytest.raises(InvalidArgumentError, match="oracle"):
        Cascade(oracle=oracle, proxies=[TensorPipeline(compiled=two)]).fit(df)
