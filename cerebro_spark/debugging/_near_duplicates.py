"""Near duplicates within a table, and between the splits of a data set (leakage)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cerebro_spark.debugging._checks import check_ids, check_result_names
from cerebro_spark.debugging._cleanlab import check_installed, near_duplicate_issues
from cerebro_spark.debugging._neighbors import nearest_neighbors
from cerebro_spark.debugging._ranked_rows import ranked_rows
from cerebro_spark.debugging._row_features import read_features, standardized
from cerebro_spark.errors import EmptyInputError, InvalidArgumentError
from optimizer.arguments import real, whole
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from cerebro_spark.tune import TunedModel

__all__ = ["find_leaks", "find_near_duplicates"]

_DUPLICATE_COLUMNS = ("nearest_id", "score", "is_near_duplicate", "group", "rank")
_LEAK_COLUMNS = ("train_id", "score", "is_leak", "rank")


@validate_arguments
def find_near_duplicates(
    features: TunedModel | Sequence[str],
    df: DataFrame,
    *,
    id_column: str,
    threshold: float = 0.13,
    k: int = 10,
) -> pd.DataFrame:
    """Rank the rows of a table by how close their nearest neighbour is, with cleanlab.

    A row is a near duplicate if the distance to another row is below ``threshold`` times the median distance of
    nearest neighbours. One pass over the table computes the features. Above 20,000 rows, neighbours are approximate: a
    row is compared with the rows of its own cell of a k-means clustering and of the seven nearest ones.

    Parameters
    ----------
    features : TunedModel or sequence of str
        Model whose last hidden layer gives the features, which are compared by cosine distance. Or columns of numbers,
        arrays or vectors, which are standardised, and compared by Euclidean distance. More than 128 features are
        projected at random to 128.
    df : DataFrame
        Rows with the id column, and the feature columns.
    id_column : str
        Column of numbers or strings with a different value in each row.
    threshold : float
        Share of the median distance, from 0 to 1. Default 0.13, as in cleanlab. With one to three features, clean rows
        are as close as this by chance: choose a smaller one.
    k : int
        Number of neighbours of a row that are looked at. Default 10.

    Returns
    -------
    pandas.DataFrame
        A row for each row of ``df``, the most suspicious first: the id, ``nearest_id``, ``score`` (from 0 to 1; 0 is an
        exact copy), ``is_near_duplicate``, ``group`` (a number for rows that are near duplicates of each other), and
        ``rank`` from 1. Rows that cannot be read come last with nulls.

    Raises
    ------
    ColumnError
        A column is missing or of another type, or ids are null or repeated.
    EmptyInputError
        Fewer than two rows can be read.
    InvalidArgumentError
        A value is not allowed.
    MissingPackageError
        cleanlab is not installed.
    UntraceableModelError
        The network has no layer with parameters.

    Notes
    -----
    The driver holds up to 128 features for each row: 51 MB for 100,000 rows.

    Examples
    --------
    Keep one row of each group::

        found = find_near_duplicates(model, df, id_column="id")
        copies = found[found["is_near_duplicate"] & found.duplicated("group")]
    """
    check_installed("find_near_duplicates")
    real("threshold", threshold, 0, 1)
    whole("k", k)
    check_result_names(id_column, _DUPLICATE_COLUMNS)
    check_ids(df, id_column, "df")
    rows = read_features(features, df, id_column)
    _check_rows(len(rows.ids), "df")
    distances, places = nearest_neighbors(standardized(rows, rows), k, rows.metric)
    issues, sets = near_duplicate_issues(distances, places, rows.metric, threshold)
    is_duplicate = issues["is_near_duplicate_issue"].to_numpy()
    columns = {
        "nearest_id": rows.ids[places[:, 0]],
        "score": issues["near_duplicate_score"].to_numpy(),
        "is_near_duplicate": is_duplicate,
        "group": _groups(sets, is_duplicate),
    }
    return ranked_rows(id_column, rows.ids, columns, rows.unreadable, whole_numbers=("group",))


@validate_arguments
def find_leaks(
    features: TunedModel | Sequence[str],
    train_df: DataFrame,
    held_out_df: DataFrame,
    *,
    id_column: str,
    threshold: float = 0.13,
) -> pd.DataFrame:
    """Rank held-out rows by how close they are to a training row: near duplicates leak between the splits.

    The distance is compared with that between training rows and their nearest neighbours, as
    :func:`find_near_duplicates` does within one table.

    Parameters
    ----------
    features : TunedModel or sequence of str
        See :func:`find_near_duplicates`; columns are scaled by the mean and deviation of ``train_df``.
    train_df, held_out_df : DataFrame
        Rows of the two splits, with the id column and the feature columns. The same id may be in both.
    id_column : str
        Column of numbers or strings with a different value in each row of a table.
    threshold : float
        Share of the median distance, from 0 to 1. Default 0.13.

    Returns
    -------
    pandas.DataFrame
        A row for each held-out row, the most suspicious first: the id, ``train_id`` (the nearest training row),
        ``score`` (from 0 to 1; 0 is an exact copy), ``is_leak`` and ``rank``. Rows that cannot be read come last.

    Raises
    ------
    ColumnError
        A column is missing or of another type, or ids are null or repeated.
    InvalidArgumentError
        A value is not allowed, or features have different lengths in both tables.
    EmptyInputError
        No held-out row, or fewer than two training rows can be read.
    MissingPackageError
        cleanlab is not installed.
    UntraceableModelError
        The network has no layer with parameters.

    Examples
    --------
    Leave out the held-out rows that a model knows from its training::

        leaks = find_leaks(["pixels"], train, held_out, id_column="id")
        clean = held_out.where(~F.col("id").isin(leaks.loc[leaks["is_leak"], "id"].tolist()))
    """
    check_installed("find_leaks")
    real("threshold", threshold, 0, 1)
    check_result_names(id_column, _LEAK_COLUMNS)
    check_ids(train_df, id_column, "train_df")
    check_ids(held_out_df, id_column, "held_out_df")
    known = read_features(features, train_df, id_column)
    asked = read_features(features, held_out_df, id_column)
    _check_rows(len(known.ids), "train_df")
    if known.matrix.shape[1] != asked.matrix.shape[1]:
        raise InvalidArgumentError(
            f"features must be of one length in both tables, got {known.matrix.shape[1]} in train_df and "
            f"{asked.matrix.shape[1]} in held_out_df. Name the same columns"
        )
    base, queries = standardized(known, known), standardized(asked, known)
    usual = float(np.median(nearest_neighbors(base, 1, known.metric)[0]))
    distances, places = nearest_neighbors(base, 1, known.metric, queries=queries)
    # A median of 0 means that most training rows are copies.
    shares = distances[:, 0] / max(usual, float(np.finfo(np.float32).tiny))
    columns = {"train_id": known.ids[places[:, 0]], "score": -np.expm1(-shares), "is_leak": shares < threshold}
    return ranked_rows(id_column, asked.ids, columns, asked.unreadable)


def _check_rows(count: int, what: str) -> None:
    if count < 2:
        raise EmptyInputError(f"{what} must have at least 2 rows whose features can be read, got {count}.")


def _groups(sets: list[NDArray[np.int64]], is_duplicate: NDArray[np.bool_]) -> list[Any]:
    """Number the groups of rows that are connected by near duplicates, from 1; None for other rows."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    rows = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
    pairs = (np.ones(len(rows), np.bool_), (rows, np.concatenate([*sets, np.array([], np.int64)]).astype(np.int64)))
    _, labels = connected_components(csr_matrix(pairs, (len(sets), len(sets))), directed=False)
    _, numbers = np.unique(labels[is_duplicate], return_inverse=True)
    result: list[Any] = [None] * len(sets)
    for place, number in zip(np.flatnonzero(is_duplicate).tolist(), numbers.tolist(), strict=True):
        result[place] = number + 1
    return result
