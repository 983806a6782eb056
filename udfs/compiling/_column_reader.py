"""Columns of any kind as what a tensor program takes: a table of numbers, and codes of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optimizer.compiling import Bag, Encode, ProgramError, readings
from optimizer.errors import ColumnError
from udfs.compiling._bag_reader import BagReader
from udfs.compiling._number_reader import NumberReader, is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Entry, Operator, Program, SparseRows

__all__ = ["ColumnReader", "Tables"]


class Tables(NamedTuple):
    """Input of an engine."""

    numbers: NDArray[Any]  # of shape (rows, columns); zero in columns that are not read as numbers
    given: tuple[NDArray[Any] | SparseRows, ...]  # one for each of program.host


class ColumnReader:
    """Read columns for a program: numbers into one table, texts into codes.

    Parameters
    ----------
    program : Program
        Says which columns are numbers.
    rewritten : callable, optional
        Gives the program that runs, by the type of the table: its steps on the host are those that are run.
    """

    def __init__(self, program: Program, rewritten: Callable[[str], Program] | None = None) -> None:
        self._width, names = program.width, program.columns or range(program.width)
        self._names = [f"column {name!r}" for name in names]
        rules = readings(program)
        self._numeric = {column: NumberReader(self._names[column], rules[column]) for column in sorted(program.numeric)}
        self._rewritten = rewritten or (lambda _: program)
        self._steps: dict[str, list[Callable[[Sequence[Any]], NDArray[np.int64] | SparseRows]]] = {}

    def read(self, columns: Sequence[NDArray[Any] | pa.Array]) -> Tables:
        """Read one column per column of the program's input.

        Parameters
        ----------
        columns : sequence of numpy arrays or Arrow arrays
            All of one kind. A null of Arrow is missing: NaN in numbers; in categories ``None``, or NaN where the
            vocabulary has no ``None``.

        Raises
        ------
        ColumnError
            A column holds something else than what the model was fitted on.
        """
        rows = len(columns[0]) if columns else 0
        columns = [_decoded(column) for column in columns]
        numbers = {column: reader.read(columns[column]) for column, reader in self._numeric.items()}
        narrow = bool(numbers) and all(values.dtype == np.float32 for values in numbers.values())
        table = np.zeros((rows, self._width), np.float32 if narrow else np.float64)
        for column, values in numbers.items():
            table[:, column] = values
        kind = table.dtype.name
        if kind not in self._steps:
            self._steps[kind] = [_step(node.operator, self._names) for node in self._rewritten(kind).host]
        return Tables(table, tuple(step(columns) for step in self._steps[kind]))


class _Codes:
    """Codes of some columns."""

    def __init__(self, operator: Encode, names: Sequence[str]) -> None:
        self._columns = [
            (column, _Vocabulary(entries, names[column]))
            for column, entries in zip(operator.columns.tolist(), operator.vocabularies, strict=True)
        ]

    def __call__(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        return np.stack([lookup.codes(columns[column]) for column, lookup in self._columns], axis=1)


class _Counts:
    """Counts of the terms of one column."""

    def __init__(self, operator: Bag, names: Sequence[str]) -> None:
        self._column = int(operator.columns[0])
        self._reader, self._name = BagReader(operator), names[self._column]

    def __call__(self, columns: Sequence[Any]) -> SparseRows:
        return self._reader.read(columns[self._column], self._name)


def _step(operator: Operator, names: Sequence[str]) -> Callable[[Sequence[Any]], NDArray[np.int64] | SparseRows]:
    if isinstance(operator, Encode):
        return _Codes(operator, names)
    if isinstance(operator, Bag):
        return _Counts(operator, names)
    raise ProgramError(f"{type(operator).__name__} is no step of the host")


def _decoded(column: Any) -> Any:
    """Look up the values of an Arrow dictionary, in which a value may stand twice."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    is_coded = isinstance(column, pa.Array) and pa.types.is_dictionary(column.type)
    return column.dictionary_decode() if is_coded else column


