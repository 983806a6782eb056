"""Corrections of labels: join reviewed labels to a table by its ids."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cerebro_spark.debugging._checks import check_ids, label_counts
from cerebro_spark.errors import ColumnError, InvalidArgumentError, LabelError
from optimizer.errors import nearest
from udfs.driver import quoted, validate_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["relabel"]

_LOG = logging.getLogger(__name__)

_CORRECTION = "__corrected"


@validate_arguments
def relabel(
    df: DataFrame,
    corrections: DataFrame | pd.DataFrame | Sequence[Mapping[str, Any]] | str | Path,
    *,
    id_column: str,
    label_column: str,
    correction_column: str = "corrected_label",
    classes: Sequence[Any] | None = None,
) -> DataFrame:
    """Replace the labels of some rows by corrected ones.

    Parameters
    ----------
    df : DataFrame
        Rows with the id and label columns.
    corrections : DataFrame, pandas.DataFrame, sequence of mappings, str or Path
        Corrected labels: a table with the columns ``id_column`` and ``correction_column``, the records of
        :meth:`cerebro_spark.steering.Client.corrections`, or the path of a CSV file with these columns, such as the
        reviewed result of :func:`find_label_errors`. Rows without a corrected label, which the reviewer has not
        decided, are left as they are. The driver holds all corrections.
    id_column : str
        Column with a different value in each row, in both tables.
    label_column : str
        Column of ``df`` to correct.
    correction_column : str
        Column of ``corrections`` with the new labels. Default ``"corrected_label"``.
    classes : sequence, optional
        Labels that a correction may have. By default those that ``df`` has.

    Returns
    -------
    DataFrame
        The rows and columns of ``df``, with the type of its label column.

    Raises
    ------
    ColumnError
        A column is missing; ids are null or repeated; or an id of the corrections is not in ``df``.
    LabelError
        A corrected label is not one of ``classes``.
    InvalidArgumentError
        There is no such file, or no row has a corrected label.

    Examples
    --------
    >>> import pandas as pd
    >>> from pyspark.sql import SparkSession
    >>> df = SparkSession.getActiveSession().createDataFrame([(1, 0), (2, 1), (3, 1)], "id int, label int")
    >>> reviewed = pd.DataFrame({"id": [2, 3], "corrected_label": [0, None]})
    >>> relabel(df, reviewed, id_column="id", label_column="label").sort("id").toPandas()["label"].tolist()
    [0, 0, 1]
    """
    check_ids(df, id_column, "df")
    known = {label for label in label_counts(df, label_column, "df") if label is not None}
    allowed = known if classes is None else set(classes)
    decided = _decided(_read(corrections, df, id_column), id_column, correction_column)
    ids = _as_type(decided[id_column], df, id_column)
    labels = _as_type(decided[correction_column], df, label_column)
    strange = [label for label in labels if label not in allowed]
    if strange:
        raise LabelError(
            f"{correction_column} must be a label of {label_column!r}, {_listed(allowed)}, got {strange[0]!r}. Correct "
            "it, or name all labels in classes="
        )
    schema = [(id_column, df.schema[id_column].dataType), (_CORRECTION, df.schema[label_column].dataType)]
    names = ", ".join(f"{quoted(name)} {kind.simpleString()}" for name, kind in schema)
    table = df.sparkSession.createDataFrame(list(zip(ids, labels, strict=True)), names)
    absent = table.join(df.select(quoted(id_column)), id_column, "left_anti").limit(3).collect()
    if absent:
        raise ColumnError(
            f"ids of corrections must be in df, got {', '.join(repr(row[id_column]) for row in absent)} in "
            f"{id_column!r}, which df does not have. Take the ids from the table that was searched for errors"
        )
    joined = df.join(F.broadcast(table), id_column, "left")
    corrected = F.coalesce(F.col(_CORRECTION), F.col(quoted(label_column)))
    _LOG.info("%d labels are corrected", len(labels))
    columns = [corrected.alias(name) if name == label_column else F.col(quoted(name)) for name in df.columns]
    return joined.select(*columns)


def _read(corrections: Any, df: DataFrame, id_column: str) -> pd.DataFrame:
    if isinstance(corrections, pd.DataFrame):
        return corrections
    if isinstance(corrections, (str, Path)):
        path = Path(corrections)
        if not path.is_file():
            raise InvalidArgumentError(f"corrections must be a table or the path of a CSV file, got {str(path)!r}.")
        # Ids of text may look like numbers: 007 is not 7.
        is_text = df.schema[id_column].dataType.simpleString() == "string"
        return pd.read_csv(path, dtype={id_column: "string"} if is_text else None)
    if not isinstance(corrections, DataFrame):
        return pd.DataFrame(list(corrections)).astype(object)
    table: pd.DataFrame = corrections.toPandas()
    return table


def _decided(table: pd.DataFrame, id_column: str, correction_column: str) -> pd.DataFrame:
    """Return the rows with a corrected label, after checks of the columns and of the ids."""
    for column in (id_column, correction_column):
        if column not in table.columns:
            names = [str(name) for name in table.columns]
            raise ColumnError(
                f"corrections has no column {column!r}{nearest(column, names)}; columns: {_listed(names)}"
            )
    decided = table[table[correction_column].notna()]
    if decided.empty:
        raise InvalidArgumentError(
            f"corrections must have at least one label in {correction_column!r}, got {len(table)} rows without one."
        )
    if decided[id_column].isna().any():
        raise ColumnError(f"ids of corrections must have no nulls, got {int(decided[id_column].isna().sum())}.")
    repeated = decided.loc[decided[id_column].duplicated(), id_column]
    if len(repeated):
        raise ColumnError(
            f"ids of corrections must be different, got {repeated.iloc[0]!r} more than once. Decide on one label for "
            "each row"
        )
    return decided


def _as_type(values: pd.Series, df: DataFrame, column: str) -> list[Any]:
    """Convert values to the Python type of a column; text and fractions do not become whole numbers silently."""
    kind = df.schema[column].dataType.simpleString()
    if kind == "string":
        return [str(value) for value in values]
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = numbers.isna()
    is_whole = kind in {"tinyint", "smallint", "int", "bigint"}
    if is_whole:
        wrong |= numbers % 1 != 0
    if wrong.any():
        what = "whole numbers" if is_whole else "numbers"
        first = values[wrong].astype(object).iloc[0]
        raise ColumnError(f"corrections of {column!r} must be {what}, as in df, got {first!r}. Correct this value")
    return [int(number) if is_whole else bool(number) if kind == "boolean" else float(number) for number in numbers]


def _listed(values: Any) -> str:
    words = sorted(map(str, values))
    return ", ".join(words[:20]) + (" and more" if len(words) > 20 else "")
