from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError
from vista_spark.files import Survey, survey

if TYPE_CHECKING:
    from pathlib import Path


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
    assert survey(str(table), str(folder), on="id", label="kind") == Survey(3, 2, 2, 200)
    named = survey(str(table), str(folder), on="id", label="kind", features=["price"])
    assert named.structured_features == 1
    # Of a numeric label too, the column is no feature.
    assert survey(str(table), str(folder), on="id", label="weight") == Survey(3, 1, 3, 200)


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [1, 2], "f": [1.0, 2.0], "y": [0, 0]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"key": [1, 2], "picture": [b"1234", None]}), tmp_path / "i.parquet")
    found = survey(f"file://{tmp_path}/t.parquet", f"{tmp_path}/i.parquet", on="key", label="y", image="picture")
    assert found == Survey(2, 1, 1, 4)


def test_what_is_wrong_is_said(table: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match="--table has no column 'key'; columns: id, price"):
        survey(str(table), str(folder), on="key", label="kind")
    with pytest.raises(InvalidArgumentError, match=r"a \.csv file"):
        survey("table.xlsx", str(folder), on="id", label="kind")
    with pytest.raises(InvalidArgumentError, match=r"--table .* cannot be read"):
        survey(str(tmp_path / "none.csv"), str(folder), on="id", label="kind")
    with pytest.raises(InvalidArgumentError, match=r"--images .* cannot be read"):
        survey(str(table), str(tmp_path / "none"), on="id", label="kind")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmptyInputError, match="holds no image"):
        survey(str(table), str(tmp_path / "empty"), on="id", label="kind")
    pq.write_table(pa.table({"picture": [b"1"]}), tmp_path / "i.parquet")
    with pytest.raises(ColumnError, match="--images has no column 'image'; columns: picture"):
        survey(str(table), str(tmp_path / "i.parquet"), on="id", label="kind")
