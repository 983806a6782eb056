"""Columns of any kind as what a tensor program takes: a table of numbers, and codes of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optimizer.compiling import Bag, Encode, ProgramError
from optimizer.errors import ColumnError, InvalidArgumentError
from udfs.compiling._bag_reader import BagReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Entry, Operator, Program, SparseRows

__all__ = ["ColumnReader", "Tables", "read_numbers"]


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
        self._width, self._numeric = program.width, sorted(program.numeric)
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
        numbers = {column: _numbers(columns[column], column) for column in self._numeric}
        narrow = bool(numbers) and all(values.dtype == np.float32 for values in numbers.values())
        table = np.zeros((rows, self._width), np.float32 if narrow else np.float64)
        for column, values in numbers.items():
            table[:, column] = values
        kind = table.dtype.name
        if kind not in self._steps:
            self._steps[kind] = [_step(node.operator) for node in self._rewritten(kind).host]
        return Tables(table, tuple(step(columns) for step in self._steps[kind]))


class _Codes:
    """Codes of some columns."""

    def __init__(self, operator: Encode) -> None:
        vocabularies = [_Vocabulary(entries) for entries in operator.vocabularies]
        self._columns = list(zip(operator.columns.tolist(), vocabularies, strict=True))

    def __call__(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        return np.stack([lookup.codes(columns[column], column) for column, lookup in self._columns], axis=1)


class _Counts:
    """Counts of the terms of one column."""

    def __init__(self, operator: Bag) -> None:
        self._reader, self._column = BagReader(operator), int(operator.columns[0])

    def __call__(self, columns: Sequence[Any]) -> SparseRows:
        return self._reader.read(columns[self._column], self._column)


def _step(operator: Operator) -> Callable[[Sequence[Any]], NDArray[np.int64] | SparseRows]:
    if isinstance(operator, Encode):
        return _Codes(operator)
    if isinstance(operator, Bag):
        return _Counts(operator)
    raise ProgramError(f"{type(operator).__name__} is no step of the host")


# Beyond it float64 does not have every whole number, and the library may round another way.
_WHOLE = 2**53
_READ = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def _numbers(column: Any, place: int) -> NDArray[Any]:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        numbers = column if column.type == pa.float32() else pc.cast(column, pa.float64())
        return np.asarray(numbers.to_numpy(zero_copy_only=False))
    try:
        return read_numbers(column)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise ColumnError(f"column {place} of {column.dtype} holds more than numbers: {error}") from error


def read_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Convert numbers, or strings of numbers, to float64; keep float32.

    Raises
    ------
    InvalidArgumentError
        An integer is beyond 2^53 in magnitude.
    """
    if values.dtype.kind in "iu" and values.size and max(abs(int(values.min())), abs(int(values.max()))) > _WHOLE:
        raise InvalidArgumentError(f"whole numbers beyond {_WHOLE} lose digits as float64: give floats")
    return values if values.dtype in _READ else values.astype(np.float64)


class _Vocabulary:
    """Values of one column, and the code of each."""

    def __init__(self, entries: Sequence[Entry]) -> None:
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

    def codes(self, column: Any, place: int) -> NDArray[np.int64]:
        """Return the codes of a column, int64."""
        if isinstance(column, pa.Array | pa.ChunkedArray):
            return self._of_arrow(column, self.null, place)
        if column.dtype.kind in "biuf" and not self.numbers:
            raise ColumnError(f"column {place} is {column.dtype}, and the model was fitted on texts")
        if column.dtype.kind in "OU" and self.texts[0] is not None and not self.numbers:
            try:
                encoded = pa.array(column, from_pandas=False)
            except (pa.ArrowException, UnicodeEncodeError):
                encoded = None
            if encoded is not None and pa.types.is_string(encoded.type):
                return self._of_arrow(encoded, self.none, place)
        places, absent, nan = self.places, self.absent, self.nan
        return np.array(
            [places.get(value, nan if _is_nan(value) else absent) for value in column.tolist()], np.int64
        ).reshape(len(column))

    def _of_arrow(self, column: pa.Array, null: int, place: int) -> NDArray[np.int64]:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column, kind = column.dictionary_decode(), kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
            known, places = self.bytes if pa.types.is_binary(kind) else self.texts
            if known is None:
                unknown = np.full(len(column), self.absent, np.int64)
                texts = [(entry, at) for entry, at in self.places.items() if isinstance(entry, str)]
                return self.codes(np.array([*column.to_pylist(), None], object)[:-1], place) if texts else unknown
            # As bytes: no normal form of unicode is another one's, and nothing is cut off.
            at = pc.fill_null(pc.index_in(pc.cast(column, pa.binary()), value_set=known), len(known))
            codes = places[at.to_numpy(zero_copy_only=False)]
        elif pa.types.is_null(kind):
            codes = np.full(len(column), null, np.int64)
        else:
            codes = self._of_numbers(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
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
