"""Numbers of label columns that hold strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from cerebro_spark.errors import LabelError
from udfs.driver import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

__all__ = ["describe_labels", "is_text", "number_labels", "order_classes", "read_classes"]

_MOST_CLASSES = 1000
_LONGEST_NAME = 200
_SHOWN = 20


def is_text(type_name: str) -> bool:
    """Check whether a column's type, as Arrow or Spark names it, is a string.

    Examples
    --------
    >>> [is_text(name) for name in ("string", "dictionary<values=string, indices=int32, ordered=0>", "double")]
    [True, True, False]
    """
    return type_name.removeprefix("dictionary<values=").startswith(("string", "large_string"))


def order_classes(values: Iterable[str], column: str) -> list[str]:
    """Sort the classes of a column; the number of a class is its place.

    Raises
    ------
    LabelError
        There is no class, too many, or one whose name is too long for a label.

    Examples
    --------
    >>> order_classes({"dog", "cat"}, "animal")
    ['cat', 'dog']
    """
    names = sorted(values)
    if not names:
        raise LabelError(
            f"label {column!r} must have a value in some row, got null in all of them. Choose another column"
        )
    remedy = "Is it a label? Choose the column of the classes, or cast numbers to a number type"
    if len(names) > _MOST_CLASSES:
        raise LabelError(
            f"label {column!r} must have at most {_MOST_CLASSES:,} different strings, got more, such as "
            f"{names[0][:_LONGEST_NAME]!r}. {remedy}"
        )
    longest = max(names, key=len)
    if len(longest) > _LONGEST_NAME:
        raise LabelError(
            f"label {column!r} must have strings of at most {_LONGEST_NAME} characters, got one of {len(longest):,}, "
            f"which begins with {longest[:40]!r}. {remedy}"
        )
    return names


def read_classes(df: DataFrame, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the classes of the columns that hold strings, in the order of their numbers.

    Raises
    ------
    LabelError
        The strings of a column are no classes.
    """
    classes = {}
    for name in columns:
        if isinstance(df.schema[name].dataType, StringType):
            column = F.col(quoted(name))
            rows = df.select(column).where(column.isNotNull()).distinct().limit(_MOST_CLASSES + 1).collect()
            classes[name] = order_classes((row[0] for row in rows), name)
    return classes


def number_labels(df: DataFrame, *, labels: Mapping[str, Sequence[str]], convert: Any = None) -> DataFrame:
    """Replace the strings of label columns by the numbers of their classes, then convert the table.

    Parameters
    ----------
    df : DataFrame
        Table of the launch. Null, and a string that is no class, become null.
    labels : mapping of str to sequence of str
        Classes by column, in the order of their numbers.
    convert : callable, optional
        Converts the table to the columns that the model reads. Default: none.
    """
    for name, names in labels.items():
        if isinstance(df.schema[name].dataType, StringType):
            # 1 for the first class, and 0 for a string that is no class.
            place = F.array_position(F.array(*map(F.lit, names)), F.col(quoted(name)))
            df = df.withColumn(name, F.when(place > 0, place - 1))
    return df if convert is None else convert(df)


def describe_labels(labels: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line per label with the names of its classes, the first of many.

    Examples
    --------
    >>> describe_labels({"animal": ["cat", "dog"]})
    ['labels: 0 = cat, 1 = dog']
    """
    lines = []
    for column, names in labels.items():
        listed = ", ".join(f"{number} = {name or repr(name)}" for number, name in enumerate(names[:_SHOWN]))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        lines.append(f"labels{f' of {column}' if len(labels) > 1 else ''}: {listed}{more}")
    return lines