class _Vocabulary:
    """Values of one column, and the code of each."""

    def __init__(self, entries: Sequence[Entry], name: str) -> None:
        self._name = name
        self.places = {entry: place for place, entry in enumerate(entries) if entry == entry}  # not NaN
        self.absent = len(entries)
        self.nan = next((place for place, entry in enumerate(entries) if entry != entry), self.absent)
        self.none = self.places.get(None, self.absent)
        self.null = self.none if self.none < self.absent else self.nan
        self.texts = self._of(str)
        self.bytes = self._of(bytes)
        self.numbers = sorted(
            (float(entry), place) for entry, place in self.places.items() if isinstance(entry, int | float)
        )

    def _of(self, kind: type[str | bytes]) -> tuple[pa.Array | None, NDArray[np.int64]]:
        chosen = [(entry, place) for entry, place in self.places.items() if isinstance(entry, kind)]
        places = np.array([place for _, place in chosen] + [self.absent], np.int64)
        try:
            values = [entry.encode() if isinstance(entry, str) else entry for entry, _ in chosen]
        except UnicodeEncodeError:  # half of a surrogate pair, which Arrow does not hold
            return None, places
        return pa.array(values, pa.binary()), places

    def codes(self, column: Any) -> NDArray[np.int64]:
        """Return the codes of a column, int64."""
        if isinstance(column, pa.Array):
            return self._of_arrow(column, self.null)
        if column.dtype.kind not in "OUS" and not (column.dtype.kind in "biuf" and self.numbers):
            raise ColumnError(f"{self._name} must hold texts, as in training, got {column.dtype}.")
        if column.dtype.kind in "OU" and self.texts[0] is not None and not self.numbers:
            try:
                encoded = pa.array(column, from_pandas=False)
            except (pa.ArrowException, TypeError, ValueError):  # also of objects that pyarrow does not know
                encoded = None
            if encoded is not None and pa.types.is_string(encoded.type):
                return self._of_arrow(encoded, self.none)
        values = column.tolist()
        if any(kind.__hash__ is None for kind in set(map(type, values))):
            raise ColumnError(f"{self._name} must hold texts or numbers, got lists or other values without a hash.")
        places, absent, nan = self.places, self.absent, self.nan
        return np.array([places.get(value, nan if _is_nan(value) else absent) for value in values], np.int64).reshape(
            len(column)
        )

    def _of_arrow(self, column: pa.Array, null: int) -> NDArray[np.int64]:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
            known, places = self.bytes if pa.types.is_binary(kind) else self.texts
            if known is None:
                unknown = np.full(len(column), self.absent, np.int64)
                texts = [(entry, at) for entry, at in self.places.items() if isinstance(entry, str)]
                return self.codes(np.array([*column.to_pylist(), None], object)[:-1]) if texts else unknown
            # As bytes: no normal form of unicode is another one's, and nothing is cut off.
            at = pc.fill_null(pc.index_in(pc.cast(column, pa.binary()), value_set=known), len(known))
            codes = places[at.to_numpy(zero_copy_only=False)]
        elif pa.types.is_null(kind):
            codes = np.full(len(column), null, np.int64)
        elif self.numbers and is_number(kind):
            codes = self._of_numbers(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        else:
            raise ColumnError(f"{self._name} must hold texts, as in training, got {kind}.")
        if column.null_count:
            codes = np.where(column.is_null().to_numpy(zero_copy_only=False), null, codes)
        return np.asarray(codes)

    def _of_numbers(self, column: NDArray[np.float64]) -> NDArray[np.int64]:
        known = np.array([value for value, _ in self.numbers] or [np.nan])
        places = np.array([place for _, place in self.numbers] or [self.absent], np.int64)
        at = np.minimum(np.searchsorted(known, column), len(known) - 1)
        return np.where(known[at] == column, places[at], np.where(np.isnan(column), self.nan, self.absent))


def _is_nan(value: object) -> bool:
    return isinstance(value, float | np.floating) and value != value  # what NaN is
