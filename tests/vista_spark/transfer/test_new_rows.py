"""The best model on new rows: those that it cannot predict stay, with the reason; and what is best at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from photographs import crops, encode
from pyspark.errors import PySparkException
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression, RandomForestClassifier
from pyspark.ml.feature import PCA, Binarizer, Imputer, IndexToString, StringIndexer, VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import LinearRegression
from pyspark.sql import functions as F

from udfs.driver import cause
from vista_spark import FeatureTransfer, TransferPredictor
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.transfer._predictor import PredictorInputs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 24
NUMBERS = ("left", "top")


def transfer(**settings: Any) -> FeatureTransfer:
    defaults: dict[str, Any] = {
        "model": "squeezenet1_1",
        "layers": ["fire5"],
        "downstream": LogisticRegression(maxIter=3, regParam=0.1),
        "test_fraction": 0.3,
        "image_size": 64,
        "progress": False,
        "feature_columns": NUMBERS,
        "seed": 4,
    }
    return FeatureTransfer(**defaults | settings)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    table, pictures = [], []
    for number, (label, left, top, picture) in enumerate(crops(ROWS, side=64)):
        kind = ("red", "green", "blue")[number % 3]
        table.append((number, float(label), bool(label), float(left), top, kind, f"class {label}", 1.0 + number % 2))
        pictures.append((number, encode(picture)))
    schema = "id long, label double, flag boolean, left double, top int, kind string, word string, weight double"
    return spark.createDataFrame(table, schema).cache(), spark.createDataFrame(
        pictures, "id long, image binary"
    ).cache()


def spoil(structured: DataFrame, images: DataFrame) -> DataFrame:
    """Six rows: the second has no number, the third half a number, the fourth a bad image, the fifth none, one both."""
    numbers = structured.where("id < 7").withColumn("left", F.when(F.col("id") != 1, F.col("left")))
    numbers = numbers.withColumn("left", F.when(F.col("id") == 2, F.lit(float("nan"))).otherwise(F.col("left")))
    numbers = numbers.withColumn("top", F.when(F.col("id") != 5, F.col("top")))
    pictures = images.withColumn("image", F.when(F.col("id") == 3, F.lit(b"%PDF")).otherwise(F.col("image")))
    pictures = pictures.withColumn("image", F.when(~F.col("id").isin(4, 5), F.col("image")))
    return numbers.join(pictures, "id", "left")


REASONS = {
    0: None,
    1: "null structured feature 'left'",
    2: "null structured feature 'left'",
    3: "image: not a JPEG, PNG, WEBP, GIF, BMP or TIFF image",
    4: "image: null",
    5: "null structured feature 'top'",
    6: None,
}


def test_rows_that_cannot_be_predicted_stay_and_say_why(tables: tuple[DataFrame, DataFrame], tmp_path: Path) -> None:
    found = transfer().run(*tables)
    assert found.best_layer == "fire5"
    joined = tables[0].join(tables[1], "id")
    good = {row["id"]: row for row in found.best_model.transform(joined).collect()}
    assert len(good) == ROWS
    assert {row["transfer_error"] for row in good.values()} == {None}
    new = spoil(*tables).drop("label", "flag", "word", "kind", "weight")
    found.best_model.save(str(tmp_path / "model"))
    for model in (found.best_model, PipelineModel.load(str(tmp_path / "model"))):
        out = model.transform(new)
        assert out.columns[-1] == "transfer_error"
        rows = {row["id"]: row for row in out.collect()}
        assert {number: row["transfer_error"] for number, row in rows.items()} == REASONS
        for number, row in rows.items():
            if REASONS[number] is None:
                assert row["prediction"] == good[number]["prediction"]
                assert row["probability"] == good[number]["probability"]
            else:
                assert [row[name] for name in ("prediction", "probability", "rawPrediction", "transfer_features")] == (
                    [None] * 4
                )
    # Words for the predictions, as the command adds them.
    words = IndexToString(inputCol="prediction", outputCol="said", labels=["no", "yes"])
    *before, last = found.best_model.stages
    speaking = PipelineModel([*before, last.followed_by(words)])
    speaking.save(str(tmp_path / "speaking"))
    said = {row["id"]: row["said"] for row in PipelineModel.load(str(tmp_path / "speaking")).transform(new).collect()}
    assert {number for number, word in said.items() if word is None} == {1, 2, 3, 4, 5}
    dropping = found.best_model.copy()
    dropping.stages[-1].setErrors("drop")
    out = dropping.transform(new)
    assert "transfer_error" not in out.columns
    assert sorted(row["id"] for row in out.collect()) == [0, 6]


def test_a_transfer_that_raises_makes_a_model_that_raises(tables: tuple[DataFrame, DataFrame]) -> None:
    found = transfer(errors="raise").run(*tables)
    new = spoil(*tables)
    assert found.best_model.transform(new.where("id in (0, 6)")).count() == 2
    with pytest.raises(PySparkException, match="null structured feature 'left'"):
        found.best_model.transform(new.where("id < 3")).collect()
    with pytest.raises(PySparkException) as caught:
        found.best_model.transform(new.where("id = 3")).collect()
    assert cause(caught.value).kind == "ImageError"


def test_where_no_layer_beats_the_structured_features_the_result_says_so(tables: tuple[DataFrame, DataFrame]) -> None:
    """The label is a structured feature: images can only add noise."""
    structured, images = tables
    exact = structured.withColumn("price", 3 * F.col("left") + F.col("top") + 5)
    found = transfer(downstream=LinearRegression(regParam=0.01), label_column="price").run(exact, images)
    assert found.metric == "rmse"
    assert found.baseline.score < 1 < found.layers[0].score
    assert found.best is found.baseline
    assert found.best_layer is None
    assert (found.best_score, found.best_params) == (found.baseline.score, {})
    assert found.verdict.startswith("no layer beats the structured features alone (rmse ")
    assert "the nearest is fire5" in found.verdict
    assert "random" in found.verdict, "there are no weights"
    # It needs no images.
    rows = found.best_model.transform(exact.drop("price")).collect()
    assert len(rows) == ROWS
    for row in rows:
        assert row["prediction"] == pytest.approx(3 * row["left"] + row["top"] + 5, abs=3)
    scored = {row["id"]: row for row in found.best_model.transform(spoil(exact, images)).collect()}
    assert {number for number, row in scored.items() if row["prediction"] is None} == {1, 2, 5}
    assert "structured" in found.to_pandas()["features"][0]
    found.plot()


def test_a_layer_that_is_best_is_said_to_be(tables: tuple[DataFrame, DataFrame]) -> None:
    found = transfer().run(*tables)
    assert found.verdict.startswith("fire5 is best: f1 ")
    assert found.random_weights
    assert "random" in found.verdict
    assert "random" not in replace(found, random_weights=False).verdict
    bad = replace(found.layers[0], score=float("nan"))
    assert "nan" in replace(found, layers=(bad,), best=found.baseline).verdict


def test_boolean_labels_and_counts_by_column(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    holes = structured.withColumn("left", F.when(~F.col("id").isin(1, 2), F.col("left"))).withColumn(
        "top", F.when(~F.col("id").isin(2, 3, 4, 5), F.col("top"))
    )
    found = transfer(label_column="flag").run(holes, images)
    assert found.dropped == {"null structured feature 'left'": 2, "null structured feature 'top'": 3}
    assert found.metric == "f1"
    numbered = transfer().run(holes, images)
    assert [row.score for row in found.rows] == [row.score for row in numbered.rows]


def test_a_pipeline_may_index_columns_of_the_table(tables: tuple[DataFrame, DataFrame], tmp_path: Path) -> None:
    """One stage indexes a feature, one the label; weights are a column too."""
    structured, images = tables
    downstream = Pipeline(
        stages=[
            StringIndexer(inputCol="kind", outputCol="kind_number"),
            StringIndexer(inputCol="word", outputCol="word_number"),
            VectorAssembler(inputCols=["transfer_features", "kind_number"], outputCol="all"),
            LogisticRegression(featuresCol="all", labelCol="word_number", weightCol="weight", maxIter=3, regParam=0.1),
        ]
    )
    holes = structured.withColumn("kind", F.when(F.col("id") != 7, F.col("kind")))
    task = transfer(downstream=downstream, label_column="word")
    found = task.run(holes, images)
    assert found.dropped == {"null structured feature 'kind'": 1}
    assert found.best_score > 0.6
    found.best_model.save(str(tmp_path / "model"))
    joined = holes.join(images, "id")
    with pytest.raises(ColumnError, match="'kind'"):
        found.best_model.transform(joined.drop("kind"))
    for new in (joined, joined.drop("word", "weight"), joined.withColumn("word", F.lit(None).cast("string"))):
        rows = {row["id"]: row for row in PipelineModel.load(str(tmp_path / "model")).transform(new).collect()}
        assert {number for number, row in rows.items() if row["prediction"] is None} == {7}
        assert rows[7]["transfer_error"] == "null structured feature 'kind'"
        assert rows[7]["kind"] is None, "the row is as it was"
        assert rows[8]["kind"] == "blue"
        assert "word_number" not in rows[8], "the value is unknown for new rows"
        assert ("word" in rows[8]) == ("word" in new.columns)
    assert task.fit(joined).result.best_score == found.best_score


@pytest.mark.slow
def test_a_pca_wider_than_the_baseline_is_refused_in_words(tables: tuple[DataFrame, DataFrame]) -> None:
    stages = [
        PCA(k=3, inputCol="transfer_features", outputCol="few"),
        LogisticRegression(featuresCol="few", maxIter=2),
    ]
    assembled = [VectorAssembler(inputCols=["transfer_features", "weight"], outputCol="all")]
    unknown = [PCA(k=4, inputCol="all", outputCol="few"), stages[1]]
    with pytest.raises(InvalidArgumentError, match=r"PCA of the downstream pipeline.*3 must be no less than k=4"):
        transfer(downstream=Pipeline(stages=assembled + unknown)).run(*tables)
    with pytest.raises(InvalidArgumentError, match=r"PCA\(k=3\).*2 structured features.*k=2 or less"):
        transfer(downstream=Pipeline(stages=stages)).run(*tables)
    stages[0] = PCA(k=2, inputCol="transfer_features", outputCol="few")
    assert transfer(downstream=Pipeline(stages=stages)).run(*tables).best_score > 0


# ---- the stage by itself


@pytest.mark.connect_slow
def test_a_label_that_a_stage_makes_another_of(spark: SparkSession) -> None:
    """New rows have no label, a stage of the fitted pipeline reads one all the same, and nothing comes of it."""
    rows = [(Vectors.dense([float(n), 1.0]), 10.0 * n) for n in range(12)]
    stages = [Binarizer(threshold=55, inputCol="price", outputCol="high"), LogisticRegression(labelCol="high")]
    for stage in stages[1:]:
        stage.setFeaturesCol("transfer_features")
    model = Pipeline(stages=stages).fit(spark.createDataFrame(rows, ["transfer_features", "price"]))
    inputs = PredictorInputs(("x", "y"), 2, label="price", target="high", known_label=10.0, example=(1.0, 1.0))
    fitted = TransferPredictor(model, inputs)
    new = spark.createDataFrame([(0, 1.0, 1.0), (1, 11.0, 1.0), (2, None, 1.0)], "id long, x double, y double")
    for df in (new, new.withColumn("price", F.lit(None).cast("int")), new.withColumn("price", F.lit("a lot"))):
        out = fitted.transform(df)
        assert "high" not in out.columns
        assert out.columns[: len(df.columns)] == df.columns
        found = {row["id"]: row for row in out.collect()}
        assert [found[number]["prediction"] for number in range(3)] == [0.0, 1.0, None]
        if "price" in df.columns:
            assert found[0]["price"] == df.first()["price"], "the row is as it was"


@pytest.mark.connect_slow
def test_nulls_that_the_pipeline_accepts_are_predicted(spark: SparkSession) -> None:
    rows = [(Vectors.dense([float(n)]), None if n == 3 else float(n % 2), "ab"[n % 2], float(n % 2)) for n in range(12)]
    stages = [
        Imputer(inputCols=["age"], outputCols=["known_age"]),
        StringIndexer(inputCol="word", outputCol="number", handleInvalid="keep"),
        VectorAssembler(inputCols=["transfer_features", "known_age", "number"], outputCol="all"),
        LogisticRegression(featuresCol="all", maxIter=2),
    ]
    df = spark.createDataFrame(rows, ["transfer_features", "age", "word", "label"])
    held = {"carried": {"age": 1.0, "word": "a"}, "nullable": ("age", "word"), "example": (1.0,)}
    fitted = TransferPredictor(Pipeline(stages=stages).fit(df), PredictorInputs(("x",), 1, **held))
    schema = "id long, x double, age double, word string"
    new = spark.createDataFrame([(0, 1.0, None, "a"), (1, 1.0, 1.0, None), (2, None, None, None)], schema)
    found = {row["id"]: row for row in fitted.transform(new).collect()}
    assert [found[number]["transfer_error"] for number in range(3)] == [None, None, "null structured feature 'x'"]
    assert [found[number]["prediction"] is None for number in range(3)] == [False, False, True]
    assert (found[0]["age"], found[1]["word"]) == (None, None)


def predictor(spark: SparkSession, downstream: Any = None, **inputs: Any) -> TransferPredictor:
    rows = [(Vectors.dense([float(n), 1.0, float(n % 3)]), float(n % 2)) for n in range(12)]
    df = spark.createDataFrame(rows, ["transfer_features", "label"])
    estimator = downstream or RandomForestClassifier(numTrees=2, seed=1)
    model = estimator.copy({estimator.featuresCol: "transfer_features"}).fit(df)
    held = {"structured": ("x", "v"), "structured_size": 3, "example": (1.0, 1.0, 0.0)}
    return TransferPredictor(model, PredictorInputs(**held | inputs))


def test_vectors_of_another_length_are_a_reason(spark: SparkSession) -> None:
    rows = [
        (0, 1.0, Vectors.dense([1.0, 0.0])),
        (1, 2.0, Vectors.sparse(2, [1], [1.0])),
        (2, 3.0, Vectors.dense([1.0])),
    ]
    df = spark.createDataFrame([*rows, (3, 4.0, None), (4, None, None)], ["id", "x", "v"])
    out = predictor(spark).transform(df)
    assert {row["id"]: row["transfer_error"] for row in out.collect()} == {
        0: None,
        1: None,
        2: "structured features of another length",
        3: "null structured feature 'v'",
        4: "null structured feature 'x'",
    }
    assert out.schema["transfer_features"].metadata["ml_attr"]["num_attrs"] == 3
    with pytest.raises(ColumnError, match="'transfer_error' exists already"):
        predictor(spark).transform(out.drop("transfer_features"))


@pytest.mark.contract
@pytest.mark.connect_slow
def test_a_stream_is_predicted_like_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """With images, as a transfer makes the model; on Connect in the next test."""
    structured, images = [], []
    for number, (label, left, top, picture) in enumerate(crops(16, side=64)):
        structured.append((number, float(label), float(left), float(top)))
        images.append((number, encode(picture)))
    table = spark.createDataFrame(structured, "id long, label double, left double, top double")
    pictures = spark.createDataFrame(images, "id long, image binary")
    model = transfer().run(table, pictures).best_model
    new = table.drop("label").join(pictures, "id").withColumn("left", F.when(F.col("id") != 3, F.col("left")))
    new.write.parquet(str(tmp_path / "new"))
    batch = {row["id"]: (row["prediction"], row["transfer_error"]) for row in model.transform(new).collect()}
    stream = spark.readStream.schema(new.schema).parquet(str(tmp_path / "new"))
    scored = model.transform(stream).select("id", "prediction", "transfer_error")
    assert scored.isStreaming
    query = (
        scored.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("path", str(tmp_path / "out"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    found = {
        row["id"]: (row["prediction"], row["transfer_error"])
        for row in spark.read.parquet(str(tmp_path / "out")).collect()
    }
    assert found == batch
    assert batch[3] == (None, "null structured feature 'left'")
    assert len(found) == 16
