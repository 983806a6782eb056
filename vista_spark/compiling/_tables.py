"""Tables that users pass to a compiled pipeline: arrays, lists, DataFrames of pandas and Arrow tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optimizer.compiling import Ufunc, readings
from udfs.compiling import Tables, is_number, read_numbers
from vista_spark.compiling._integers import check_integers, narrows_integers, spelled
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from optimizer.compiling import Program, Reading

__all__ = ["TableReader", "check_columns"]

_ARROW = (pa.Table, pa.RecordBatch)
_HALF = np.dtype(np.float16)


class TableReader:
    """Reader of tables for one program.

    Parameters
    ----------
    program : Program
        Program as it was compiled.
    read : callable
        Reader of a sequence of numpy arrays or Arrow arrays, one per column of the program.
    """

    def __init__(self, program: Program, read: Callable[[Sequence[Any]], Tables]) -> None:
        self._program, self._read = program, read

    def read(self, table: Any) -> Tables:
        """Convert a table to float32 or float64, in the model's order of columns, and its texts to codes.

        Raises
        ------
        ColumnError
            A column that a step reads is missing or of another kind, or the number of columns is wrong.
        """
        if type(table) is np.ndarray:
            rows = table
        elif isinstance(table, _ARROW):
            return self._of_arrow(table)
        elif hasattr(table, "iloc") and getattr(table, "ndim", 0) == 2:
            return self._of_frame(table)
        else:
            rows = self._rows(table)
        if len(rows.shape) == 1 and self._program.width == 1:
            rows = np.asarray(rows)[:, None]  # labels, and texts
        if rows.ndim != 2 or rows.shape[1] != self._program.width:
            raise ColumnError(f"X must have the shape (rows, {self._program.width}), got {rows.shape}.")
        if self._narrows is not None:
            check_integers(rows, self._narrows)
        if rows.dtype.kind in "biuf" and not self._program.host:
            return Tables(read_numbers(rows), ())
        return self._read(list(rows.T))

    def columns_in(self, names: Iterable[Any]) -> list[str] | None:
        """Return the columns of a table that the program has, in its order; ``None`` for a model without names."""
        if self._program.columns is None:
            return None
        spellings = spelled(self._program.columns, names) if self._narrows is not None else {}
        return [spellings.get(name, name) for name in self._program.columns]

    def may_be_narrow(self, table: Any) -> bool:
        """Return whether types of columns may matter beyond their values."""
        # Comparing dtypes is faster than formatting one on every call.
        return self._has_functions or getattr(table, "dtype", None) == _HALF

    def dtypes(self, table: Any) -> list[Any]:
        """Return the type of numpy of each column, in the model's order; ``None`` for columns of other types."""
        if isinstance(table, _ARROW):
            places = self._places(table.column_names)
            return [None if at is None else _dtype_of(table.schema.field(at).type) for at in places]
        if hasattr(table, "iloc") and getattr(table, "ndim", 0) == 2:
            kinds = [getattr(kind, "numpy_dtype", kind) for kind in table.dtypes]
            kinds = [kind if isinstance(kind, np.dtype) else None for kind in kinds]
            return [None if at is None else kinds[at] for at in self._places(list(table.columns))]
        return [getattr(table, "dtype", None)] * self._program.width

    @cached_property
    def needed(self) -> frozenset[int]:
        """Columns that a step reads; the others may be absent from tables with names."""
        return self._program.numeric | self._program.categories.keys()

    @cached_property
    def _narrows(self) -> str | None:
        return narrows_integers(self._program)

    @cached_property
    def _readings(self) -> list[Reading]:
        return readings(self._program)

    @cached_property
    def _has_functions(self) -> bool:
        return any(isinstance(node.operator, Ufunc) for node in self._program.nodes)

    @cached_property
    def _only_numbers(self) -> bool:
        return not self._program.host and len(self._program.numeric) == self._program.width

    def _rows(self, table: Any) -> Any:
        """Convert an array or a list to an array."""
        if hasattr(table, "nnz"):
            # An absent entry is not always zero: XGBoost reads it as missing, and QuantileTransformer skips it.
            raise ColumnError(f"X must be a dense table, got a {type(table).__name__}. Pass X.toarray().")
        if hasattr(table, "dtype"):
            return np.asarray(table)
        kinds = self._program.categories.get(0, frozenset()) if self._program.width == 1 else frozenset()
        if kinds & {list, dict}:
            table = [table] if isinstance(table, dict) else list(table)
            return np.array([*table, None], object)[:-1]  # a column of lists, of whatever length
        if isinstance(table, list | tuple) and table and isinstance(table[0], str | bytes):
            return np.array([*table, None], object)[:-1]  # as they are, however long one of them is
        try:
            rows = np.asarray(table)
        except ValueError as error:
            raise ColumnError(f"X must have rows of one length that hold numbers or texts, got {error}") from error
        return np.asarray(table, object) if rows.dtype.kind == "U" else rows  # numbers would become texts

    def _places(self, columns: Sequence[Any]) -> list[int | None]:
        """Return the place of each column of the program in a table; ``None`` for one that is absent and not read."""
        names = self.columns_in(columns)
        if names is None:
            if len(columns) != self._program.width:
                raise ColumnError(f"X must have {self._program.width} columns, got {len(columns)}.")
            return list(range(len(columns)))
        check_columns(names, columns, self.needed)
        places = {name: place for place, name in enumerate(columns)}
        return [places.get(name) for name in names]

    def _of_frame(self, frame: Any) -> Tables:
        """Convert the columns of a DataFrame, each by its own type."""
        places = self._places(list(frame.columns))
        kinds = list(frame.dtypes)
        if self._only_numbers and all(_is_plain(kind) for kind in kinds):
            in_order = places == list(range(len(kinds)))
            return Tables(read_numbers(np.asarray(frame if in_order else frame.iloc[:, places])), ())
        for column, library, at in self._by_dtype(places):
            kind = kinds[at]
            if not (_is_plain(kind) or _is_nullable(kind) or _is_coded(kind, library)):
                raise _wrong_dtype(column, kind, library)
        return self._read([_absent(len(frame)) if at is None else _values(frame.iloc[:, at]) for at in places])

    def _of_arrow(self, table: pa.Table | pa.RecordBatch) -> Tables:
        places = self._places(table.column_names)
        for column, library, at in self._by_dtype(places):
            kind = table.schema.field(at).type
            if not (is_number(kind) or pa.types.is_null(kind)):
                raise _wrong_dtype(column, kind, library)
        return self._read([_absent(table.num_rows) if at is None else table.column(at) for at in places])

    def _by_dtype(self, places: Sequence[int | None]) -> Iterator[tuple[str, str, int]]:
        """Yield name, library and place of each column that a library takes by its dtype."""
        for column, (place, reading) in enumerate(zip(places, self._readings, strict=True)):
            if place is not None and reading.by_dtype is not None and column in self._program.numeric:
                name = column if self._program.columns is None else self._program.columns[column]
                yield f"column {name!r}", reading.by_dtype, place


