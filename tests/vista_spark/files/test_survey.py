from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError
from vista_spark.files import Source, Survey, numeric_columns, read_table, survey

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("id,price,weight,name,kind\n1,2.5,3,a,tree\n2,1.5,4,b,shoe\n3,0.5,5,c,tree\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "images"
    (path / "deeper").mkdir(parents=True)
    (path / "1.jpg").write_bytes(b"x" * 100)
    (path / "deeper" / "2.jpg").write_bytes(b"x" * 300)
    return path


def test_csv_and_a_folder(table: Path, folder: Path) -> None:
    assert survey(Source(str(folder), str(table), on="id", label="kind")) == Survey(3, 2, 2, 200)
    named = survey(Source(str(folder), str(table), on="id", label="kind", features=["price"]))
    assert named.structured_features == 1
    # Of a numeric label too, the column is no feature; Spark ML counts the classes 0 to 5.
    assert survey(Source(str(folder), str(table), on="id", label="weight")) == Survey(3, 1, 6, 200)


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [1, 2], "f": [1.0, 2.0], "y": [0, 0]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"key": [1, 2], "picture": [b"1234", None]}), tmp_path / "i.parquet")
    found = survey(
        Source(f"{tmp_path}/i.parquet", f"file://{tmp_path}/t.parquet", on="key", label="y", image="picture")
    )
    assert found == Survey(2, 1, 1, 4)


@pytest.mark.contract
def test_plan_and_transfer_count_the_same_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Booleans and decimals are numbers for both: the survey and the columns that Spark reads."""
    columns = {
        "id": [1, 2],
        "label": [0, 1],
        "sold": [True, False],
        "price": [Decimal("1.5"), None],
        "name": ["a", "b"],
    }
    pq.write_table(pa.table(columns | {"day": [date(2026, 1, 1)] * 2}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"id": [1, 2], "image": [b"1234", None]}), tmp_path / "i.parquet")
    table, images = str(tmp_path / "t.parquet"), str(tmp_path / "i.parquet")
    assert numeric_columns(read_table(spark, table), ["id", "label"]) == ["sold", "price"]
    assert survey(Source(images, table, on="id", label="label")).structured_features == 2


def test_what_is_wrong_is_said(table: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match="--table has no column 'key'; columns: id, price"):
        survey(Source(str(folder), str(table), on="key", label="kind"))
    with pytest.raises(InvalidArgumentError, match=r"separated values"):
        survey(Source(str(folder), "table.xlsx", on="id", label="kind"))
    with pytest.raises(InvalidArgumentError, match=r"--table .* cannot be read"):
        survey(Source(str(folder), str(tmp_path / "none.csv"), on="id", label="kind"))
    with pytest.raises(InvalidArgumentError, match=r"--images .* cannot be read"):
        survey(Source(str(tmp_path / "none"), str(table), on="id", label="kind"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmptyInputError, match="holds no image"):
        survey(Source(str(tmp_path / "empty"), str(table), on="id", label="kind"))
    pq.write_table(pa.table({"picture": [b"1"]}), tmp_path / "i.parquet")
    with pytest.raises(ColumnError, match="--images has no column 'image'; columns: picture"):
        survey(Source(str(tmp_path / "i.parquet"), str(table), on="id", label="kind"))
