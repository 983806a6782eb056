"""Conditions on one column: codes for SliceLine, and the SQL predicate of each code."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql.types import BooleanType, DoubleType, FloatType, NumericType

from udfs.driver import quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql.types import DataType

__all__ = ["Conditions", "conditions_of"]

_FEW = 10


@dataclass(frozen=True, slots=True)
class Conditions:
    """Exclusive conditions on a column, one of which each row meets."""

    codes: NDArray[np.int64]  # condition of each row, from 0
    predicates: tuple[str, ...]  # SQL condition of each code


def conditions_of(name: str, values: pd.Series[Any], kind: DataType, bins: int) -> Conditions:
    """Divide a column into conditions.

    Each string and boolean is a condition, and each number of a column with up to 10 different ones. Other numbers are
    divided at quantiles. Nulls and NaN are one condition.

    Parameters
    ----------
    name : str
        Column.
    values : pandas.Series
        Its values; numbers as doubles.
    kind : DataType
        Type of the column in Spark.
    bins : int
        Number of intervals for a column of many numbers.

    Examples
    --------
    >>> from pyspark.sql.types import StringType
    >>> found = conditions_of("sex", pd.Series(["f", None, "m", "f"]), StringType(), 5)
    >>> found.codes.tolist(), found.predicates
    ([0, 2, 1, 0], ("`sex` = 'f'", "`sex` = 'm'", '`sex` IS NULL'))
    """
    column = quoted(name)
    has_nan = isinstance(kind, (FloatType, DoubleType))
    missing = values.isna().to_numpy()
    present = values[~missing]
    if isinstance(kind, NumericType) and present.nunique() > _FEW:
        parts, predicates = _intervals(column, present.to_numpy(np.float64), bins, has_nan=has_nan)
    else:
        parts, different = pd.factorize(present, sort=True)
        predicates = [f"{column} = {_literal(value, kind)}" for value in different]
    codes = np.full(len(values), len(predicates), np.int64)
    codes[~missing] = parts
    if missing.any():
        predicates.append(f"({column} IS NULL OR isnan({column}))" if has_nan else f"{column} IS NULL")
    return Conditions(codes, tuple(predicates))


def _intervals(
    column: str, values: NDArray[np.float64], bins: int, *, has_nan: bool
) -> tuple[NDArray[np.int64], list[str]]:
    """Divide numbers into half-open intervals of about equal numbers of rows."""
    inner = np.quantile(values, np.arange(1, bins) / bins, method="higher")
    edges = np.unique(inner[inner > values.min()])
    codes = np.searchsorted(edges, values, side="right")
    limits = [_number(edge) for edge in edges]
    # For Spark, NaN is larger than any number.
    last = f" AND NOT isnan({column})" if has_nan else ""
    predicates = [f"{column} < {limits[0]}"] if limits else [f"{column} IS NOT NULL{last}"]
    predicates += [f"{column} >= {low} AND {column} < {high}" for low, high in itertools.pairwise(limits)]
    if limits:
        predicates.append(f"{column} >= {limits[-1]}{last}")
    return codes.astype(np.int64), predicates


def _literal(value: Any, kind: DataType) -> str:
    if isinstance(kind, NumericType):
        return _number(float(value))
    if isinstance(kind, BooleanType):
        return "true" if value else "false"
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _number(value: float) -> str:
    """Write a number as SQL reads it exactly: a whole number, or a double."""
    number = float(value)
    if number.is_integer() and abs(number) < 2**53:
        return str(int(number))
    return f"{number!r}D" if math.isfinite(number) else f"double('{number!r}')"
