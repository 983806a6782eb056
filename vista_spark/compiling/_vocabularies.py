"""Categories of a model as codes: by the host where they are texts, in the program where they are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optimizer.compiling import (
    INPUT,
    Cast,
    CodeLookup,
    Concatenate,
    Encode,
    Entry,
    Filled,
    Finite,
    Known,
    Recode,
    Select,
    UnsupportedOperatorError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = ["codes_of", "entry_of", "sources", "with_codes"]


class Refused(NamedTuple):
    """What takes the place of a value that a model refuses.

    Parameters
    ----------
    who : str
        The model.
    """

    who: str


Source = tuple[int, tuple[tuple[Entry, Entry | Refused], ...]]
"""A column of the program's input, and what is replaced in it by what."""


def sources(build: Builder, table: str) -> list[Source | None]:
    """Find the columns of the program's input that a table has, where texts can still be looked up in them."""
    if table == INPUT:
        return [(column, ()) for column in range(build.width(INPUT))]
    node = build.node(table)
    if node is None or not isinstance(node.operator, Select | Filled | Concatenate):
        return [None] * build.width(table)
    own = [one for name in node.inputs for one in sources(build, name)]
    if isinstance(node.operator, Select):
        return [own[column] for column in node.operator.columns.tolist()]
    if isinstance(node.operator, Filled):
        wrong = () if node.operator.nan else ((float("nan"), Refused(node.operator.who)),)
        pairs = zip(node.operator.marks, node.operator.fills, strict=True)
        return [one and (one[0], (*one[1], *wrong, pair)) for one, pair in zip(own, pairs, strict=True)]
    return own


def codes_of(who: str, build: Builder, table: str, categories: Sequence[NDArray[Any]]) -> tuple[str, NDArray[np.int64]]:
    """Give the place of each value among the categories of its column, and how many those are: the code of the unknown.

    Raises
    ------
    UnsupportedOperatorError
        Texts are computed by an earlier step, not read.
    """
    sizes = np.array([len(own) for own in categories], np.int64)
    texts = [column for column, own in enumerate(categories) if own.dtype.kind in "OUS"]
    numbers = [column for column, own in enumerate(categories) if own.dtype.kind not in "OUS"]
    parts = []
    if texts:
        found = sources(build, table)
        read = [one for one in (found[column] for column in texts) if one is not None]
        if len(read) < len(texts):
            raise UnsupportedOperatorError(f"{who} with categories that an earlier step computes has no translation")
        parts.append(_looked_up(build, read, [categories[column] for column in texts]))
    if numbers:
        own = table if not texts else build.add(Select(np.asarray(numbers, np.int64)), table)
        values = [np.asarray(categories[column]) for column in numbers]
        for column in values:
            if (
                column.dtype.kind in "iu"
                and len(column)
                and max(abs(int(column.min())), abs(int(column.max()))) > 2**53
            ):
                raise UnsupportedOperatorError(f"{who} with whole numbers beyond 2^53 as categories has no translation")
        # Of a column of numbers, NaN may be a category; an infinity is refused, not unknown.
        own = build.add(Finite("as given", nan=True, who=who), own)
        parts.append(_found(build, own, values))
    if len(parts) == 1:
        return parts[0], sizes
    order = np.argsort(np.array([*texts, *numbers]), kind="stable")
    return build.add(Select(order), build.add(Concatenate(), *parts)), sizes


def with_codes(who: str, build: Builder, table: str, categories: Mapping[int, Sequence[str]], *, known: bool) -> str:
    """Put codes in place of the texts of some columns, as a library does that numbers the categories of a DataFrame.

    What is missing, and an unknown text, becomes NaN; with `known` an unknown text makes its row bad.

    Raises
    ------
    UnsupportedOperatorError
        Texts are computed by an earlier step, not read.
    """
    if not categories:
        return table
    columns = sorted(categories)
    # A code of its own for what is missing, whichever way it is written, tells it from the unknown.
    own = [np.array([*categories[column], None, np.nan], object) for column in columns]
    codes, sizes = codes_of(who, build, build.add(Select(np.array(columns, np.int64)), table), own)
    if known:
        codes = build.add(Known(sizes, who), codes)
    numbers = [np.append(np.arange(size - 2.0), [np.nan] * 3) for size in sizes.tolist()]
    coded = build.add(Recode(np.concatenate(numbers)[:, None], sizes + 1), codes)
    others = np.setdiff1d(np.arange(build.width(table)), columns)
    if not len(others):
        return coded
    order = np.argsort(np.concatenate([others, columns]), kind="stable")
    return build.add(Select(order), build.add(Concatenate(), build.add(Select(others), table), coded))


def _found(build: Builder, rows: str, values: list[NDArray[Any]]) -> str:
    """Give the place of each number among the values of its column, and their count for another one."""
    places = [{float(value): float(place) for place, value in enumerate(own.tolist())} for own in values]
    counts = [float(len(own)) for own in values]
    missing = [
        next((place for key, place in table.items() if key != key), count)  # NaN
        for table, count in zip(places, counts, strict=True)
    ]
    keys = [{key: place for key, place in table.items() if key == key} for table in places]
    # As float64: float32 does not have the number of every category.
    wide = build.add(Cast("float64"), rows)
    found = build.add(CodeLookup.of_tables(range(len(values)), keys, counts, missing=missing), wide)
    return build.add(Cast("int64"), found)


def _looked_up(build: Builder, found: list[Source], categories: list[NDArray[Any]]) -> str:
    """Look values up as they are read; what an imputer replaces gets the code of what takes its place."""
    vocabularies, tables = [], []
    refused = [fill for _, fills in found for _, fill in fills if isinstance(fill, Refused)]
    for (_, fills), own in zip(found, categories, strict=True):
        known = [entry_of(value) for value in own.tolist()]
        # Marks that are no category become entries of their own, behind the others.
        values = list(known)
        for mark, _ in fills:
            values += [] if any(_same(mark, value) for value in values) else [mark]
        places = []
        for value in values:
            final: Entry | Refused = value
            for mark, fill in fills:
                final = fill if _same(final, mark) else final
            wrong = len(known) + isinstance(final, Refused)
            places.append(next((place for place, one in enumerate(known) if _same(one, final)), wrong))
        vocabularies.append(tuple(values))
        tables.append(np.array([*places, len(known)], np.int64))
    columns = np.array([column for column, _ in found], np.int64)
    codes = build.add(Encode(columns, tuple(vocabularies)))
    if all(np.array_equal(table, np.arange(len(table))) for table in tables):
        return codes
    sizes = np.array([len(table) for table in tables], np.int64)
    codes = build.add(Recode(np.concatenate(tables)[:, None], sizes), codes)
    limits = np.array([len(own) + 1 for own in categories], np.int64)
    return build.add(Known(limits, refused[0].who), codes) if refused else codes


def entry_of(value: Any) -> Entry:
    """Give a category as plain data.

    Raises
    ------
    UnsupportedOperatorError
        It is neither a text, bytes, a number nor missing.
    """
    own = value.item() if isinstance(value, np.generic) else value
    if own is None or isinstance(own, str | bytes | bool | int | float):
        return own
    raise UnsupportedOperatorError(f"a category {own!r} of type {type(own).__name__} has no translation")


def _same(one: object, other: object) -> bool:
    return one == other or (one != one and other != other)  # NaN is itself
