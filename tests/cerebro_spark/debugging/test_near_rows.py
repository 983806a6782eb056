"""Near duplicates, outliers and leaks: planted ones are found as cleanlab finds them, and clean tables have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

pytest.importorskip("cleanlab", reason="pip install 'cerebro-spark[debugging]'")

from cerebro_spark.debugging import find_leaks, find_near_duplicates, find_outliers
from cerebro_spark.debugging._neighbors import nearest_neighbors
from cerebro_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError
from udfs.inference import PortableNetwork
from udfs.influence import HiddenFeatures
from udfs.shards import TensorColumn, TensorGroup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def torus(rows: int, seed: int) -> pd.DataFrame:
    """Rows that are spread evenly over a surface without an edge: none is close to another, none is far away."""
    random = np.random.default_rng(seed)
    steps = np.sqrt([2.0, 3.0, 5.0, 7.0])  # a Kronecker sequence fills the cube evenly
    shares = np.arange(rows)[:, None] * steps + random.random(4) + random.normal(0, 0.01, (rows, 4))
    angles = 2 * np.pi * shares
    points = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return pd.DataFrame({"key": range(rows), "x": [row.tolist() for row in points[:, :7]], "y": points[:, 7]})


class Mean(torch.nn.Module):
    """The last operation of a network, without parameters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.mean(dim=2), dim=1)


def near(table: pd.DataFrame, place: int) -> dict[str, Any]:
    """A row that differs a little from one of a table."""
    return {"x": [value + 1e-3 for value in table["x"][place]], "y": table["y"][place]}


@pytest.fixture(scope="module")
def planted(spark: SparkSession) -> DataFrame:
    table = torus(120, 0)
    extra = [
        {"key": 900, **near(table, 5)},
        {"key": 901, **near(table, 5)},
        {"key": 902, **near(table, 40)},
        {"key": 903, "x": [9.0] * 7, "y": 9.0},
        {"key": 904, "x": [0.0] * 6, "y": 0.0},
        {"key": 905, "x": [0.0] * 7, "y": None},
    ]
    return spark.createDataFrame(pd.concat([table, pd.DataFrame(extra)]), "key int, x array<double>, y double").cache()


def test_planted_copies_are_found(planted: DataFrame) -> None:
    found = find_near_duplicates(["x", "y"], planted, id_column="key")
    assert list(found.columns) == ["key", "nearest_id", "score", "is_near_duplicate", "group", "rank"]
    copies = found[found["is_near_duplicate"]]
    groups = {frozenset(part["key"]) for _, part in copies.groupby("group")}
    assert groups == {frozenset({5, 900, 901}), frozenset({40, 902})}
    assert set(found["key"][:5]) == {5, 40, 900, 901, 902} and found["rank"][:5].tolist() == [1, 2, 3, 4, 5]
    assert found["key"][-2:].tolist() == [904, 905] and found["rank"][-2:].isna().all(), "unreadable rows stay visible"


def test_planted_outliers_are_found(planted: DataFrame) -> None:
    found = find_outliers(["x", "y"], planted, id_column="key")
    assert list(found.columns) == ["key", "score", "is_outlier", "rank"]
    assert found.loc[found["is_outlier"], "key"].tolist() == [903] == found["key"][:1].tolist()


def test_planted_leaks_are_found(spark: SparkSession, planted: DataFrame) -> None:
    held_out = torus(60, 1)
    train = torus(120, 0)
    held_out.loc[7, ["x", "y"]] = pd.Series(near(train, 30))
    df = spark.createDataFrame(held_out, "key int, x array<double>, y double")
    found = find_leaks(["x", "y"], planted, df, id_column="key")
    assert list(found.columns) == ["key", "train_id", "score", "is_leak", "rank"] and len(found) == 60
    assert found[found["is_leak"]][["key", "train_id"]].to_numpy().tolist() == [[7, 30]]


