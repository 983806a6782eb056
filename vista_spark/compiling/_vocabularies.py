"""Codes of categories: texts are looked up by the host, numbers in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


__all__ = ["as_numbers", "codes_of", "entry_of", "sources", "with_codes"]


class Refused(NamedTuple):
    """Replacement of a value that a model refuses; ``who`` is the model."""

    who: str


Source = tuple[int, tuple[tuple[ops.Entry, ops.Entry | Refused], ...]]
"""Column of the program's input, and pairs of values and their replacements."""


def sources(build: ops.Builder, table: str) -> list[Source | None]:
    """Return the input columns of a table; ``None`` for a column in which texts can no longer be looked up."""
    if table == ops.INPUT:
        return [(column, ()) for column in range(build.width(ops.INPUT))]
    node = build.node(table)
    if node is None or not isinstance(node.operator, ops.Select | ops.Filled | ops.Concatenate):
        return [None] * build.width(table)
    columns = [source for name in node.inputs for source in sources(build, name)]
    if isinstance(node.operator, ops.Select):
        return [columns[column] for column in node.operator.columns.tolist()]
    if isinstance(node.operator, ops.Filled):
        wrong = () if node.operator.nan else ((float("nan"), Refused(node.operator.who)),)
        pairs = zip(node.operator.marks, node.operator.fills, strict=True)
        return [source and (source[0], (*source[1], *wrong, pair)) for source, pair in zip(columns, pairs, strict=True)]
    return columns


def codes_of(
    who: str, build: ops.Builder, table: str, categories: Sequence[NDArray[Any]]
) -> tuple[str, NDArray[np.int64]]:
    """Add the place of each value among the categories of its column, and return the numbers of categories.

    An unknown value gets the number of categories as its code.

    Raises
    ------
    UnsupportedOperatorError
        An earlier step computes the texts.
    """
    categories = _numbers_of_earlier_steps(sources(build, table), categories)
    sizes = np.array([len(values) for values in categories], np.int64)
    texts = [column for column, values in enumerate(categories) if values.dtype.kind in "OUS"]
    numbers = [column for column, values in enumerate(categories) if values.dtype.kind not in "OUS"]
    parts = []
    if texts:
        known = sources(build, table)
        read = [source for source in (known[column] for column in texts) if source is not None]
        if len(read) < len(texts):
            raise refusal(f"{who} with categories that an earlier step computes")
        parts.append(_text_codes(build, read, [categories[column] for column in texts]))
    if numbers:
        rows = table if not texts else build.add(ops.Select(np.asarray(numbers, np.int64)), table)
        values = [np.asarray(categories[column]) for column in numbers]
        for column in values:
            if column.dtype.kind in "iu" and len(column) and max(-int(column.min()), int(column.max())) > 2**53:
                raise refusal(f"{who} with integers beyond 2^53 as categories")
        # NaN may be a category of numbers. An infinity is refused, not unknown.
        rows = build.add(ops.ReadAs(who, "values"), rows)
        parts.append(_number_codes(build, build.add(ops.Finite("as given", nan=True, who=who), rows), values))
    if len(parts) == 1:
        return parts[0], sizes
    order = np.argsort(np.array([*texts, *numbers]), kind="stable")
    return build.add(ops.Select(order), build.add(ops.Concatenate(), *parts)), sizes


def with_codes(
    who: str, build: ops.Builder, table: str, categories: Mapping[int, Sequence[str]], *, known: bool
) -> str:
    """Replace the texts of some columns by codes, as a library numbers the categories of a DataFrame.

    Missing values and unknown texts become NaN. With `known`, an unknown text makes its row bad.

    Raises
    ------
    UnsupportedOperatorError
        An earlier step computes the texts.
    """
    if not categories:
        return table
    columns = sorted(categories)
    # Codes of their own for both kinds of missing values tell them from the unknown.
    values = [np.array([*categories[column], None, np.nan], object) for column in columns]
    codes, sizes = codes_of(who, build, build.add(ops.Select(np.array(columns, np.int64)), table), values)
    if known:
        codes = build.add(ops.Known(sizes, who), codes)
    numbers = [np.append(np.arange(size - 2.0), [np.nan] * 3) for size in sizes.tolist()]
    coded = build.add(ops.Recode(np.concatenate(numbers)[:, None], sizes + 1), codes)
    others = np.setdiff1d(np.arange(build.width(table)), columns)
    if not len(others):
        return coded
    order = np.argsort(np.concatenate([others, columns]), kind="stable")
    return build.add(ops.Select(order), build.add(ops.Concatenate(), build.add(ops.Select(others), table), coded))


