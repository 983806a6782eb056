"""The ``vista`` command: from files to a table, a picture, a model and an MLflow run."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from photographs import crops, encode
from pyspark.ml import PipelineModel
from pyspark.sql import functions as F  # noqa: N812
from sessions import CONNECT
from typer.testing import CliRunner

from vista_spark.cli import app, numeric_columns, read_images, read_table
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(CONNECT, reason="the command starts its own Spark")

COUNT = 24


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images, nested, one of them corrupt, and a table with one id too many."""
    folder = tmp_path_factory.mktemp("data")
    rows = []
    for number, (label, left, top, picture) in enumerate(crops(COUNT)):
        place = folder / "images" / ("even" if number % 2 else "odd")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03d}.jpg").write_bytes(encode(picture) if number != 5 else b"junk")
        rows.append({"key": number, "kind": "flower" if label else "china", "left": left, "top": top, "note": "a, b"})
    rows.append({**rows[0], "key": 999})
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def _vista(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return subprocess.run(
        [sys.executable, "-m", "vista_spark", *arguments],
        env={**environment, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_transfer_from_files(data: Path, tmp_path: Path, spark: SparkSession) -> None:
    out = tmp_path / "out"
    done = _vista(
        *("transfer", "--images", str(data / "images"), "--table", str(data / "table.csv"), "--on", "key"),
        *("--label", "kind", "--model", "squeezenet1_1", "--layers", "fire9,1", "--out", str(out)),
        *("--master", "local[2]", "--test-fraction", "0.4"),
    )
    assert done.returncode == 0, done.stderr
    assert "staged plan for squeezenet1_1" in done.stdout
    assert "structured row without an image (1 rows)" in done.stdout
    assert "image: not a JPEG, PNG, WEBP, GIF, BMP or TIFF image (1 rows)" in done.stdout
    layers = pd.read_csv(out / "layers.csv")
    assert list(layers["features"]) == ["structured only", "structured + fire9", "structured + pool10"]
    assert list(layers["size"]) == [0, 2048, 1000]
    assert (out / "layers.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "mlflow.db").is_file()
    assert list((out / "mlruns").rglob("layers.png"))

    table = read_table(spark, str(data / "table.csv"))
    images = read_images(spark, str(data / "images"), "key", "image", table.schema["key"].dataType)
    predicted = PipelineModel.load(str(out / "best_model")).transform(table.join(images, "key"))
    rows = predicted.select("kind", "predicted_kind").collect()
    assert len(rows) == COUNT - 1
    # A china crop and a flower crop differ at a glance, and most of these were trained on.
    assert sum(row.kind == row.predicted_kind for row in rows) > 0.8 * len(rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "resnet19"], ["no model 'resnet19'", "did you mean 'resnet1"]),
        (["--layers", "pol5"], ["no layer 'pol5'", "did you mean 'pool5'", "conv5_2"]),
        (["--layers", "99"], ["no layer '99'", "1 to 11 from the top"]),
        (["--downstream", "logstic"], ["did you mean 'logistic'"]),
        (["--downstream", "no.such.module:Thing"], ["no.such.module"]),
    ],
)
def test_words_that_are_wrong_are_refused_before_spark_starts(
    arguments: list[str], said: list[str], tmp_path: Path
) -> None:
    given = {"--images": "i", "--table": "t.csv", "--label": "l", "--model": "resnet18", "--out": str(tmp_path / "out")}
    given |= {arguments[0]: arguments[1]}
    result = CliRunner().invoke(app, ["transfer", *(word for pair in given.items() for word in pair)])
    assert result.exit_code != 0
    text = " ".join((result.output + str(result.exception)).replace("│", " ").split())
    for part in said:
        assert part in text
    assert not (tmp_path / "out").exists()


def test_an_error_of_ours_is_a_message_and_not_a_traceback(tmp_path: Path) -> None:
    done = _vista(
        *("transfer", "--images", "i", "--table", "t.csv", "--label", "l", "--model", "resnet19"),
        *("--out", str(tmp_path)),
    )
    assert done.returncode == 2
    assert "UnknownModelError" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_a_message_too(tmp_path: Path) -> None:
    done = _vista(
        *("transfer", "--images", "i", "--table", str(tmp_path / "absent.parquet"), "--label", "l"),
        *("--model", "resnet18", "--out", str(tmp_path / "out"), "--master", "local[1]"),
    )
    assert done.returncode == 2
    assert "absent.parquet" in done.stderr
    assert "Traceback" not in done.stderr


def test_models_lists_layers_from_the_top() -> None:
    result = CliRunner().invoke(app, ["models"], env={"COLUMNS": "250"})
    assert result.exit_code == 0
    assert "1 fc8, 2 fc7, 3 fc6" in result.output


def test_a_table_is_csv_or_parquet(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "t.parquet"))
    assert read_table(spark, str(tmp_path / "t.parquet")).count() == 3
    with pytest.raises(InvalidArgumentError, match=r"t\.xlsx"):
        read_table(spark, "t.xlsx")


def test_ids_of_image_files_take_the_tables_type(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("007.jpg", "12.tar.gz", "cover.png", "9"):
        (tmp_path / name).write_bytes(b"x")
    as_number = read_images(spark, str(tmp_path), "id", "image", spark.range(1).schema["id"].dataType)
    assert {row.id for row in as_number.collect()} == {7, None, 9}
    as_text = read_images(spark, str(tmp_path), "id", "image", spark.range(1).select(F.lit("")).schema[0].dataType)
    assert {row.id for row in as_text.collect()} == {"007", "12.tar", "cover", "9"}


def test_numeric_columns_are_the_structured_features(spark: SparkSession) -> None:
    table = spark.sql("select 1 as id, 'a' as word, 2.5D as price, true as new, 3 as label")
    assert numeric_columns(table, ["id", "label"]) == ["price", "new"]
    with pytest.raises(ColumnError, match="--features"):
        numeric_columns(table.select("id", "word", "label"), ["id", "label"])
