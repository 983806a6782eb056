"""Values of an ONNX graph during lowering: constants, and tables with one row per input row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["ORIGINAL", "Dimensions", "Graph", "Table", "Value", "attributes_of", "refuse"]

_FLOATS = {"float32", "float64"}
ORIGINAL = "Compile the model that the graph was converted from, or score the graph with ONNX Runtime."
"""Remedy for graphs that cannot be compiled."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A value with the rows leading.

    ``node`` has its numbers, a row flattened. ``shape`` is that of a row: ``()`` for an ONNX tensor of shape (N,),
    ``(C,)`` for one of shape (N, C). ``dtype`` is ``"float32"``, ``"float64"``, ``"int64"`` or ``"bool"``: whole
    numbers and truths are computed as floats. The numbers index ``labels``. ONNX has a ``turned`` value as (1, N), as
    ArrayFeatureExtractor gives it. ``texts`` are the columns of the input that hold texts, or maps, where it is such a
    table: it has no node.
    """

    node: str
    shape: tuple[int, ...]
    dtype: str
    labels: NDArray[Any] | None = None
    turned: bool = False
    texts: tuple[int, ...] | None = None

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The shape of a table, as the operator Shape gives it: rows that are not known, and a row's shape."""

    shape: tuple[int, ...]


Value = "Table | Dimensions | np.ndarray[Any, Any] | None"


def refuse(node: Any, option: str = "", reason: str = "") -> ops.UnsupportedOperatorError:
    """Return the error of an operator, or an option of one, that cannot be compiled."""
    domain = f"{node.domain}." if node.domain else ""
    named = f" ({node.name})" if node.name else ""
    detail = f" with {option}" if option else ""
    return refusal(f"ONNX {domain}{node.op_type}{named}{detail}", reason, ORIGINAL)


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of a node as numbers, texts, lists and arrays."""
    from onnx import helper, numpy_helper

    fields = {}
    for entry in node.attribute:
        value = helper.get_attribute_value(entry)
        if entry.type == entry.TENSOR:
            value = numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, list) and value and isinstance(value[0], bytes):
            value = [text.decode() for text in value]
        fields[entry.name] = value
    return fields


@dataclass(slots=True)
class Graph:
    """A graph that is being lowered.

    ``values`` are by ONNX's names, ``opsets`` the version of each domain.
    """

    build: ops.Builder
    values: dict[str, Any] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)

    def table(self, node: Any, value: Any, *, turned: bool = False, texts: bool = False) -> Table:
        """Check that a value is a table of numbers, or of texts if these may come.

        Raises
        ------
        UnsupportedOperatorError
            It is a constant, a shape or texts.
        """
        if not isinstance(value, Table):
            raise refuse(node, "a constant or a shape for a table")
        if value.labels is not None or (value.texts is not None and not texts):
            raise refuse(node, "texts")
        if value.turned and not turned:
            raise refuse(node, "the one row of ArrayFeatureExtractor")
        return value

    def add(self, operator: ops.Operator, *tables: Table, like: Table | None = None, **changes: Any) -> Table:
        """Add an operator; the result is like the first table except for the changes."""
        name = self.build.add(operator, *(table.node for table in tables))
        return replace(like or tables[0], node=name, **changes)

    def constant(self, row: Any, like: Table) -> Table:
        """Convert a constant row to a table."""
        array = np.asarray(row)
        kind = "bool" if array.dtype == bool else "int64" if array.dtype.kind in "iu" else array.dtype.name
        if kind not in {"bool", "int64", *_FLOATS}:
            raise refusal(f"ONNX constant of type {array.dtype}", remedy=ORIGINAL)
        flat = array.reshape(-1).astype(array.dtype if kind in _FLOATS else np.float64)
        return Table(self.build.add(ops.Constant(flat), like.node), array.shape, kind)

    def take(self, table: Table, places: NDArray[np.int64]) -> Table:
        """Choose numbers of a row by their places; the result has the places' shape."""
        places = np.asarray(places, np.int64)
        if table.texts is not None:
            chosen = tuple(table.texts[place] for place in places.reshape(-1).tolist())
            return replace(table, shape=places.shape, texts=chosen)
        if np.array_equal(places.reshape(-1), np.arange(table.width)):
            return replace(table, shape=places.shape)
        return self.add(ops.Select(places.reshape(-1).copy()), table, shape=places.shape)

    def places(self, table: Table) -> NDArray[np.int64]:
        """Return the indices of the numbers of a row, in the shape of a tensor of one row."""
        return np.arange(table.width).reshape(1, *table.shape)

    def widened(self, node: Any, *values: Any) -> list[Table]:
        """Broadcast tables and constants to one shape, as ONNX does.

        Raises
        ------
        UnsupportedOperatorError
            Rows would meet other rows.
        """
        tables = [value for value in values if isinstance(value, Table)]
        if not tables:
            raise refuse(node, "constants and shapes alone")
        tables = [self.table(node, table) for table in tables]
        rank = max(len(table.shape) for table in tables)
        shapes = []
        for value in values:
            if isinstance(value, Table):
                if len(value.shape) != rank:
                    raise refuse(node, f"tables of shapes {[table.shape for table in tables]}")
                shapes.append(value.shape)
                continue
            array = np.asarray(value)
            if array.ndim > rank + 1 or (array.ndim == rank + 1 and array.shape[0] != 1):
                raise refuse(node, f"a constant of shape {array.shape} and rows of shape {tables[0].shape}")
            shapes.append(array.shape[1:] if array.ndim == rank + 1 else array.shape)
        shape = np.broadcast_shapes(*shapes)
        if len(shape) > rank:
            raise refuse(node, f"shapes {shapes}")
        results = []
        for value, flat in zip(values, shapes, strict=True):
            if isinstance(value, Table):
                places = np.broadcast_to(np.arange(value.width).reshape(flat), shape)
                results.append(self.take(value, places))
            else:
                row = np.broadcast_to(np.asarray(value).reshape(flat), shape)
                results.append(self.constant(row, tables[0]))
        return results

    def combine(self, node: Any, kind: str, left: Any, right: Any, dtype: str | None = None) -> Table:
        """Combine two values number by number."""
        x, y = self.widened(node, left, right)
        if x.dtype != y.dtype:
            raise refuse(node, f"types {x.dtype} and {y.dtype}")
        return self.add(ops.Combine(kind), x, y, dtype=dtype or x.dtype)

    def cast(self, table: Table, dtype: str) -> Table:
        """Change the type between floats, or from whole numbers and truths to floats."""
        return self.add(ops.Cast(dtype), table, dtype=dtype)