def _numbers_of_earlier_steps(
    columns: Sequence[Source | None], categories: Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    """Convert categories of objects to floats where an earlier step computes them, so that all are numbers."""
    return [
        numbers if source is None and (numbers := as_numbers(values)) is not None else values
        for source, values in zip(columns, categories, strict=True)
    ]


def as_numbers(values: NDArray[Any]) -> NDArray[Any] | None:
    """Return categories as numbers; ``None`` if one of them is no number."""
    if values.dtype.kind in "biuf":
        return values
    numbers = all(isinstance(value, int | float | np.integer | np.floating | np.bool_) for value in values.tolist())
    return values.astype(np.float64) if numbers else None


def _number_codes(build: ops.Builder, rows: str, categories: list[NDArray[Any]]) -> str:
    """Add the place of each number among the values of its column."""
    tables = [{float(value): float(place) for place, value in enumerate(values.tolist())} for values in categories]
    counts = [float(len(values)) for values in categories]
    missing = [
        next((place for key, place in table.items() if key != key), count)
        for table, count in zip(tables, counts, strict=True)
    ]
    keys = [{key: place for key, place in table.items() if key == key} for table in tables]
    # As float64: float32 does not have the number of every category.
    wide = build.add(ops.Cast("float64"), rows)
    codes = build.add(ops.CodeLookup.of_tables(range(len(categories)), keys, counts, missing=missing), wide)
    return build.add(ops.Cast("int64"), codes)


def _text_codes(build: ops.Builder, read: list[Source], categories: list[NDArray[Any]]) -> str:
    """Look up values of the input. A value that an imputer replaces gets the code of its replacement."""
    vocabularies, tables = [], []
    refused = [fill for _, fills in read for _, fill in fills if isinstance(fill, Refused)]
    for (_, fills), labels in zip(read, categories, strict=True):
        known = [entry_of(value) for value in labels.tolist()]
        # Marks that are no category follow the categories.
        values = list(known)
        for mark, _ in fills:
            values += [] if any(_is_same(mark, value) for value in values) else [mark]
        places = []
        for value in values:
            final: ops.Entry | Refused = value
            for mark, fill in fills:
                final = fill if _is_same(final, mark) else final
            wrong = len(known) + isinstance(final, Refused)
            places.append(next((place for place, entry in enumerate(known) if _is_same(entry, final)), wrong))
        vocabularies.append(tuple(values))
        tables.append(np.array([*places, len(known)], np.int64))
    codes = build.add(ops.Encode(np.array([column for column, _ in read], np.int64), tuple(vocabularies)))
    if all(np.array_equal(table, np.arange(len(table))) for table in tables):
        return codes
    sizes = np.array([len(table) for table in tables], np.int64)
    codes = build.add(ops.Recode(np.concatenate(tables)[:, None], sizes), codes)
    limits = np.array([len(labels) + 1 for labels in categories], np.int64)
    return build.add(ops.Known(limits, refused[0].who), codes) if refused else codes


def entry_of(value: Any) -> ops.Entry:
    """Convert a category to plain data.

    Raises
    ------
    UnsupportedOperatorError
        It is neither a text, bytes, a number nor missing.
    """
    entry = value.item() if isinstance(value, np.generic) else value
    if entry is None or isinstance(entry, str | bytes | bool | int | float):
        return entry
    raise refusal(f"A category {entry!r} of type {type(entry).__name__}")


def _is_same(first: object, second: object) -> bool:
    return first == second or (first != first and second != second)
