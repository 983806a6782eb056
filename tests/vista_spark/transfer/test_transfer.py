from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LinearSVC, LogisticRegression, OneVsRest, RandomForestClassifier
from pyspark.ml.evaluation import (
    BinaryClassificationEvaluator,
    MulticlassClassificationEvaluator,
    RegressionEvaluator,
)
from pyspark.ml.feature import StandardScaler, VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions as F
from real_inputs import foolbox_images, mobilenet_v2_weights
from row_recorder import RowRecorder
from sessions import CONNECT, PREPARATION

torch = pytest.importorskip("torch")

from optimizer.errors import UnknownLayerError
from optimizer.memory import LOGICAL_PLANS
from udfs.images import (
    ImageError,
    hog_length,
)
from udfs.testing import transform_in_new_process
from vista_spark import CNNFeaturizer, FeatureTransfer, TransferResult, roster
from vista_spark.errors import (
    ColumnError,
    DuplicateIdError,
    EmptyInputError,
    InvalidArgumentError,
    LabelError,
    MissingIdError,
    UnknownModelError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    Watch = Callable[[], AbstractContextManager[None]]

ROWS = 36
LAYERS = ("fire3", "fire5", "pool10")
NUMBERS = ("left", "top", "size")
SEED = 4


def accuracy() -> MulticlassClassificationEvaluator:
    return MulticlassClassificationEvaluator(metricName="accuracy")


def transfer(**settings: Any) -> FeatureTransfer:
    defaults = {
        "model": "squeezenet1_1",
        "layers": LAYERS,
        "downstream": LogisticRegression(maxIter=2),
        "test_fraction": 0.3,
        "image_size": 64,
        "experiment": None,
        "progress": False,
        "seed": SEED,
    }
    return FeatureTransfer(**defaults | settings)


def run(pair: tuple[DataFrame, DataFrame], task: FeatureTransfer | None = None, **arguments: Any) -> TransferResult:
    return (task or transfer()).run(*pair, **{"feature_columns": NUMBERS} | arguments)


def records(count: int) -> tuple[list[tuple[Any, ...]], list[tuple[int, bytes]]]:
    table, pictures = [], []
    for number, (label, left, top, picture) in enumerate(crops(count, side=64)):
        file = encode(picture)
        table.append((number, float(label), float(left), top, len(file)))
        pictures.append((number, file))
    return table, pictures


SCHEMA = "id long, label double, left double, top int, size long"


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Crops of two photographs, which one to be told; where and how large are the structured columns."""
    table, pictures = records(ROWS)
    structured, images = spark.createDataFrame(table, SCHEMA), spark.createDataFrame(pictures, "id long, image binary")
    return structured.cache(), images.cache()


@pytest.fixture(scope="module")
def plans(tables: tuple[DataFrame, DataFrame]) -> dict[str, tuple[TransferResult, list[dict[int, np.ndarray]]]]:
    """The same transfer by each plan, on differently scattered tables, with all that the downstream model was given."""
    structured, images = tables
    scattered = {
        "lazy": (structured.repartition(5), images.orderBy(F.desc("id"))),
        "eager": (structured.coalesce(1), images.repartition(3)),
    }
    found = {}
    for plan in ("auto", *LOGICAL_PLANS):
        pair = scattered.get(plan, tables)
        log: list[dict[int, np.ndarray]] = []
        task = transfer(plan=plan, downstream=RowRecorder(log), evaluator=accuracy())
        found[plan] = run(pair, task), log
    return found


@pytest.fixture(scope="module")
def result(plans: dict[str, tuple[TransferResult, list[dict[int, np.ndarray]]]]) -> TransferResult:
    return plans["staged"][0]


# ---- what comes out


@pytest.mark.parametrize("plan", ["auto", *(plan for plan in LOGICAL_PLANS if plan != "staged")])
def test_every_plan_gives_the_same(
    plan: str, plans: dict[str, tuple[TransferResult, list[dict[int, np.ndarray]]]]
) -> None:
    (staged, given), (other, others) = plans["staged"], plans[plan]
    assert len(given) == len(others) == 1 + len(LAYERS)
    for one, two in zip(given, others, strict=True):
        assert one.keys() == two.keys(), "another split"
        for number in one:
            np.testing.assert_allclose(one[number], two[number], atol=1e-5)
    assert [row.score for row in staged.rows] == [row.score for row in other.rows]
    assert [row.name for row in staged.rows] == [row.name for row in other.rows]
    assert (staged.train_rows, staged.test_rows) == (other.train_rows, other.test_rows)
    assert plan in (other.plan.logical, "auto")


def test_auto_says_what_it_was_preferred_to(
    plans: dict[str, tuple[TransferResult, list[dict[int, np.ndarray]]]],
) -> None:
    choice = plans["auto"][0].choice
    compared = {name: seconds for name, seconds in choice.considered if isinstance(seconds, float)}
    assert {"staged", "eager-reordered", "lazy-reordered"} <= compared.keys()
    assert choice.seconds == min(compared.values())
    assert choice.physical.cluster.local
    assert plans["staged"][0].choice.considered == ()


@pytest.mark.parametrize("plan", ["staged", "staged-before-join", "lazy"])
def test_what_is_left_out_is_counted_alike(plan: str, tables: tuple[DataFrame, DataFrame]) -> None:
    """Two bad images, one of them without a structured row: a join after inference sees both, and counts one."""
    structured, images = tables
    bad = images.withColumn("image", F.when(~F.col("id").isin(5, 6), F.col("image")).otherwise(F.lit(b"%PDF")))
    found = run((structured.where("id not in (6, 7)"), bad), transfer(layers=["fire3", "fire5"], plan=plan))
    unknown = "image: not a JPEG, PNG, WEBP, GIF, BMP or TIFF image"
    assert found.dropped == {"image without a structured row": 2, unknown: 1}
    assert found.train_rows + found.test_rows == ROWS - 3


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("join", ("shuffle", "broadcast")),
        pytest.param("persistence", ("serialized", "deserialized"), marks=pytest.mark.slow),
        pytest.param("partitions", (3, 5), marks=pytest.mark.slow),
    ],
)
def test_a_physical_decision_by_hand_is_kept(
    name: str, values: tuple[Any, ...], tables: tuple[DataFrame, DataFrame], result: TransferResult
) -> None:
    for value in values:
        found = run(tables, transfer(plan="staged", evaluator=accuracy(), **{name: value}))
        decisions = ("join", "persistence", "partitions")
        kept = {decision: getattr(found.choice.physical, decision) for decision in decisions}
        planned = {decision: getattr(result.choice.physical, decision) for decision in decisions}
        assert kept == planned | {name: value}
        assert [row.score for row in found.rows] == [row.score for row in result.rows]


def test_features_are_those_of_the_featurizer(
    tables: tuple[DataFrame, DataFrame], plans: dict[str, tuple[TransferResult, list[dict[int, np.ndarray]]]]
) -> None:
    structured, images = tables
    featurizer = CNNFeaturizer(
        model="squeezenet1_1", layers=list(LAYERS), outputCols=list(LAYERS), imageSize=64, seed=SEED
    )
    expected = {row["id"]: row for row in featurizer.transform(images).collect()}
    numbers = {row["id"]: [float(row[name]) for name in NUMBERS] for row in structured.collect()}
    baseline, *layers = plans["staged"][1]
    for number, row in baseline.items():
        np.testing.assert_array_equal(row, numbers[number])
    for name, rows in zip(LAYERS, layers, strict=True):
        for number, row in rows.items():
            np.testing.assert_array_equal(row[:3], numbers[number])
            np.testing.assert_allclose(row[3:], expected[number][name].toArray(), atol=1e-5)


def test_the_result_adds_up(result: TransferResult) -> None:
    assert tuple(row.name for row in result.layers) == LAYERS
    assert [row.size for row in result.layers] == [128 * 4, 256 * 4, 1000]
    assert result.baseline.size == 0
    assert result.train_rows + result.test_rows == ROWS
    assert 0.1 < result.test_rows / ROWS < 0.5
    assert result.dropped == {}
    assert result.metric == "accuracy"
    assert result.larger_is_better
    assert result.best.score == max(row.score for row in result.layers)
    assert result.best is next(row for row in result.layers if row.score == result.best.score)
    assert result.best.score > max(result.baseline.score, 0.8)
    assert all(row.seconds > 0 for row in result.rows)
    assert [row.gflops for row in result.layers] == [stage.flops / 1e9 for stage in result.plan.stages]
    assert [each.layers for each in result.passes] == [(name,) for name in LAYERS]
    assert (result.best_score, result.best_params) == (
        result.best.score, {"model": "squeezenet1_1", "layers": [result.best.name]}
    )  # fmt: skip


@pytest.mark.parametrize("plan", ["eager", "lazy"])
def test_layers_share_the_seconds_of_their_pass(
    plan: str, plans: dict[str, tuple[TransferResult, list[dict[int, np.ndarray]]]]
) -> None:
    found, stages = plans[plan][0], plans[plan][0].plan.stages
    assert [each.layers for each in found.passes] == ([LAYERS] if plan == "eager" else [(name,) for name in LAYERS])
    assert [each.gflops for each in found.passes] == [stage.flops / 1e9 for stage in stages]
    for number, each in enumerate(found.passes):
        rows = [row for row in found.layers if row.inference_pass == number]
        assert tuple(row.name for row in rows) == each.layers
        assert all(row.inference_seconds > 0 for row in rows), "one layer has all the seconds"
        assert sum(row.inference_seconds for row in rows) == pytest.approx(each.seconds)
        assert sum(row.gflops for row in rows) == pytest.approx(each.gflops)
        for row in rows:
            assert row.inference_seconds / each.seconds == pytest.approx(row.gflops / each.gflops)
    assert found.baseline.inference_pass is None
    numbers = found.to_pandas()["pass"]
    assert list(numbers.dropna()) == ([1, 1, 1] if plan == "eager" else [1, 2, 3])
    assert numbers.isna().sum() == 1


def test_to_pandas(result: TransferResult) -> None:
    found = result.to_pandas()
    assert list(found["features"]) == ["structured only", *(f"structured + {name}" for name in LAYERS)]
    assert list(found["accuracy"]) == [row.score for row in result.rows]
    assert found["lift"][0] == 0
    assert found["lift"][2] == pytest.approx(result.layers[1].score - result.baseline.score)
    assert list(found["size"]) == [row.size for row in result.rows]
    assert list(found["inference_seconds"] + found["training_seconds"]) == [row.seconds for row in result.rows]
    worse = replace(result, larger_is_better=False).to_pandas()
    assert list(worse["lift"]) == [-lift for lift in found["lift"]]


def test_plot(result: TransferResult) -> None:
    from matplotlib.figure import Figure  # as the library does

    figure = result.plot()
    assert isinstance(figure, Figure)
    scores, seconds = figure.axes
    assert [bar.get_width() for bar in scores.patches] == [row.score for row in result.rows]
    heights = [bar.get_y() for bar in scores.patches]
    assert heights == sorted(heights, reverse=True), "the baseline is at the top"
    assert [text.get_text() for text in scores.get_yticklabels()] == list(result.to_pandas()["features"])
    assert [text.get_text() for text in scores.texts] == [f"{row.score:.3f}" for row in result.rows]
    colours = [bar.get_facecolor() for bar in scores.patches]
    assert colours.count(colours[1 + result.layers.index(result.best)]) == 1, "the best one stands out"
    assert len(seconds.patches) == 2 * len(result.rows)
    assert "accuracy" in scores.get_xlabel()
    assert str(result.test_rows) in scores.get_xlabel()


def test_explain(result: TransferResult) -> None:
    layouts, _, staged = transfer(plan="staged").explain().partition("staged plan for")
    assert layouts.splitlines()[0] == "layers and their pooling:"
    assert layouts.count("places, channels first") == len(result.layers)
    before, _, said = transfer().explain().partition('plan="auto": the order of passes is chosen at run time')
    assert before == layouts
    text = f"staged plan for{staged}"
    assert text == said.partition("\n")[2] == result.plan.explain()
    lines = text.splitlines()
    assert lines[0].startswith("staged plan for squeezenet1_1")
    assert [line for line in lines if "train downstream" in line] == lines[2:7:2]
    assert "GFLOPs per record; the lazy plan takes" in lines[-1]
    assert "lazy plan for" in transfer(plan="lazy").explain()


def test_the_best_model_predicts_as_its_layer_did(
    tables: tuple[DataFrame, DataFrame], result: TransferResult, tmp_path: Path
) -> None:
    structured, images = tables
    joined = structured.join(images, "id")
    assembler = VectorAssembler(inputCols=[*NUMBERS, result.best.name], outputCol="transfer_features")
    featurizer = CNNFeaturizer(
        model="squeezenet1_1", layers=result.best.name, outputCols=[result.best.name], imageSize=64, seed=SEED
    )
    by_hand = result.best.model.transform(assembler.transform(featurizer.transform(joined)))
    expected = {row["id"]: row["probability"].toArray() for row in by_hand.collect()}
    assert len(expected) == ROWS
    # No label is needed to predict.
    found = {row["id"]: row for row in result.best_model.transform(joined.drop("label")).collect()}
    assert found.keys() == expected.keys()
    for number, row in found.items():
        np.testing.assert_allclose(row["probability"].toArray(), expected[number], atol=1e-5)
    accuracy = np.mean([found[number]["prediction"] == number % 2 for number in found])
    assert accuracy > 0.8

    joined.drop("label").write.parquet(str(tmp_path / "joined"))
    result.best_model.save(str(tmp_path / "model"))
    transform_in_new_process(tmp_path / "joined", {tmp_path / "model": tmp_path / "out"}, PREPARATION)
    for row in joined.sparkSession.read.parquet(str(tmp_path / "out")).collect():
        np.testing.assert_allclose(row["probability"].toArray(), expected[row["id"]], atol=1e-5)


def test_a_bad_image_does_not_stop_the_best_model(tables: tuple[DataFrame, DataFrame], result: TransferResult) -> None:
    structured, images = tables
    spoilt = images.where("id < 4").withColumn("image", F.when(F.col("id") != 2, F.col("image")))
    out = result.best_model.transform(structured.join(spoilt, "id"))
    errors = {row["id"]: (row["transfer_error"], row["prediction"] is None) for row in out.collect()}
    assert errors == {0: (None, False), 1: (None, False), 2: ("image: null", True), 3: (None, False)}


def test_hog_and_a_vector_of_features(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    vectors = VectorAssembler(inputCols=list(NUMBERS), outputCol="features").transform(structured)
    listed = run(tables, transfer(layers=["pool10"], hog=True, evaluator=accuracy()))
    found = transfer(layers=["pool10"], evaluator=accuracy()).run(vectors.select("id", "label", "features"), images)
    assert found.baseline.score == listed.baseline.score
    assert found.best.score == listed.best.score
    assert found.hog is None
    assert listed.hog is not None
    assert listed.hog.size == hog_length(64)
    assert listed.hog.model.numFeatures == 3 + hog_length(64)
    assert [row.name for row in listed.rows] == ["structured", "hog", "pool10"]
    assert listed.to_pandas()["features"][1] == "structured + HOG"
    assert len(listed.plot().axes[0].patches) == 3
    predicted = found.best_model.transform(vectors.join(images, "id").limit(3)).collect()
    assert len(predicted) == 3


def test_real_weights_on_real_photographs(spark: SparkSession) -> None:
    """The twenty ImageNet photographs: is it an animal (classes below 398)?"""
    pictures = foolbox_images()
    images = spark.createDataFrame([(i, str(path)) for i, (path, _) in enumerate(pictures)], "key int, photo string")
    rows = [(i, i % 3, float(label < 398)) for i, (_, label) in enumerate(pictures)]
    structured = spark.createDataFrame(rows, "key int, x int, animal double")
    weights = str(mobilenet_v2_weights())
    task = transfer(model="mobilenet_v2", weights=weights, layers=["block17", "fc"], image_size=160, pooling="mean")
    found = task.run(structured, images, on="key", feature_columns=["x"], label_column="animal", image_column="photo")
    assert [row.size for row in found.layers] == [320, 1000]
    assert found.metric == "f1"
    assert found.best.score >= found.baseline.score


# ---- downstream models


@pytest.mark.parametrize(
    ("make", "score", "metric"),
    [
        pytest.param(
            lambda: RandomForestClassifier(numTrees=3, maxDepth=2, seed=1), None, "f1", marks=pytest.mark.slow
        ),
        pytest.param(lambda: OneVsRest(classifier=LinearSVC(maxIter=2)), None, "f1", marks=pytest.mark.slow),
        (lambda: LinearRegression(maxIter=2, regParam=0.1), None, "rmse"),
        (
            lambda: Pipeline(
                stages=[
                    StandardScaler(inputCol="transfer_features", outputCol="scaled"),
                    LogisticRegression(featuresCol="scaled", maxIter=2),
                ]
            ),
            None,
            "f1",
        ),
        pytest.param(
            lambda: LogisticRegression(maxIter=2),
            BinaryClassificationEvaluator,
            "areaUnderROC",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["RandomForest", "OneVsRest", "LinearRegression", "Pipeline", "LogisticRegression"],
)
def test_any_estimator_works_downstream(
    make: Callable[[], Any], score: Any, metric: str, tables: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    structured, images = tables
    downstream, evaluator = make(), score and score()
    pair = structured.withColumnRenamed("label", "flower"), images
    before = {param.name: value for param, value in downstream.extractParamMap().items()}
    found = run(pair, transfer(layers=["fire5"], downstream=downstream, evaluator=evaluator), label_column="flower")
    assert found.metric == metric
    assert found.larger_is_better == (metric != "rmse")
    assert math.isfinite(found.best.score)
    assert {param.name: value for param, value in downstream.extractParamMap().items()} == before, "not the user's own"
    joined = pair[0].join(images, "id").where("id < 6")
    predicted = {row["id"]: row["prediction"] for row in found.best_model.transform(joined).collect()}
    found.best_model.save(str(tmp_path / "model"))
    loaded = PipelineModel.load(str(tmp_path / "model")).transform(joined)
    assert {row["id"]: row["prediction"] for row in loaded.collect()} == pytest.approx(predicted)
    assert len(predicted) == 6


@pytest.mark.parametrize("search", [CrossValidator, pytest.param(TrainValidationSplit, marks=pytest.mark.slow)])
def test_a_search_works_downstream(search: Any, tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    pair = structured.withColumnRenamed("label", "flower"), images
    inner = LogisticRegression(maxIter=2)
    grid = ParamGridBuilder().addGrid(inner.regParam, [0.0, 1e6]).build()
    extent = {"numFolds": 2} if search is CrossValidator else {"trainRatio": 0.6}
    task = search(estimator=inner, estimatorParamMaps=grid, evaluator=accuracy(), seed=1, **extent)
    found = run(pair, transfer(layers=["fire5"], downstream=task), label_column="flower")
    assert found.metric == "f1"
    assert found.best.model.bestModel.getRegParam() == 0.0
    assert found.best.model.bestModel.getFeaturesCol() == "transfer_features"
    assert found.best_model.transform(pair[0].join(images, "id")).count() == ROWS


def test_the_smallest_error_is_the_best(tables: tuple[DataFrame, DataFrame]) -> None:
    downstream, evaluator = LinearRegression(regParam=0.1, maxIter=2), RegressionEvaluator(metricName="mae")
    task = transfer(downstream=downstream, evaluator=evaluator)
    found = run(tables, task, feature_columns=["top"], label_column="size")
    assert not found.larger_is_better
    assert found.best.score == min(row.score for row in found.rows)


# ---- tracking


@pytest.mark.filterwarnings("default")  # mlflow's own, on import and on Spark models
def test_mlflow_keeps_it(tables: tuple[DataFrame, DataFrame], tracking: Any, tmp_path: Path) -> None:
    structured, images = tables
    own = tracking.create_experiment("mine", artifact_location=(tmp_path / "mine").as_uri())
    tracking.create_experiment("flowers", artifact_location=(tmp_path / "artifacts").as_uri())
    bad = images.withColumn("image", F.when(F.col("id") != 5, F.col("image")).otherwise(F.lit(b"%PDF")))
    with tracking.start_run(experiment_id=own) as around:
        found = run((structured, bad), transfer(layers=["fire5", "pool10"], experiment="flowers"))
        assert tracking.active_run().info.run_id == around.info.run_id, "the user's own run is still open"
    runs = tracking.search_runs(experiment_names=["flowers"], output_format="list")
    (parent,) = [entry for entry in runs if entry.data.tags.get("mlflow.parentRunId") == around.info.run_id]
    children = [entry for entry in runs if entry.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(runs) == 1 + len(children)
    assert {entry.info.run_name: entry.data.metrics["f1"] for entry in children} == {
        row.name: row.score for row in found.rows
    }
    assert all(entry.info.status == "FINISHED" for entry in runs)
    assert parent.data.metrics["best_f1"] == found.best.score
    assert parent.data.metrics["baseline_f1"] == found.baseline.score
    assert parent.data.tags["best_layer"] == (found.best_layer or "none")
    assert parent.data.tags["verdict"] == found.verdict
    assert parent.data.params["model"] == "squeezenet1_1"
    assert parent.data.params["downstream"] == "LogisticRegression"
    assert int(parent.data.params["train_rows"]) + int(parent.data.params["test_rows"]) == ROWS - 1
    folder = Path(parent.info.artifact_uri.removeprefix("file://"))
    assert (folder / "plan.txt").read_text() == found.choice.explain()
    assert (folder / "layers.png").read_bytes().startswith(b"\x89PNG")
    assert "structured + pool10" in (folder / "layers.csv").read_text()
    assert "not a JPEG" in "".join(path.read_text() for path in folder.glob("dropped*"))
    kept = tracking.spark.load_model(f"runs:/{parent.info.run_id}/best_model")
    joined = structured.join(images, "id").limit(4)
    assert predictions(kept, joined) == predictions(found.best_model, joined)


def predictions(model: PipelineModel, joined: DataFrame) -> dict[int, float]:
    return {row.id: row.prediction for row in model.transform(joined).select("id", "prediction").collect()}


@pytest.mark.filterwarnings("default")  # mlflow's own, on import
def test_a_tracking_server_that_fails_does_not_take_the_result_with_it(
    tables: tuple[DataFrame, DataFrame], tracking: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "not-a-database").write_text("x" * 4096)
    tracking.set_tracking_uri(f"sqlite:///{tmp_path / 'not-a-database'}")
    found = run(tables, transfer(layers=["pool10"], experiment="flowers"))
    assert [row.name for row in found.layers] == ["pool10"]
    assert "MLflow could not log it to experiment 'flowers'" in "\n".join(caplog.messages)


# ---- bad input


def test_bad_rows_are_left_out_and_counted_once(spark: SparkSession) -> None:
    table, pictures = records(ROWS)
    truncated, empty = {3, 10}, {7}
    pictures = [(n, file[:400] if n in truncated else b"" if n in empty else file) for n, file in pictures]
    pictures = [item for item in pictures if item[0] not in {20, 21}]
    table = [row for row in table if row[0] not in {22, 23, 24}]
    spoilt = {
        25: (25, None, 1.0, 1, 1),
        26: (26, float("nan"), 1.0, 1, 1),
        27: (27, 1.0, None, 1, 1),
        28: (28, 1.0, float("nan"), 1, 1),
        29: (29, 1.0, float("inf"), 1, 1),
        30: (30, None, None, 1, 1),
    }
    table = [spoilt.get(row[0], row) for row in table] + [(None, 1.0, 1.0, 1, 1)]
    pictures += [(None, pictures[0][1]), (None, b"")]
    pair = spark.createDataFrame(table, SCHEMA), spark.createDataFrame(pictures, "id long, image binary")
    log: list[dict[int, np.ndarray]] = []
    found = run(pair, transfer(layers=["pool10"], downstream=RowRecorder(log), evaluator=accuracy(), test_fraction=0.3))
    assert found.dropped == {
        "structured row with a null id": 1,
        "image with a null id": 2,
        "null label": 3,
        "null structured feature 'left'": 3,
        "structured row without an image": 2,
        "image without a structured row": 3,
        "image: truncated or corrupt JPEG file": 2,
        "image: empty file": 1,
    }
    good = set(range(ROWS)) - truncated - empty - set(range(20, 31))
    assert found.train_rows + found.test_rows == len(good)
    held_out = found.test_rows
    assert log[0].keys() == log[1].keys() <= good
    assert len(log[0]) == len(good) - held_out


@pytest.mark.parametrize(
    ("spoil", "kind", "message"),
    [
        ("null id", MissingIdError, r"1 rows cannot be used \(structured row with a null id\). Set errors=\"drop\""),
        ("image without id", MissingIdError, r"1 rows cannot be used \(image with a null id"),
        ("unmatched row", MissingIdError, r"4 rows cannot be used \(structured row without an image"),
        ("unmatched image", MissingIdError, r"3 rows cannot be used \(image without a structured row"),
        ("null label", LabelError, r"1 rows have no label 'label'; errors=\"drop\""),
        ("null feature", MissingIdError, r"1 rows cannot be used \(null structured feature '\w+'"),
        ("infinite vector", MissingIdError, r"1 rows cannot be used \(null structured feature '\w+'"),
        ("corrupt image", ImageError, r"not a JPEG.*id 9 and others; errors=\"drop\""),
    ],
)
def test_bad_rows_can_be_errors(
    spoil: str, kind: type[Exception], message: str, tables: tuple[DataFrame, DataFrame]
) -> None:
    structured, images = tables
    features: Any = NUMBERS
    null = F.lit(None)

    def at(number: int, column: str, value: Any) -> Any:
        return F.when(F.col("id") == number, value).otherwise(F.col(column))

    if spoil == "null id":
        structured = structured.withColumn("id", at(0, "id", null))
    elif spoil == "image without id":
        images = images.withColumn("id", at(0, "id", null))
    elif spoil == "unmatched row":
        images = images.where("id >= 4")
    elif spoil == "unmatched image":
        structured = structured.where("id >= 3")
    elif spoil == "null label":
        structured = structured.withColumn("label", at(0, "label", null))
    elif spoil == "null feature":
        structured = structured.withColumn("left", at(0, "left", null))
    elif spoil == "infinite vector":
        structured = structured.withColumn("left", at(0, "left", F.lit(float("inf"))))
        keep = VectorAssembler(inputCols=list(NUMBERS), outputCol="features", handleInvalid="keep")
        structured, features = keep.transform(structured), "features"
    else:
        images = images.withColumn("image", at(9, "image", F.lit(b"no image")))
    with pytest.raises(kind, match=message):
        run((structured, images), transfer(errors="raise", layers=["fire3"]), feature_columns=features)


@pytest.mark.parametrize("which", ["structured", "image"])
def test_duplicate_ids_are_named(which: str, tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    if which == "structured":
        structured = structured.union(structured.where("id in (3, 5)"))
    else:
        images = images.union(images.where("id in (3, 5)"))
    with pytest.raises(DuplicateIdError, match=rf"2 rows of the {which} table repeat an 'id', for example \[3, 5\]"):
        run((structured, images))


def test_tables_without_a_common_id_name_the_column_that_matches(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    moved = structured.withColumn("sku", F.col("id")).withColumn("id", F.col("id") + 100)
    named = images.withColumn("number", F.col("id")).withColumn("id", F.col("id") + 100)
    spelled = (
        structured.withColumn("id", F.format_string("A%d", "id")),
        images.withColumn("id", F.format_string("a%d.jpg", "id")),
    )
    for pair, hint in (
        ((moved, images), "Column 'sku' of the structured table has such values"),
        ((structured, named), "Column 'number' of the image table has such values"),
        (spelled, "Column 'id' of the structured table matches without folders, file endings"),
    ):
        with pytest.raises(EmptyInputError, match=f"share no 'id': .*{hint}"):
            run(pair)


def test_nothing_to_learn_from(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    none = F.lit(None)
    wrong: list[tuple[tuple[DataFrame, DataFrame], type[Exception], str]] = [
        ((structured.where("id < 0"), images), EmptyInputError, "the structured table must have rows"),
        ((structured, images.where("id < 0")), EmptyInputError, "the image table must have rows"),
        (
            (structured, images.withColumn("id", F.col("id") + 100)),
            EmptyInputError,
            r"share no 'id': \[\d+, \d+, \d+\] against \[1\d\d, 1\d\d, 1\d\d\]",
        ),
        ((structured.withColumn("label", F.lit(1.0)), images), LabelError, "one class among 36 .* need two"),
        ((structured.withColumn("label", none.cast("double")), images), EmptyInputError, "null label: 36"),
        (
            (structured.withColumn("left", none.cast("double")), images),
            EmptyInputError,
            "null structured feature 'left': 36",
        ),
    ]
    for pair, kind, message in wrong:
        with pytest.raises(kind, match=message):
            run(pair)
    # One class is no trouble to a regression.
    single = structured.withColumn("label", F.lit(1.0)), images
    found = run(single, transfer(layers=["fire3"], downstream=LinearRegression(maxIter=1, regParam=1.0)))
    assert found.best.score == pytest.approx(0, abs=1e-6)


def test_all_images_bad(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    with pytest.raises(EmptyInputError, match=r"0 rows to train on.*36 rows left out.*image: empty file"):
        run((structured, images.withColumn("image", F.lit(b""))), transfer(layers=["fire3"]))


def test_one_class_left_to_train_on(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    spoilt = images.withColumn("image", F.when(F.col("id") % 2 == 0, F.col("image")))
    with pytest.raises(LabelError, match="must have at least two classes"):
        run((structured, spoilt), transfer(layers=["fire3"]))


def test_what_is_wrong_is_said_before_a_job(tables: tuple[DataFrame, DataFrame], no_job: Watch) -> None:
    structured, images = tables
    text = structured.withColumn("label", F.lit("flower"))
    wrong: list[tuple[tuple[DataFrame, DataFrame], dict[str, Any], dict[str, Any], type[Exception], str]] = [
        (tables, {"layers": ["fire99"]}, {}, UnknownLayerError, "no layer 'fire99'.*did you mean 'fire9'"),
        (tables, {"model": "squeezenet"}, {}, UnknownModelError, "no model 'squeezenet'.*did you mean"),
        (tables, {}, {"on": "idx"}, ColumnError, "structured table has no column 'idx'; did you mean 'id'"),
        (tables, {}, {"label_column": "y"}, ColumnError, "no column 'y'; columns: id, label"),
        (tables, {}, {"image_column": "photo"}, ColumnError, "the image table has no column 'photo'"),
        (tables, {}, {"feature_columns": ["left", "tip"]}, ColumnError, "no column 'tip'; did you mean 'top'"),
        (tables, {}, {"feature_columns": "left"}, ColumnError, "'left' is double, not a Spark ML vector"),
        (tables, {}, {"feature_columns": ["left", "left"]}, ColumnError, "must be different.*'left' twice"),
        (
            tables,
            {},
            {"feature_columns": ["left", "label"]},
            ColumnError,
            "must be different.*'label' twice",
        ),
        (
            (structured, images.withColumn("id", F.col("id").cast("string"))),
            {},
            {},
            ColumnError,
            "'id' is bigint in the structured table and string in the image table: cast",
        ),
        ((text, images), {}, {}, ColumnError, "label 'label' is string.*StringIndexer"),
        (
            (structured.withColumn("left", F.lit("x")), images),
            {},
            {},
            ColumnError,
            "structured features must be numbers, got 'left' of type string",
        ),
        (
            (structured, images.withColumn("image", F.lit(1))),
            {},
            {},
            ColumnError,
            "'image' .*must be an image.*got int",
        ),
        (
            (structured.withColumnRenamed("left", "image_error"), images),
            {},
            {"feature_columns": ["image_error"]},
            ColumnError,
            "must not start with image_error.*got 'image_error'",
        ),
        (
            (structured.withColumnRenamed("label", "a.b"), images),
            {},
            {"label_column": "a.b"},
            ColumnError,
            "must not have a dot.*'a.b'",
        ),
    ]
    with no_job():
        for pair, settings, arguments, kind, message in wrong:
            with pytest.raises(kind, match=message):
                run(pair, transfer(**settings), **arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"downstream": "LogisticRegression"}, "downstream must be a Spark ML estimator.*got 'LogisticRegression'"),
        ({"pooling": "max"}, "pooling must be one of .*max2x2, mean, none, .*got 'max'"),
        ({"plan": "stage"}, "plan must be one of auto, .*lazy, .*eager, .*staged.*got 'stage'"),
        ({"join": "merge"}, "join must be one of .*broadcast, shuffle, got 'merge'"),
        ({"persistence": "memory"}, "persistence must be one of .*deserialized, serialized, got 'memory'"),
        ({"partitions": 0}, "partitions must be a positive integer, got 0"),
        ({"errors": "null"}, r"errors must be .*, got 'null'"),
        ({"test_fraction": 0}, "test_fraction must be between 0 and 1"),
        ({"test_fraction": 1.5}, "got 1.5"),
        ({"batch_size": 0}, "batch_size must be a positive integer, got 0"),
        ({"max_pixels": 0}, "max_pixels must be a positive integer, got 0"),
        ({"device": "cpuu"}, "device must be .*, got 'cpuu'; did you mean 'cpu'"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_arguments_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        transfer(**settings)


def test_columns_of_any_name(tables: tuple[DataFrame, DataFrame]) -> None:
    structured, images = tables
    renamed = {"id": "the.id", "left": "l.x", "top": "t y"}
    pair = structured.withColumnsRenamed(renamed), images.withColumnsRenamed({"id": "the.id", "image": "im.age"})
    arguments = {"on": "the.id", "feature_columns": ["l.x", "t y", "size"], "image_column": "im.age"}
    found = run(pair, transfer(layers=["fire5"], evaluator=accuracy()), **arguments)
    same = run(tables, transfer(layers=["fire5"], evaluator=accuracy()))
    assert [row.score for row in found.rows] == [row.score for row in same.rows]
    joined = pair[0].join(pair[1], pair[0]["`the.id`"] == pair[1]["`the.id`"]).drop(pair[1]["`the.id`"])
    assert found.best_model.transform(joined).count() == ROWS


def test_two_names_for_one_layer(tables: tuple[DataFrame, DataFrame]) -> None:
    # The classifier's last module gives what the whole of it gives.
    card = roster.card("squeezenet1_1")
    last = card.layers[-1]
    found = run(tables, transfer(layers=[last.name, last.module.split(".")[0]], plan="eager"))
    assert len(found.layers) == 1


@pytest.mark.slow
def test_another_seed_is_another_split(tables: tuple[DataFrame, DataFrame]) -> None:
    splits = []
    for seed in (1, 1, 2):
        log: list[dict[int, np.ndarray]] = []
        run(tables, transfer(layers=["fire3"], downstream=RowRecorder(log), evaluator=accuracy(), seed=seed))
        splits.append(set(log[0]))
    assert splits[0] == splits[1] != splits[2]


def test_nothing_stays_cached(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> None:
    def cached() -> int:
        return spark.sparkContext._jsc.getPersistentRDDs().size()

    before = cached()
    for plan in ("staged", "lazy", "staged-before-join", "pre-materialised"):
        run(tables, transfer(layers=["fire3", "fire5"], plan=plan, hog=plan in ("staged", "lazy")))
    with pytest.raises(ImageError):
        run((tables[0], tables[1].withColumn("image", F.lit(b""))), transfer(layers=["fire3"], errors="raise"))
    assert cached() == before


@pytest.mark.connect
@pytest.mark.skipif(not CONNECT, reason="classic Spark has the other tests")
def test_it_runs_on_spark_connect(tables: tuple[DataFrame, DataFrame], tmp_path: Path) -> None:
    found = run(tables, transfer(layers=["fire3", "fire5"]))
    found.best_model.save(str(tmp_path / "model"))
    assert found.best_model.transform(tables[0].join(tables[1], "id")).count() == ROWS