def test_clean_tables_have_none(spark: SparkSession) -> None:
    df = spark.createDataFrame(torus(150, 3), "key int, x array<double>, y double").cache()
    other = spark.createDataFrame(torus(50, 4), "key int, x array<double>, y double")
    assert not find_near_duplicates(["x", "y"], df, id_column="key")["is_near_duplicate"].any()
    assert not find_outliers(["x", "y"], df, id_column="key")["is_outlier"].any()
    assert not find_leaks(["x", "y"], df, other, id_column="key")["is_leak"].any()


def test_features_are_what_the_last_layer_with_parameters_reads() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 3), torch.nn.ReLU(), torch.nn.Conv2d(5, 2, 1), torch.nn.Flatten(2), Mean()
    )
    network = PortableNetwork.of(net, [np.zeros((2, 3, 4, 4), np.float32)])
    group = TensorGroup("x", (TensorColumn("x", "float32", (3, 4, 4)),), False)
    pixels = np.random.default_rng(0).random((6, 48)).astype(np.float32)
    batch = pa.RecordBatch.from_pydict({"x": [*pixels.tolist(), None]})
    columns, reasons = HiddenFeatures(network, (group,), (), "out", 8, 128).open(1)(batch)[:2]
    with torch.no_grad():
        expected = net[:2](torch.from_numpy(pixels.reshape(6, 3, 4, 4))).mean(dim=(2, 3)).numpy()
    rows = columns[0].to_pylist()
    assert np.allclose(rows[:6], expected, atol=1e-6) and rows[6] is None and reasons[6] is not None


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbours_are_those_of_cleanlab(metric: Any) -> None:
    from cleanlab.internal.neighbor.knn_graph import create_knn_graph_and_index

    rows = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    rows[3] = rows[4]
    distances, places = nearest_neighbors(rows, 5, metric)
    theirs, _ = create_knn_graph_and_index(rows.astype(np.float64), n_neighbors=5, metric=metric)
    assert np.allclose(distances, theirs.data.reshape(200, 5), atol=1e-7)
    assert (places == theirs.indices.reshape(200, 5)).mean() > 0.99


def test_most_approximate_neighbours_are_the_exact_ones() -> None:
    random = np.random.default_rng(1)
    rows = (random.normal(size=(20, 16))[random.integers(0, 20, 3000)] * 2 + random.normal(size=(3000, 16))).astype("f")
    rows[10] = rows[2000]
    _, exact = nearest_neighbors(rows, 10, "euclidean")
    distances, places = nearest_neighbors(rows, 10, "euclidean", exact_rows=1000)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), places.tolist(), strict=True)]
    assert np.mean(shared) > 8 and places[10, 0] == 2000 and (np.diff(distances) >= 0).all()
    assert (places != np.arange(3000)[:, None]).all(), "a row is not its own neighbour"
    _, asked = nearest_neighbors(rows, 1, "euclidean", queries=rows[:50], exact_rows=1000)
    assert set(asked.ravel()[:10]) == set(range(10))


@pytest.mark.parametrize(
    ("features", "options", "error", "message"),
    [
        ([], {}, ColumnError, "features must name at least one column, got none"),
        (["xx"], {}, ColumnError, "has no column 'xx'"),
        (["word"], {}, ColumnError, "numbers, arrays or vectors, got 'word' of string"),
        (["y"], {"threshold": 2}, InvalidArgumentError, "threshold must be"),
        (["y"], {"k": 0}, InvalidArgumentError, "k must be"),
        (["y"], {"id_column": "group"}, ColumnError, "must differ from the columns of the result"),
        (["empty"], {}, EmptyInputError, "rows whose features can be read"),
    ],
)
def test_bad_input_is_refused(
    planted: DataFrame, features: list[str], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    wide = planted.selectExpr("*", "'a' AS word", "cast(null AS double) AS empty", "key AS group")
    with pytest.raises(error, match=message):
        find_near_duplicates(features, wide, **{"id_column": "key"} | options)
