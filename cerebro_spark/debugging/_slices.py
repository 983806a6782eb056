"""Slices: conjunctions of conditions on columns whose rows have the largest errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType, StringType

from cerebro_spark.debugging._comparison import row_errors
from cerebro_spark.debugging._slice_conditions import Conditions, conditions_of
from cerebro_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError, MissingPackageError
from optimizer.arguments import real, whole, whole_or_none
from udfs.driver import check_present, quoted, validate_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from cerebro_spark.tune import TunedModel

__all__ = ["find_slices", "search_slices"]

_ERROR = "__error"
_COLUMNS = ["predicate", "size", "average_error", "max_error", "score"]


@validate_arguments
def find_slices(
    errors: TunedModel | str,
    df: DataFrame,
    columns: Sequence[str],
    *,
    k: int = 10,
    max_conditions: int = 3,
    min_rows: int | None = None,
    alpha: float = 0.95,
    bins: int = 5,
) -> pd.DataFrame:
    """Find the slices of a table on which a model is worst, exactly, with SliceLine.

    A slice is a conjunction of conditions on columns, such as ``age < 25 AND workclass = 'Private'``. Its score weighs
    its average error against its size: ``alpha * (average error / overall error - 1)`` minus ``(1 - alpha) * (rows /
    size - 1)``. Only slices with a positive score are worse than the table as a whole. The search enumerates all
    slices, and leaves out those that bounds prove to be no better.

    Parameters
    ----------
    errors : TunedModel or str
        Model to score: the error of a row is 0 or 1 for a class, and the absolute error of a value. Or a column of
        ``df`` with the errors, numbers from 0 on, such as losses.
    df : DataFrame
        Rows with the columns of the slices, and those of the model with its label.
    columns : sequence of str
        Columns for conditions: numbers, strings or booleans. The model need not read them.
    k : int
        Number of slices. More are returned where scores are equal. Default 10.
    max_conditions : int
        Largest number of conditions of a slice. Default 3.
    min_rows : int, optional
        Smallest size of a slice. By default the larger of 32 and a hundredth of the rows, as in the paper.
    alpha : float
        Weight of the error against the size, above 0 and at most 1. Default 0.95.
    bins : int
        Number of intervals with about equal numbers of rows, into which a column of more than 10 different numbers is
        divided. Default 5.

    Returns
    -------
    pandas.DataFrame
        The worst slices, the first with the highest score: ``predicate`` (a condition for ``df.where``), ``size`` in
        rows, ``average_error``, ``max_error`` and ``score``. It is empty where no slice is worse than the table.

    Raises
    ------
    ColumnError
        A column is missing, or of another type.
    LabelError
        Each row has several labels or tokens.
    EmptyInputError
        No row has an error, which takes a label and a prediction.
    InvalidArgumentError
        A value is not allowed, or errors are negative or not finite.
    MissingPackageError
        sliceline is not installed.

    Notes
    -----
    The driver holds the columns and one error for each row.

    References
    ----------
    Sagadeeva, Boehm: SliceLine: Fast, Linear-Algebra-based Slice Finding for ML Model Debugging, SIGMOD 2021.

    Examples
    --------
    Select the rows of the worst slice::

        worst = find_slices(model, held_out, ["age", "workclass"])
        held_out.where(worst["predicate"][0])
    """
    _check_installed()
    whole("k", k)
    whole("max_conditions", max_conditions)
    whole_or_none("min_rows", min_rows)
    real("alpha", alpha, 0, 1, above=True)
    whole("bins", bins, 2)
    rows, measured = _collect(errors, df, list(columns))
    conditions = [conditions_of(name, rows[name], df.schema[name].dataType, bins) for name in columns]
    least = max(32, len(rows) // 100) if min_rows is None else min_rows
    return search_slices(
        conditions, measured, k=k, max_conditions=min(max_conditions, len(conditions)), min_rows=least, alpha=alpha
    )


def search_slices(
    conditions: Sequence[Conditions],
    errors: NDArray[np.float64],
    *,
    k: int,
    max_conditions: int,
    min_rows: int,
    alpha: float,
) -> pd.DataFrame:
    """Search the slices of encoded columns; see :func:`find_slices`."""
    from sliceline.slicefinder import Slicefinder

    if not errors.any() or min_rows > len(errors):
        return pd.DataFrame(columns=_COLUMNS)
    codes = np.stack([condition.codes for condition in conditions], axis=1)
    finder = Slicefinder(alpha=alpha, k=k, max_l=max_conditions, min_sup=min_rows, verbose=False)
    finder.fit(codes, errors)
    slices = zip(finder.top_slices_, finder.top_slices_statistics_, strict=True)
    return pd.DataFrame(
        [
            {
                "predicate": " AND ".join(
                    condition.predicates[int(code)]
                    for condition, code in zip(conditions, slice_, strict=True)
                    if code is not None
                ),
                "size": int(facts["slice_size"]),
                "average_error": float(facts["slice_average_error"]),
                "max_error": float(facts["max_slice_error"]),
                "score": float(facts["slice_score"]),
            }
            for slice_, facts in slices
        ],
        columns=_COLUMNS,
    )


def _check_installed() -> None:
    try:
        import sliceline  # noqa: F401 - an optional package
    except ImportError as error:
        raise MissingPackageError("find_slices needs sliceline: pip install 'cerebro-spark[debugging]'") from error


def _collect(errors: TunedModel | str, df: DataFrame, columns: list[str]) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Read the columns and errors of the rows that have an error."""
    if not columns:
        raise InvalidArgumentError("columns must name at least one column, got none.")
    check_present(df, columns, "df")
    for name in columns:
        kind = df.schema[name].dataType
        if not isinstance(kind, (NumericType, StringType, BooleanType)):
            raise ColumnError(
                f"column {name!r} must have numbers, strings or booleans for slices, got {kind.simpleString()}. Derive "
                "a column of these, such as the year of a date"
            )
    measured = _with_errors(errors, df)
    chosen = [F.col(quoted(name)).cast("double") if _is_number(df, name) else F.col(quoted(name)) for name in columns]
    names = [f"c{place}" for place in range(len(columns))]
    table = measured.select(*(column.alias(name) for column, name in zip(chosen, names, strict=True)), _ERROR)
    rows = table.where(F.col(_ERROR).isNotNull()).toPandas()
    values = rows.pop(_ERROR).to_numpy(np.float64)
    if not len(values):
        raise EmptyInputError("df must have rows with an error, which takes a label and a prediction, got none.")
    if not np.isfinite(values).all() or (values < 0).any():
        wrong = values[~np.isfinite(values) | (values < 0)][0]
        raise InvalidArgumentError(f"errors must be finite numbers from 0 on, got {wrong:g}. Pass losses or distances")
    return rows.set_axis(columns, axis=1), values


def _with_errors(errors: TunedModel | str, df: DataFrame) -> DataFrame:
    if isinstance(errors, str):
        check_present(df, [errors], "df")
        if not _is_number(df, errors):
            raise ColumnError(
                f"errors must be a column of numbers, got {errors!r} of {df.schema[errors].dataType.simpleString()}. "
                "Pass losses or distances"
            )
        return df.withColumn(_ERROR, F.col(quoted(errors)).cast("double"))
    check_present(df, [errors.label_column], "df")
    task = errors.task
    if task.kind in {"multilabel", "custom"} or task.tokens is not None or task.labels == "one-hot":
        raise LabelError(
            f"label column {errors.label_column!r} must have one class or value for each row, got "
            f"{task.describe()}. Compute an error for each row, and name its column in errors="
        )
    named = errors.copy().setPredictionCol("__prediction").setRawPredictionCol("__raw").setProbabilityCol("")
    return row_errors(named, df, _ERROR, "accuracy" if task.kind != "regression" else "mae")


def _is_number(df: DataFrame, name: str) -> bool:
    return isinstance(df.schema[name].dataType, NumericType)
