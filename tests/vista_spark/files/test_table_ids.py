"""Ids of a table and its images that do not match are refused early, with the column or the spelling that would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from vista_spark.cli import app
from vista_spark.errors import CerebroError, ColumnError, EmptyInputError
from vista_spark.files import Source, check_source

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, names: list[str], **columns: list[object]) -> Source:
    """Write image files, and a table of these columns."""
    for name in names:
        file = folder / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    table = {"label": [number % 2 for number in range(len(next(iter(columns.values()))))], **columns}
    pq.write_table(pa.table(table), folder / "table.parquet")
    return Source(str(folder / "images"), str(folder / "table.parquet"), label="label")


@pytest.mark.parametrize(
    ("names", "columns", "hint"),
    [
        (["a1.jpg", "b2.jpg"], {"id": [0, 1], "sku": ["a1", "b2"]}, "Column 'sku' of --table.* --on sku"),
        (["a1.jpg", "b2.jpg"], {"id": [0, 1], "file": ["a1.jpg", "b2.jpg"]}, "Column 'file' of --table.* --on file"),
        (["x/7.jpg", "x/8.jpg"], {"id": ["p", "q"], "number": [7, 8]}, "Column 'number' of --table.* --on number"),
        (["A1.jpg", "B2.jpg"], {"id": ["a1", "b2"]}, "Column 'id' of --table matches in lower case"),
        (["a1.png", "b2.png"], {"id": ["s3/A1.jpg", "s3/B2.jpg"]}, "Column 'id' .* without folders, file endings"),
        (["007.jpg", "008.jpg"], {"id": ["7", "8"]}, "Column 'id' .*leading zeros"),
    ],
)
def test_the_column_or_spelling_that_would_match_is_named(
    names: list[str], columns: dict[str, list[object]], hint: str, tmp_path: Path
) -> None:
    source = write(tmp_path, names, **columns)
    with pytest.raises(EmptyInputError, match=rf"share no 'id': \[.*\] in --table against .*{hint}"):
        check_source(source, "local[2]")


def test_a_missing_id_column_names_the_one_that_has_the_ids(tmp_path: Path) -> None:
    source = write(tmp_path, ["a1.jpg", "b2.jpg"], sku=["a1", "b2"])
    with pytest.raises(ColumnError, match=r"no column 'id'.*Column 'sku' of --table.*--on sku"):
        check_source(source, "local[2]")


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["0007.jpg", "x.jpg"], [7, 9]),
        (["cats/1.jpg", "dogs/2.jpg"], ["cats/1", "dogs/2"]),
        (["cats/1.jpg", "dogs/2.jpg"], ["cats/1.jpg", "none"]),
        (["a.b.jpg", "c.jpg"], ["a.b", "q"]),
    ],
)
def test_one_common_id_is_enough(names: list[str], ids: list[object], tmp_path: Path) -> None:
    check_source(write(tmp_path, names, id=ids), "local[2]")


def test_a_column_of_few_numbers_is_no_id(tmp_path: Path) -> None:
    """The stock of a product has values of file names by chance."""
    source = write(tmp_path, [f"{n}.jpg" for n in range(8)], id=list(range(100, 120)), stock=[1, 2] * 10)
    with pytest.raises(EmptyInputError) as error:
        check_source(source, "local[2]")
    assert "Column" not in str(error.value)


def test_a_table_of_images_is_compared_too(tmp_path: Path) -> None:
    source = write(tmp_path, ["a"], id=[1, 2], code=[31, 32])
    pq.write_table(pa.table({"id": [32, 33], "image": ["a", "b"]}), tmp_path / "images.parquet")
    tables = Source(str(tmp_path / "images.parquet"), source.table, label="label")
    with pytest.raises(EmptyInputError, match="Column 'code' of --table"):
        check_source(tables, "local[2]")


@pytest.mark.parametrize("wrong", ["ID", "Id", " id", "iD"])
def test_a_name_that_differs_in_case_is_hinted(wrong: str, tmp_path: Path) -> None:
    source = write(tmp_path, ["1.jpg"], id=[1])
    with pytest.raises(CerebroError, match="did you mean 'id'"):
        check_source(Source(source.images, source.table, on=wrong, label="label"), "local[2]")
    with pytest.raises(CerebroError, match="did you mean 'label'"):
        check_source(Source(source.images, source.table, label="LABEL"), "local[2]")


def test_the_command_refuses_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vista_spark.cli._transfer.start_spark", lambda *_, **__: pytest.fail("Spark starts"))
    source = write(tmp_path, ["a1.jpg", "b2.jpg"], id=[0, 1], sku=["a1", "b2"])
    arguments = ["--images", source.images, "--table", source.table, "--label", "label", "--model", "mobilenet_v2"]
    command = ["transfer", *map(str, arguments), "--random-weights", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert "--on sku" in " ".join(done.output.split())