def _wrong_dtype(column: str, kind: Any, library: str) -> ColumnError:
    return ColumnError(f"{column} must have a dtype of numbers for {library}, got {kind}. Convert it to floats.")


def check_columns(names: Sequence[Any], columns: Sequence[Any], needed: frozenset[int]) -> None:
    """Validate that a table has the columns that a program reads, each once.

    Raises
    ------
    ColumnError
        A column is missing, or there twice.
    """
    missing = [name for place, name in enumerate(names) if place in needed and name not in columns]
    if missing:
        raise ColumnError(f"X must have the columns that the model reads, got none of {missing}.")
    twice = [name for place, name in enumerate(names) if place in needed and columns.count(name) > 1]
    if twice:
        raise ColumnError(f"X must have each column once, got {twice} several times.")


def _dtype_of(kind: pa.DataType) -> Any:
    return np.dtype(kind.to_pandas_dtype()) if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None


def _is_plain(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and kind.kind in "biuf" and kind != np.longdouble


def _is_nullable(kind: Any) -> bool:
    return not isinstance(kind, np.dtype) and kind.kind in "biuf" and not hasattr(kind, "categories")


def _is_coded(kind: Any, library: str) -> bool:
    """Return whether a categorical of pandas means its numbers: LightGBM looks them up, XGBoost takes their places."""
    if not hasattr(kind, "categories") or kind.categories is None or kind.categories.dtype.kind not in "iu":
        return False
    return library == "LightGBM" or kind.categories.tolist() == list(range(len(kind.categories)))


def _absent(rows: int) -> Any:
    """Return a column that no step reads."""
    return np.zeros(rows, np.float32)


def _values(column: Any) -> Any:
    """Return the values of a column of a DataFrame; a missing nullable number becomes NaN."""
    kind = column.dtype
    if not _is_nullable(kind) or not column.isna().any():
        return np.asarray(column)
    return column.to_numpy(np.float32 if kind.kind == "f" and kind.itemsize == 4 else np.float64, na_value=np.nan)
