"""Paths that no worker can read are refused by a probe of a few rows, before inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.ml.classification import LogisticRegression
from pyspark.sql import functions as F

pytest.importorskip("torch")

from udfs.driver import check_paths
from vista_spark import FeatureTransfer
from vista_spark.errors import EmptyInputError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def paths(spark: SparkSession, *values: str | None) -> DataFrame:
    return spark.createDataFrame(list(enumerate(values)), "id int, image string")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["/nowhere/1.jpg", "/nowhere/2.jpg"], r"'/nowhere/1.jpg' \(no such file\).*first 2 .*Correct the paths"),
        (["photos/1.jpg", None], r"'photos/1.jpg'.*first 1 .*write absolute paths"),
        (["nofs://bucket/1.jpg"], r"\(no file system for the URI\)"),
        (["/"], r"'/' \(no such file\).*The file is on this machine"),
        ([f"/nowhere/{number}" for number in range(30)], "first 30 can be read"),
    ],
)
def test_paths_that_no_worker_can_read(spark: SparkSession, values: list[str | None], reason: str) -> None:
    with pytest.raises(EmptyInputError, match=f"image_column must hold paths that the workers can read, .*{reason}"):
        check_paths(paths(spark, *values), "image", "image_column")


def test_a_list_of_paths_is_probed(spark: SparkSession) -> None:
    lists = paths(spark, "/nowhere/1.jpg").withColumn("image", F.array("image"))
    with pytest.raises(EmptyInputError, match=r"/nowhere/1\.jpg"):
        check_paths(lists, "image", "image_column")


def test_one_good_path_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"x")
    bad = [f"/nowhere/{number}" for number in range(20)]
    check_paths(paths(spark, *bad, str(tmp_path / "1.jpg")), "image", "image_column")
    check_paths(paths(spark, None, None), "image", "image_column")
    check_paths(paths(spark, "x").withColumn("image", F.lit(b"x")), "image", "image_column")


def test_a_transfer_is_refused_before_inference(spark: SparkSession) -> None:
    rows = [(number, float(number), number % 2) for number in range(12)]
    table = spark.createDataFrame(rows, "id int, a double, label int")
    task = FeatureTransfer(model="squeezenet1_1", layers=1, downstream=LogisticRegression(), progress=False)
    images = paths(spark, *(f"gone/{number}.jpg" for number in range(12)))
    with pytest.raises(EmptyInputError, match="image_column must hold paths that the workers can read, got 'gone/"):
        task.run(table, images, feature_columns=["a"])
