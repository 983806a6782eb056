"""Outliers: rows that are far from all other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cerebro_spark.debugging._checks import check_ids, check_result_names
from cerebro_spark.debugging._cleanlab import check_installed, outlier_issues
from cerebro_spark.debugging._neighbors import nearest_neighbors
from cerebro_spark.debugging._ranked_rows import ranked_rows
from cerebro_spark.debugging._row_features import read_features, standardized
from cerebro_spark.errors import EmptyInputError
from optimizer.arguments import real, whole
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from pyspark.sql import DataFrame

    from cerebro_spark.tune import TunedModel

__all__ = ["find_outliers"]

_COLUMNS = ("score", "is_outlier", "rank")


@validate_arguments
def find_outliers(
    features: TunedModel | Sequence[str],
    df: DataFrame,
    *,
    id_column: str,
    threshold: float = 0.37037,
    k: int = 10,
) -> pd.DataFrame:
    """Rank the rows of a table by their mean distance to their nearest neighbours, with cleanlab.

    A row is an outlier if this distance is above the third quartile by ``1 / threshold - 1`` times the distance between
    the quartiles. One pass over the table computes the features. Above 20,000 rows, neighbours are approximate, as in
    :func:`find_near_duplicates`.

    Parameters
    ----------
    features : TunedModel or sequence of str
        Model whose last hidden layer gives the features, or columns; see :func:`find_near_duplicates`.
    df : DataFrame
        Rows with the id column, and the feature columns.
    id_column : str
        Column of numbers or strings with a different value in each row.
    threshold : float
        Above 0, and at most 1; fewer rows are outliers with a smaller one. Default 0.37037, as in cleanlab.
    k : int
        Number of neighbours. Default 10.

    Returns
    -------
    pandas.DataFrame
        A row for each row of ``df``, the most suspicious first: the id, ``score`` (from 0 to 1; low is suspicious),
        ``is_outlier``, and ``rank`` from 1. Rows that cannot be read come last with nulls.

    Raises
    ------
    ColumnError
        A column is missing or of another type, or ids are null or repeated.
    EmptyInputError
        Not more than ``k`` rows can be read.
    InvalidArgumentError
        A value is not allowed.
    MissingPackageError
        cleanlab is not installed.
    UntraceableModelError
        The network has no layer with parameters.

    Examples
    --------
    Look at the ten strangest images::

        find_outliers(model, df, id_column="id").head(10)
    """
    check_installed("find_outliers")
    real("threshold", threshold, 0, 1, above=True)
    whole("k", k)
    check_result_names(id_column, _COLUMNS)
    check_ids(df, id_column, "df")
    rows = read_features(features, df, id_column)
    if len(rows.ids) <= k:
        raise EmptyInputError(f"df must have more than k={k} rows whose features can be read, got {len(rows.ids)}.")
    distances, places = nearest_neighbors(standardized(rows, rows), k, rows.metric)
    issues = outlier_issues(distances, places, rows.metric, threshold)
    columns = {"score": issues["outlier_score"].to_numpy(), "is_outlier": issues["is_outlier_issue"].to_numpy()}
    return ranked_rows(id_column, rows.ids, columns, rows.unreadable)
