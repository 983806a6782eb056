"""Records with arrays of images: their features are aggregated from those of the images, by hand too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import Evaluator
from pyspark.sql import functions as F
from row_recorder import RowRecorder

pytest.importorskip("torch")

from vista_spark import CNNFeaturizer, FeatureTransfer
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

BAD = b"no image"
COUNTS = (1, 3, 2, 0, 4, None, 1, 2)


def albums() -> list[list[bytes] | None]:
    """As many images as ``COUNTS`` says; record 2 has a bad one, and of record 6 the only one is bad."""
    pictures = iter([encode(picture) for _, _, _, picture in crops(20, side=64)])
    found = [None if count is None else [next(pictures) for _ in range(count)] for count in COUNTS]
    found[2][0] = BAD
    found[6] = [BAD]
    return found


def featurizer(**params: Any) -> CNNFeaturizer:
    settings = {"model": "squeezenet1_1", "layers": ["fire3", "fire5"], "imageSize": 64, "batchSize": 3}
    return CNNFeaturizer(outputCols=["low", "high"], **settings | params)


@pytest.fixture(scope="module")
def single(spark: SparkSession) -> dict[bytes, dict[str, np.ndarray]]:
    """Features of every good image by itself."""
    files = [file for album in albums() for file in album or () if file != BAD]
    rows = featurizer().transform(spark.createDataFrame([(file,) for file in files], "image binary")).collect()
    return {bytes(row["image"]): {name: row[name].toArray() for name in ("low", "high")} for row in rows}


def by_hand(single: dict[bytes, dict[str, np.ndarray]], album: list[bytes] | None, name: str, how: str) -> Any:
    good = [single[file][name] for file in album or () if file in single]
    return None if not good else np.mean(good, axis=0) if how == "mean" else np.max(good, axis=0)


@pytest.mark.parametrize("how", ["mean", "max"])
def test_features_are_those_done_by_hand(spark: SparkSession, single: Any, how: str) -> None:
    df = spark.createDataFrame(list(enumerate(albums())), "id long, image array<binary>").repartition(2)
    rows = {row["id"]: row for row in featurizer(imageAggregation=how).transform(df).collect()}
    for number, album in enumerate(albums()):
        for name in ("low", "high"):
            expected = by_hand(single, album, name, how)
            if expected is None:
                assert rows[number][name] is None
            else:
                np.testing.assert_allclose(rows[number][name].toArray(), expected, rtol=1e-4, atol=1e-5)
    reasons = {number: rows[number]["image_error"] for number in range(len(COUNTS))}
    assert {number for number, reason in reasons.items() if reason} == {3, 5, 6}
    assert (reasons[3], reasons[5]) == ("no images", "null")
    assert reasons[6] == "no good image"


def test_paths_and_structs(spark: SparkSession, single: Any, tmp_path: Path) -> None:
    album = albums()[4]
    assert album is not None
    for number, file in enumerate(album):
        (tmp_path / f"{number}.jpg").write_bytes(file)
    paths = [[str(tmp_path / f"{number}.jpg") for number in range(4)]]
    read = spark.read.format("image").load(str(tmp_path)).groupBy().agg(F.collect_list("image").alias("image"))
    for df in (spark.createDataFrame([(paths[0],)], "image array<string>"), read):
        (row,) = featurizer().transform(df).collect()
        np.testing.assert_allclose(row["low"].toArray(), by_hand(single, album, "low", "mean"), rtol=1e-4, atol=1e-4)


def test_layers_of_an_image_in_one_column(spark: SparkSession, single: Any) -> None:
    album = albums()[1]
    df = spark.createDataFrame([(album,)], "image array<binary>")
    (row,) = featurizer(combine="concat").setOutputCols(["all"]).transform(df).collect()
    expected = np.concatenate([by_hand(single, album, name, "mean") for name in ("low", "high")])
    np.testing.assert_allclose(row["all"].toArray(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ColumnError, match=r'"sum" adds vectors of one length.*fire3 512, fire5 1024'):
        featurizer(combine="sum").setOutputCols(["all"]).transform(df)
    with pytest.raises(ColumnError, match=r"2 outputCols for 2 layers \(fire3, fire5\): combine='sum' makes one"):
        featurizer(combine="sum").transform(df)


class Widest(Evaluator):
    """Prefers the model with the most features, so that a layer is best."""

    def _evaluate(self, dataset: DataFrame) -> float:
        return float(len(dataset.first()["transfer_features"]))


@pytest.mark.extended
def test_a_transfer_of_several_images(spark: SparkSession, single: Any) -> None:
    found = [*albums(), *albums()]
    structured = spark.createDataFrame(
        [(number, float(number % 2), float(number % 5)) for number in range(16)], "id long, label double, noise double"
    )
    images = spark.createDataFrame(list(enumerate(found)), "id long, image array<binary>")
    task: dict[str, Any] = {
        "model": "squeezenet1_1",
        "layers": ["fire3", "fire5"],
        "image_size": 64,
        "batch_size": 4,
        "test_fraction": 0.4,
        "image_aggregation": "max",
        "experiment": None,
        "progress": False,
    }
    for plan in ("staged", "eager", "lazy"):
        log: list[dict[int, np.ndarray]] = []
        result = FeatureTransfer(plan=plan, downstream=RowRecorder(log), evaluator=Widest(), **task).run(
            structured, images, feature_columns=["noise"]
        )
        assert len(result.choice.logical.stages) == {"staged": 2, "eager": 1, "lazy": 2}[plan]
        assert result.dropped == {"image: no images": 2, "image: null": 2, "image: no good image": 2}
        for name, rows in zip(("low", "high"), log[1:], strict=True):
            assert len(rows) == result.train_rows > 3
            for number, row in rows.items():
                expected = by_hand(single, found[number], name, "max")
                np.testing.assert_allclose(row[1:], expected, rtol=1e-4, atol=1e-5, err_msg=f"{plan} {number}")
    # The best model has the stage of the whole network, which reads albums too.
    assert result.best_model.stages[0].getImageAggregation() == "max"
    predicted = result.best_model.transform(structured.join(images, "id"))
    assert predicted.count() == 16
    assert predicted.where("prediction is not null").count() == 10
    with pytest.raises(InvalidArgumentError, match="hog"):
        FeatureTransfer(hog=True, downstream=LogisticRegression(), **task).run(
            structured, images, feature_columns=["noise"]
        )
