"""Keys of groups: columns that may be one, and their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

from cerebro_spark.errors import ColumnError, InvalidArgumentError
from cerebro_spark.grouping._tables import RESULT_COLUMNS
from optimizer.errors import nearest
from udfs.driver import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["ALL_ROWS", "check_names", "key_types", "keys"]

ALL_ROWS = "[]"
"""Key of the group of all rows."""

_KINDS = (StringType, IntegralType, BooleanType, DateType)


def check_names(group_by: Sequence[str]) -> tuple[str, ...]:
    """Check that ``group_by`` lists different names.

    Raises
    ------
    InvalidArgumentError
        It does not.
    """
    if isinstance(group_by, str):
        raise InvalidArgumentError(
            f"group_by must be a sequence of column names, got {group_by!r}. Write [{group_by!r}]"
        )
    names = tuple(group_by)
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"group_by must have at least one column name and none twice, got {list(names)!r}")
    for name in names:
        if name.casefold() in RESULT_COLUMNS:
            raise InvalidArgumentError(
                f"group_by must not have a column of the table of results ({', '.join(RESULT_COLUMNS)}), got {name!r}. "
                "Rename it"
            )
    return names


def key_types(df: DataFrame, group_by: Sequence[str]) -> tuple[str, ...]:
    """Return Spark's types of the key columns.

    Raises
    ------
    ColumnError
        A column is missing, or its values are no keys: floating-point numbers, arrays or structs.
    """
    types = []
    for name in group_by:
        count = df.columns.count(name)
        if count != 1:
            hint = nearest(name, df.columns)
            raise ColumnError(f"group_by must name one of the columns {', '.join(df.columns)}, got {name!r}{hint}")
        kind = df.schema[name].dataType
        if not isinstance(kind, _KINDS):
            raise ColumnError(
                f"group_by must name a column of strings, whole numbers, booleans or dates, got {name!r} of "
                f"{kind.simpleString()}. Cast or bin it first: equal keys have to be equal in every file and engine"
            )
        types.append(kind.simpleString())
    return tuple(types)


def keys(group_by: Sequence[str]) -> list[Column]:
    """Return the key of a row at each level as JSON, level 1 first; null where a value of the key is null."""
    texts = [F.col(quoted(name)).cast("string") for name in group_by]
    levels = []
    for level in range(1, len(texts) + 1):
        complete = texts[0].isNotNull()
        for text in texts[1:level]:
            complete = complete & text.isNotNull()
        levels.append(F.when(complete, F.to_json(F.array(*texts[:level]))))
    return levels
