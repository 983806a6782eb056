"""Arguments of a call: their number, the names in them, and the rows that name the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optimizer.errors import CerebroError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["CallError", "as_arrow", "chosen", "counted", "in_order", "rows_alike"]


class CallError(CerebroError, ValueError):
    """A SQL function was called with what it does not take; the message says which, and what there is."""


def counted(arguments: Sequence[pa.Array], function: str, usage: str, most: int) -> tuple[pa.Array, ...]:
    """Check how many arguments a call has, and fill those that are left out with nulls.

    Raises
    ------
    CallError
        There are none, or more than `most`.
    """
    if not 1 <= len(arguments) <= most:
        raise CallError(f"{function} must be called as {usage}, got {len(arguments)} arguments.")
    missing = [pa.nulls(len(arguments[0]))] * (most - len(arguments))
    return (*arguments, *missing)


def rows_alike(*columns: pa.Array) -> Iterator[tuple[tuple[Any, ...], NDArray[np.int64]]]:
    """Yield each combination of values, and the rows that have it; a query's literals make one of all rows."""
    if not len(columns[0]):
        return
    codes = [column.dictionary_encode(null_encoding="encode") for column in columns]
    keys = np.stack([code.indices.to_numpy(zero_copy_only=False) for code in codes])
    for key in np.unique(keys, axis=1).T:
        rows = np.flatnonzero((keys == key[:, None]).all(axis=0))
        yield tuple(code.dictionary[int(place)].as_py() for code, place in zip(codes, key, strict=True)), rows


def in_order(parts: Iterable[tuple[NDArray[np.int64], pa.Array]], kind: pa.DataType) -> pa.Array:
    """Put what was computed for some rows each back into the order of the rows."""
    rows, arrays = [], []
    for places, array in parts:
        rows.append(places)
        arrays.append(array)
    if not arrays:
        return pa.array([], kind)
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays).take(pa.array(np.argsort(np.concatenate(rows))))


def chosen(name: Any, among: Mapping[str, Any], function: str, what: str) -> Any:
    """Find what a call names; without a name the only one that is registered.

    Raises
    ------
    CallError
        No such name, or none where there are several.
    """
    known = ", ".join(repr(entry) for entry in among)
    if name is None:
        if len(among) == 1:
            return next(iter(among.values()))
        raise CallError(f"the first argument of {function} must name one of the registered {what}: {known}.")
    if name not in among:
        raise CallError(
            f"the first argument of {function} must be a registered {what} ({known}), got "
            f"{name!r}{nearest(str(name), among) or '.'}"
        )
    return among[name]


def as_arrow(values: Any) -> pa.Array:
    """Convert an argument as pandas has it, of Spark before 4.1, to what Arrow would have been given.

    Parameters
    ----------
    values : pandas.Series or pandas.DataFrame
        A DataFrame is a struct. Its nulls are gone: a struct with nothing but nulls in it counts as null.
    """
    if hasattr(values, "columns"):
        fields = [as_arrow(values[name]) for name in values.columns]
        absent = values.isna().all(axis=1).to_numpy(dtype=np.bool_)
        return pa.StructArray.from_arrays(fields, names=list(values.columns), mask=pa.array(absent))
    plain = [value.toArray() if hasattr(value, "toArray") else _plain(value) for value in values]
    return pa.array(plain, from_pandas=True)


def _plain(value: Any) -> Any:
    """Turn nested arrays of numpy into lists, which Arrow takes."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value] if value.dtype == object else value
    return value
