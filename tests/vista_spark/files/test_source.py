"""Data as people have it: a folder a class, one table with images, table formats, categories, labels of many types."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import functions as F

from udfs.driver import check_file_columns, check_rows, read_table, table_format
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError
from vista_spark.files import Source, Survey, check_source, survey

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = [
    {"id": 1, "price": 2.5, "color": "red", "new": True, "label": "a"},
    {"id": 2, "price": 3.5, "color": "blue", "new": False, "label": "b"},
    {"id": 3, "price": 4.5, "color": None, "new": True, "label": None},
]


def written(kind: str, folder: Path) -> str:
    path = folder / f"table.{kind}"
    table = pa.Table.from_pylist(ROWS)
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "orc":
        orc.write_table(table, path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "json":
        path.write_text(json.dumps(ROWS, indent=1))
    else:
        lines = [",".join("" if value is None else str(value).lower() for value in row.values()) for row in ROWS]
        path.write_text("\n".join([",".join(ROWS[0]), *lines]))
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "orc", "json", "jsonl"])
def test_every_format_is_the_same_table_to_spark_and_to_the_survey(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = written(kind, tmp_path)
    rows = [row.asDict() for row in read_table(spark, path).orderBy("id").collect()]
    assert rows == ROWS
    check_rows(path, "--table")
    with pytest.raises(ColumnError, match="has no column 'colour'; did you mean 'color'"):
        check_file_columns(path, ["colour"], "--table")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"x" * 10)
    source = Source(str(tmp_path / "photos"), path, label="label", categories=["color"])
    assert survey(source) == Survey(3, 4, 2, 10)
    assert set(survey(source).features) == {"price", "new", "color"}
    data = source.load(spark, classification=True)
    assert set(data.features) == {"price", "new", "color_onehot"}
    assert data.words == ("a", "b")
    found = {row.id: (row.label_index, row.color_onehot) for row in data.structured.collect()}
    assert [found[number][0] for number in (1, 2, 3)] == [0.0, 1.0, None], (
        "a row without a label is kept, to be counted"
    )
    assert {tuple(found[number][1].toArray()) for number in (1, 2, 3)} == {(1, 0), (0, 1), (0, 0)}


def test_a_table_by_its_name_and_by_any_reader(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame(ROWS[:2]).createOrReplaceTempView("products_of_mine")
    assert read_table(spark, "products_of_mine", "catalog").count() == 2
    (tmp_path / "notes.log").write_text("one\ntwo\n")
    assert read_table(spark, str(tmp_path / "notes.log"), "text").count() == 2
    with pytest.raises(InvalidArgumentError, match=r"notes\.log'.*--table-format names another reader"):
        table_format(str(tmp_path / "notes.log"), None, "--table")
    with pytest.raises(InvalidArgumentError, match=r"only Spark reads 'delta'.*--rows"):
        survey(Source(table="shop", label="label", table_format="delta"))


def test_a_folder_a_class(spark: SparkSession, tmp_path: Path) -> None:
    photos = tmp_path / "my photos"
    for name in ("cats/1.jpg", "cats/old/2.jpg", "dogs/1.jpg", "beside.jpg"):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).write_bytes(b"x" * 8)
    source = Source(str(photos))
    check_source(source, "local[1]")
    assert survey(source) == Survey(3, 0, 2, 8)
    data = source.load(spark, classification=True)
    assert data.features == ()
    found = {row.id: row.label for row in data.structured.collect()}
    assert found == {"cats/1.jpg": "cats", "cats/old/2.jpg": "cats", "dogs/1.jpg": "dogs", "beside.jpg": None}
    assert {row.id for row in data.images.collect()} == set(found)
    assert data.words == ("cats", "dogs")
    with pytest.raises(LabelError, match="classes to learn"):
        check_source(source, "local[1]", classification=False)
    with pytest.raises(LabelError, match="one folder with images, 'old'"):
        check_source(Source(str(photos / "cats")), "local[1]")
    with pytest.raises(LabelError, match="no folder with any"):
        check_source(Source(str(photos / "dogs")), "local[1]")
    (tmp_path / "none").mkdir()
    with pytest.raises(EmptyInputError, match="holds no image"):
        check_source(Source(str(tmp_path / "none")), "local[1]")
    with pytest.raises(InvalidArgumentError, match="--features and --categories must be columns of a table"):
        Source(str(photos), features=["price"])


@pytest.mark.parametrize("as_images", [True, False])
def test_one_table_with_the_images(as_images: bool, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "all.parquet")
    pq.write_table(pa.Table.from_pylist([row | {"photo": b"x" * 6} for row in ROWS]), path)
    source = Source(images=path if as_images else None, table=None if as_images else path, label="label", image="photo")
    check_source(source, "local[1]")
    assert survey(source) == Survey(3, 2, 2, 6)
    data = source.load(spark, classification=True)
    assert data.features == ("price", "new")
    assert data.images.columns == ["id", "photo"]


def test_paths_are_ids_where_there_are_no_others(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "paths.csv").write_text("photo,kind\n/photos/1.jpg,a\n/photos/2.jpg,b\n")
    source = Source(table=str(tmp_path / "paths.csv"), label="kind", image="photo")
    check_source(source, "local[1]")
    assert survey(source) == Survey(2, 0, 2, 0)
    data = source.load(spark, classification=True)
    assert [tuple(row) for row in data.images.orderBy("id").collect()] == [
        ("/photos/1.jpg", "/photos/1.jpg"),
        ("/photos/2.jpg", "/photos/2.jpg"),
    ]
    assert {row.id for row in data.structured.collect()} == {"/photos/1.jpg", "/photos/2.jpg"}


@pytest.mark.parametrize(
    ("values", "classes", "words"),
    [
        ([True, False], 2, ()),
        ([0, 1], 2, ()),
        ([Decimal("0.0"), Decimal("2.0")], 3, ()),
        ([1.0, 0.0], 2, ()),
        (["x", "y"], 2, ("x", "y")),
    ],
)
def test_labels_of_many_types(
    values: list[Any], classes: int, words: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "all.parquet")
    pq.write_table(pa.table({"id": [1, 2], "y": values, "image": [b"x", b"y"]}), path)
    source = Source(path, label="y")
    assert survey(source).classes == classes
    assert source.load(spark, classification=True).words == words


def test_numbers_that_are_codes_are_categories_on_request(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "all.parquet")
    pq.write_table(pa.table({"id": [1, 2], "y": [-1, 101], "zone": [7, 9], "image": [b"x", b"y"]}), path)
    source = Source(path, label="y", categories=["y", "zone"])
    assert survey(source) == Survey(2, 2, 2, 1)
    data = source.load(spark, classification=True)
    assert sorted(data.words) == ["-1", "101"]
    assert data.features == ("zone_onehot",)
    zones = data.structured.select("zone").agg(F.sum("zone")).first()
    assert zones is not None
    assert zones[0] == 16, "the column itself stays"


def test_words_are_not_learned_as_numbers(spark: SparkSession, tmp_path: Path) -> None:
    """A word in a column of prices makes it text; indexed for a regression, it would be noise in silence."""
    (tmp_path / "t.csv").write_text("id,image,price\n1,a,2.5\n2,b,unknown\n")
    with pytest.raises(LabelError, match="must be a number for a regression, got 'price' of type string"):
        Source(table=str(tmp_path / "t.csv"), label="price").load(spark, classification=False)


@pytest.mark.parametrize(
    ("text", "given", "error", "said"),
    [
        ("id,label,color\n", {}, EmptyInputError, "has no row"),
        ("id,label,color\n1,a,red\n", {"features": ["color"]}, ColumnError, "--categories color indexes it"),
        ("id,label,color\n1,a,red\n", {"categories": ["colour"]}, ColumnError, "did you mean 'color'"),
        ("id,label,color\n1,a,red\n", {"on": "p", "image": "p"}, InvalidArgumentError, "Leave out --on"),
        ("id,label,color\n1,a,red\n", {"label": None}, InvalidArgumentError, "--label must name the column"),
    ],
)
def test_what_is_wrong_is_said_without_spark(
    text: str, given: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"x")
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(error, match=said):
        check_source(
            Source(str(tmp_path / "photos"), str(tmp_path / "t.csv"), **{"label": "label"} | given), "local[1]"
        )
    with pytest.raises(InvalidArgumentError, match="name at least one"):
        Source()
