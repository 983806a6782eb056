"""Hints for ids of two tables that do not match: the column that would, or the spelling that differs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StringType

from udfs.driver._arrow import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

__all__ = ["id_columns", "id_hint", "spellings"]

# Rows of each table that are compared.
_COMPARED = 20_000
# Share of different values in a column of ids; some rows may be there twice.
_LEAST_DISTINCT = 0.9
# Share of the values that are ids of the other table: a column of measurements has some by chance.
_LEAST_SHARED = 0.5


def spellings(text: str) -> tuple[str, ...]:
    """Return an id as it is, without case and blanks, and without folders, an ending and leading zeros either.

    Examples
    --------
    >>> spellings(" Cats/IMG_01.JPG"), spellings("0017")
    ((' Cats/IMG_01.JPG', 'cats/img_01.jpg', 'img_01'), ('0017', '0017', '17'))
    """
    folded = text.strip().casefold()
    bare = re.sub(r"(?<=.)\.[a-z0-9]{1,5}$", "", folded.rpartition("/")[2])
    return text, folded, bare.lstrip("0") or bare[-1:]


_DIFFERENCES = (
    "",
    " in lower case and without blanks",
    " without folders, file endings, leading zeros, blanks and case",
)


def id_hint(columns: Mapping[str, Iterable[object]], ids: Iterable[object], on: str, where: str) -> str:
    """Describe the column of one table whose values are the ids of another, or the spelling in which they are.

    Parameters
    ----------
    columns : mapping of str to iterable
        Values of the columns of a table that may hold ids.
    ids : iterable
        Ids of the other table.
    on : str
        Column that was compared with the ids.
    where : str
        Name of the table, for the hint.

    Returns
    -------
    str
        Sentence with a leading blank; empty if no column matches.

    Examples
    --------
    >>> id_hint({"id": [1, 2], "file": ["a", "b"]}, ["b", "c"], "id", "the table")
    " Column 'file' of the table has such values."
    >>> id_hint({"id": ["A1", "B2"]}, ["a1"], "id", "the table")
    " Column 'id' of the table matches in lower case and without blanks: spell the ids alike."
    """
    wanted = list(zip(*(spellings(str(each)) for each in ids if each is not None), strict=True))
    values = {name: [spellings(str(each)) for each in items if each is not None] for name, items in columns.items()}
    for level, ids_so in enumerate(map(set, wanted)):
        shared = {
            name: len(ids_so & {each[level] for each in items})
            for name, items in values.items()
            if _distinguishes(items, level)
        }
        best = max(shared, key=lambda name: (shared[name], name == on), default=None)
        if best is None or shared[best] < _LEAST_SHARED * min(len(ids_so), len(values[best])) or not shared[best]:
            continue
        if not level:
            return f" Column {best!r} of {where} has such values."
        return f" Column {best!r} of {where} matches{_DIFFERENCES[level]}: spell the ids alike."
    return ""


def _distinguishes(values: Sequence[Sequence[str]], level: int) -> bool:
    """Return whether values tell rows apart in a spelling, as ids do and a column of few numbers does not."""
    return len({each[level] for each in values}) > _LEAST_DISTINCT * len(values)


def id_columns(df: DataFrame, without: Sequence[str] = ()) -> dict[str, list[object]]:
    """Collect the values of the columns that may hold ids, texts and whole numbers, of the first rows in Spark."""
    chosen = [
        field.name
        for field in df.schema
        if isinstance(field.dataType, (StringType, IntegralType)) and field.name not in without
    ]
    if not chosen:
        return {}
    rows = df.select(*(F.col(quoted(name)) for name in chosen)).limit(_COMPARED).collect()
    return {name: [row[place] for row in rows] for place, name in enumerate(chosen)}
