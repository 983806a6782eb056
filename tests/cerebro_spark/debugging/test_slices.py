"""Slices of SliceLine: equal to those of an enumeration by brute force, and their predicates select their rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql.types import DoubleType, IntegerType, StringType

pytest.importorskip("sliceline", reason="pip install 'cerebro-spark[debugging]'")

from cerebro_spark.debugging import find_slices
from cerebro_spark.debugging._slice_conditions import conditions_of
from cerebro_spark.debugging._slices import search_slices
from cerebro_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def drawn(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(random.random(rows) < 0.1, np.nan, random.normal(40, 12, rows)),
            "kids": random.integers(0, 4, rows),
            "job": random.choice(np.array(["it's", "a\\b", "c", None], object), rows),
        }
    )


def encoded(table: pd.DataFrame) -> list[Any]:
    kinds = {"age": DoubleType(), "kids": IntegerType(), "job": StringType()}
    return [conditions_of(name, table[name], kind, 3) for name, kind in kinds.items()]


def by_brute_force(
    codes: np.ndarray, errors: np.ndarray, least: int, alpha: float, k: int
) -> list[tuple[float, int, float]]:
    """Score all slices by the formula of the paper (equation 1)."""
    rows, found = len(errors), []
    places = range(codes.shape[1])
    for count in (1, 2, 3):
        for columns in itertools.combinations(places, count):
            for values in itertools.product(*(np.unique(codes[:, column]) for column in columns)):
                inside = np.all([codes[:, c] == v for c, v in zip(columns, values, strict=True)], axis=0)
                size = int(inside.sum())
                if size >= least and errors[inside].sum() > 0:
                    score = alpha * (errors[inside].mean() / errors.mean() - 1) - (1 - alpha) * (rows / size - 1)
                    if score > 0:
                        found.append((round(float(score), 9), size, round(float(errors[inside].mean()), 9)))
    return sorted(found, reverse=True)[:k]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.9, 0.99])
def test_slices_equal_brute_force(seed: int, alpha: float) -> None:
    table = drawn(500, seed)
    errors = np.random.default_rng(seed + 100).random(500) ** 3
    if seed % 2:
        errors = ((table["kids"] == 2) & (table["age"] > 45)).to_numpy(float) + (errors > 0.7)
    conditions = encoded(table)
    found = search_slices(conditions, errors, k=8, max_conditions=3, min_rows=12, alpha=alpha)
    codes = np.stack([condition.codes for condition in conditions], axis=1)
    expected = by_brute_force(codes, errors, 12, alpha, 8)
    ours = [
        (round(row.score, 9), row.size_, round(row.average_error, 9))
        for row in found.rename(columns={"size": "size_"}).itertuples()
    ]
    assert len(expected) >= (2 if alpha > 0.95 else 0) and len(ours) >= len(expected)
    assert np.allclose(np.array(sorted(ours, reverse=True)[: len(expected)]), np.array(expected))


def test_a_table_without_errors_has_no_slices() -> None:
    table = drawn(100, 0)
    found = search_slices(encoded(table), np.zeros(100), k=3, max_conditions=2, min_rows=5, alpha=0.9)
    assert found.empty and "predicate" in found


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    table = drawn(600, 3)
    table.loc[:150, "age"] = -np.inf
    table.loc[450:, "age"] = np.inf
    bad = (table["job"] == "it's") & (table["kids"] >= 2)
    table["loss"] = np.where(bad, 1.0, 0.1)
    table.loc[5, "loss"] = np.nan
    plain = [[None if pd.isna(value) else value for value in row] for row in table.astype(object).to_numpy().tolist()]
    return spark.createDataFrame(plain, "age double, kids int, job string, loss double").cache()


def test_a_predicate_selects_the_rows_of_its_slice(rows: DataFrame) -> None:
    found = find_slices("loss", rows, ["age", "kids", "job"], k=6, bins=3, min_rows=20)
    assert "`job` = 'it\\'s'" in found["predicate"][0] and found["average_error"][0] > 0.9
    known = rows.where("loss IS NOT NULL")
    for slice_ in found.itertuples(index=False):
        part = known.where(slice_.predicate).toPandas()
        assert len(part) == slice_[1] and part["loss"].mean() == pytest.approx(slice_.average_error)


@pytest.mark.parametrize(
    ("errors", "columns", "options", "error", "message"),
    [
        ("loss", ["agee"], {}, ColumnError, "has no column 'agee'; did you mean 'age'"),
        ("gone", ["age"], {}, ColumnError, "has no column 'gone'"),
        ("job", ["age"], {}, ColumnError, "errors must be a column of numbers, got 'job' of string"),
        ("loss", [], {}, InvalidArgumentError, "columns must name at least one column, got none"),
        ("loss", ["age"], {"alpha": 0}, InvalidArgumentError, "alpha must be"),
        ("low", ["age"], {}, InvalidArgumentError, "errors must be finite numbers from 0 on, got -1"),
        ("none", ["age"], {}, EmptyInputError, "df must have rows with an error"),
        ("loss", ["list"], {}, ColumnError, "must have numbers, strings or booleans for slices, got array<int>"),
    ],
)
def test_bad_input_is_refused(
    rows: DataFrame, errors: str, columns: list[str], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    wide = rows.selectExpr("*", "-1.0D AS low", "cast(null AS double) AS none", "array(1) AS list")
    with pytest.raises(error, match=message):
        find_slices(errors, wide, columns, **options)
