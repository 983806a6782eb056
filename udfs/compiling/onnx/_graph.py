"""Builder of an ONNX graph whose tables have types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import onnx

__all__ = ["TYPES", "Graph", "Table", "wider"]

# Versions that today's runtimes and those of three years ago have.
_OPSET, _ML_OPSET = 18, 3
TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "text": TensorProto.STRING,
}
"""Types of ONNX, by name."""


@dataclass(frozen=True, slots=True)
class Table:
    """A tensor of the graph with the rows leading."""

    name: str  # name in the graph
    dtype: str  # type of its entries; one of "float32", "float64", "int64", "bool", "text"


def wider(*dtypes: str) -> str:
    """Return the type in which torch computes with tables of these types."""
    order = ("bool", "int64", "float32", "float64")
    return order[max(order.index(dtype) for dtype in dtypes)]


class Graph:
    """Graph of nodes and constants, each constant once."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.domains: set[str] = set()
        self._known: dict[tuple[str, tuple[int, ...], bytes], Table] = {}
        self._count = 0

    def add(self, kind: str, *tables: Table, dtype: str | None = None, domain: str = "", **attributes: Any) -> Table:
        """Add a node with one result, in the type of its first input unless another is given."""
        self._count += 1
        name = f"{kind.lower()}_{self._count}"
        inputs = [table.name for table in tables]
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes))
        self.domains.add(domain)
        return Table(name, dtype or tables[0].dtype)

    def constant(self, values: Any, dtype: str | None = None) -> Table:
        """Add a constant, rounded to a type as torch rounds a number that meets a table."""
        array = np.asarray(values)
        if array.dtype.kind in "UO":
            array = array.astype(object)
            key = ("text", array.shape, "\0".join(map(str, array.reshape(-1))).encode("utf-8", "surrogatepass"))
        else:
            with np.errstate(over="ignore"):  # a bound beyond float32 is infinite there
                array = np.ascontiguousarray(array, dtype).reshape(array.shape)
            key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            name = f"constant_{len(self.constants) + 1}"
            self.constants.append(numpy_helper.from_array(array, name))
            self._known[key] = Table(name, key[0])
        return self._known[key]

    def cast(self, table: Table, dtype: str) -> Table:
        """Change the type, where it is another."""
        return table if table.dtype == dtype else self.add("Cast", table, dtype=dtype, to=TYPES[dtype])

    def compare(self, kind: str, left: Table, right: Table | float) -> Table:
        """Compare by ``Greater``, ``Less``, ``Equal`` and their like; a number is rounded to the table's type first."""
        other = right if isinstance(right, Table) else self.constant(right, left.dtype)
        return self.add(kind, left, other, dtype="bool")

    def either(self, condition: Table, yes: Table, no: Table) -> Table:
        """Choose number by number."""
        return self.add("Where", condition, yes, no, dtype=yes.dtype)

    def missing(self, table: Table) -> Table:
        """Return flags of NaN."""
        return self.add("IsNaN", table, dtype="bool")

    def any(self, flags: Table) -> Table:
        """Return whether any flag of each row is set, of shape (rows,)."""
        axes = self.constant(np.array([1]))
        counted = self.add("ReduceSum", self.cast(flags, "int64"), axes, keepdims=0)
        return self.compare("Greater", counted, 0)

    def or_(self, *flags: Table) -> Table:
        """Combine tables of flags by a logical or."""
        total = flags[0]
        for flag in flags[1:]:
            total = self.add("Or", total, flag)
        return total

    def reduce(self, kind: str, table: Table, axis: int = 1, *, keep: bool = True) -> Table:
        """Reduce an axis."""
        return self.add(kind, table, self.constant(np.array([axis])), keepdims=int(keep))

    def greatest(self, table: Table, axis: int = 1) -> Table:
        """Find the greatest of an axis, which stays; NaN where there is one. Runtimes differ there."""
        holes = self.missing(table)
        filled = self.either(holes, self.constant(-np.inf, table.dtype), table)
        counts = self.reduce("ReduceSum", self.cast(holes, "int64"), axis)
        best = self.reduce("ReduceMax", filled, axis)
        return self.either(self.compare("Greater", counts, 0), self.constant(np.nan, table.dtype), best)

    def columns(self, table: Table, places: Any) -> Table:
        """Gather columns."""
        return self.add("Gather", table, self.constant(np.asarray(places, np.int64)), axis=1)

    def filled(self, like: Table, row: Any, dtype: str | None = None) -> Table:
        """Repeat a row of numbers for each row of a table."""
        values = np.asarray(row)
        rows = self.add(
            "Slice", self.add("Shape", like, dtype="int64"), *(self.constant(np.array([n])) for n in (0, 1))
        )
        shape = self.add("Concat", rows, self.constant(np.array(values.shape, np.int64)), axis=0)
        return self.add("Expand", self.constant(values, dtype), shape)

    def shaped(self, table: Table, *shape: int) -> Table:
        """Reshape what follows the axis of rows."""
        return self.add("Reshape", table, self.constant(np.array([0, *shape], np.int64)))

    def join(self, *tables: Table) -> Table:
        """Put columns side by side, in the widest of their types."""
        if len(tables) == 1:
            return tables[0]
        dtype = wider(*(table.dtype for table in tables))
        return self.add("Concat", *(self.cast(table, dtype) for table in tables), axis=1)

    def running_sum(self, table: Table) -> Table:
        """Add the first axis behind the rows in order, and give the last sum: the order says what the bits are."""
        sums = self.add("CumSum", table, self.constant(np.array(1)))
        return self.add("Gather", sums, self.constant(np.array(-1)), axis=1)

    def sorted(self, table: Table, width: int) -> tuple[Table, Table]:
        """Sort each row, the least first; and the places that its numbers had."""
        self._count += 1
        names = [f"sorted_{self._count}", f"order_{self._count}"]
        count = self.constant(np.array([width]))
        self.nodes.append(helper.make_node("TopK", [table.name, count.name], names, axis=1, largest=0, sorted=1))
        return Table(names[0], table.dtype), Table(names[1], "int64")

    def result(self, name: str, table: Table, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
        """Declare a table as a result of the model, with the shape behind the axis of rows."""
        if shape is None:
            self.nodes.append(helper.make_node("Identity", [table.name], [name], name=name))
            return helper.make_tensor_value_info(name, TYPES[table.dtype], ["rows"])
        # Of no row, -1 is no row too; zero is the rows that there are.
        wanted = self.constant(np.array([0, *shape] if shape else [-1], np.int64))
        self.nodes.append(helper.make_node("Reshape", [table.name, wanted.name], [name], name=name))
        return helper.make_tensor_value_info(name, TYPES[table.dtype], ["rows", *shape])

    def model(self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
        """Make the model, and check it."""
        read = {name for node in self.nodes for name in node.input}
        initializers = [constant for constant in self.constants if constant.name in read]
        body = helper.make_graph(self.nodes, "compiled pipeline", inputs, outputs, initializers)
        opsets = [helper.make_opsetid("", _OPSET)]
        if "ai.onnx.ml" in self.domains:
            opsets.append(helper.make_opsetid("ai.onnx.ml", _ML_OPSET))
        model = helper.make_model(
            body, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets), producer_name="cerebro-spark"
        )
        checker.check_model(model, full_check=True)
        return model
