"""A program as one ONNX model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, checker, helper

import optimizer.compiling as ops
from udfs.compiling.onnx import _codes as codes
from udfs.compiling.onnx import _curves as curves
from udfs.compiling.onnx import _ensembles as ensembles
from udfs.compiling.onnx import _functions as functions
from udfs.compiling.onnx import _numbers as numbers
from udfs.compiling.onnx import _trees as trees
from udfs.compiling.onnx._graph import Graph, Table, wider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnx

    from optimizer.compiling import Node, Operator, Output, Program

__all__ = ["BAD_ROWS", "model_of"]

BAD_ROWS = "bad_rows"
"""The output that says which rows the model refuses."""

# Versions that today's runtimes and those of three years ago have.
_OPSET, _ML_OPSET = 18, 3
_TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "text": TensorProto.STRING,
}
_LOWERINGS: Mapping[type[Operator], Callable[..., Table]] = {
    **codes.LOWERINGS,
    **curves.LOWERINGS,
    **ensembles.LOWERINGS,
    **functions.LOWERINGS,
    **numbers.LOWERINGS,
    **trees.LOWERINGS,
}
_OF_WIDTH: Mapping[type[Operator], Callable[..., Table]] = {**curves.OF_WIDTH, **functions.OF_WIDTH}


def model_of(program: Program, dtype: str = "float64") -> onnx.ModelProto:
    """Write a program as an ONNX model.

    Parameters
    ----------
    program : Program
    dtype : {"float32", "float64"}
        Of the table that it takes. The program computes as it does for tables of that type.

    Returns
    -------
    onnx.ModelProto
        Its input is ``input`` of shape (rows, columns); with columns of texts, one input per column of shape (rows, 1).
        Its outputs have the names of the program's, with a number behind where the library gives a list of arrays;
        and ``bad_rows`` of shape (rows,) where the program refuses rows.

    Raises
    ------
    UnsupportedOperatorError
        An operator, or an option of one, has no exact ONNX form; the message names it.
    """
    graph = Graph()
    inputs, values = _inputs(graph, program, dtype)
    found: dict[str, Table] = {}  # leaves of each node of trees
    bad: list[Table] = []
    for node in program.nodes:
        if node.operator.host:
            continue
        tables = [values[name] for name in node.inputs]
        if isinstance(node.operator, ops.Trees):
            found[node.name] = trees.leaves_of(graph, node.operator, tables[0])
            values[node.name] = trees.sum_of(graph, node.operator, found[node.name])
        elif type(node.operator) in trees.LEAVES and node.inputs[0] in found:
            values[node.name] = trees.LEAVES[type(node.operator)](
                graph, node.operator, found[node.inputs[0]], *tables[1:]
            )
        else:
            values[node.name] = _lowered(graph, program, node, tables)
        bad += _bad(graph, node.operator, tables)
    kinds = {node.name: node.operator for node in program.nodes}
    outputs = [
        info
        for name, output in program.outputs.items()
        for info in _answers(
            graph, name, output, values[output.node], _shape(kinds.get(output.node), program.widths[output.node])
        )
    ]
    if bad:
        outputs.append(_bad_rows(graph, bad))
    return _model(graph, inputs, outputs)


def _inputs(graph: Graph, program: Program, dtype: str) -> tuple[list[onnx.ValueInfoProto], dict[str, Table]]:
    """Declare what the model is given, and make the program's table and codes of it."""
    if not program.host:
        info = helper.make_tensor_value_info(ops.INPUT, _TYPES[dtype], ["rows", program.width])
        return [info], {ops.INPUT: Table(ops.INPUT, dtype)}
    names = program.columns or tuple(f"column_{place}" for place in range(program.width))
    texts = {column for node in program.host for column in _columns_of(node)}
    both = texts & program.numeric
    if both:
        raise ops.UnsupportedOperatorError(f"column {names[min(both)]!r} is read as text and as numbers")
    used = sorted({*texts, *program.numeric})
    infos = [
        helper.make_tensor_value_info(names[n], _TYPES["text" if n in texts else dtype], ["rows", 1]) for n in used
    ]
    tables = {place: Table(names[place], "text" if place in texts else dtype) for place in used}
    values = {node.name: _codes_of(graph, node, tables) for node in program.host}
    if program.numeric:
        like = tables[min(program.numeric)]
        zero = graph.filled(like, np.zeros(1), dtype)
        parts = [tables[place] if place in program.numeric else zero for place in range(program.width)]
        values[ops.INPUT] = graph.join(*parts)
    else:
        # Nobody reads its numbers; a constant may look at its rows.
        values[ops.INPUT] = graph.cast(next(iter(values.values())), dtype)
    return infos, values


def _columns_of(node: Node) -> list[int]:
    if not isinstance(node.operator, ops.Encode):
        raise ops.UnsupportedOperatorError(
            f"{type(node.operator).__name__} has no ONNX form: tokenizers of ONNX split texts in another way"
        )
    for vocabulary in node.operator.vocabularies:
        odd = [value for value in vocabulary if not isinstance(value, str)]
        if odd:
            raise ops.UnsupportedOperatorError(
                f"Encode with the value {odd[0]!r} has no ONNX form: there a column of categories has texts alone"
            )
    return [int(column) for column in node.operator.columns]


def _codes_of(graph: Graph, node: Node, tables: Mapping[int, Table]) -> Table:
    operator = node.operator
    assert isinstance(operator, ops.Encode)  # noqa: S101 - _columns_of looked
    parts = []
    for column, vocabulary in zip(operator.columns.tolist(), operator.vocabularies, strict=True):
        parts.append(
            graph.add(
                "LabelEncoder",
                tables[column],
                dtype="int64",
                domain="ai.onnx.ml",
                keys_strings=list(vocabulary),
                values_int64s=list(range(len(vocabulary))),
                default_int64=len(vocabulary),
            )
        )
    return graph.join(*parts)


def _lowered(graph: Graph, program: Program, node: Node, tables: list[Table]) -> Table:
    kind = type(node.operator)
    if kind in _OF_WIDTH:
        return _OF_WIDTH[kind](graph, node.operator, *tables, program.widths[node.inputs[0]])
    if kind is ops.Choose:
        condition, yes, no = tables
        dtype = wider(yes.dtype, no.dtype)
        chosen = graph.add("Not", graph.compare("Equal", condition, 0))
        return graph.either(chosen, graph.cast(yes, dtype), graph.cast(no, dtype))
    if kind not in _LOWERINGS:
        raise ops.UnsupportedOperatorError(
            f"{kind.__name__} (node {node.name!r}) has no exact ONNX form: save the compiled pipeline instead"
        )
    return _LOWERINGS[kind](graph, node.operator, *tables)


def _bad(graph: Graph, rule: Operator, tables: list[Table]) -> list[Table]:
    """Tell which rows break the rule of an operator; of shape (rows,)."""
    if isinstance(rule, ops.Finite):
        seen = tables[0] if rule.dtype == "as given" else graph.cast(tables[0], rule.dtype)
        if seen.dtype == "int64":
            return []
        flags = [] if rule.nan else [graph.missing(seen)]
        if not rule.infinite:
            flags.append(graph.add("IsInf", seen, dtype="bool"))
        return [graph.any(flag) for flag in flags]
    if isinstance(rule, ops.Known):
        return [graph.any(graph.compare("GreaterOrEqual", tables[0], graph.constant(rule.sizes)))]
    if isinstance(rule, ops.Reject):
        return [graph.any(graph.add("Not", graph.compare("Equal", tables[1], 0)))]
    if isinstance(rule, ops.Within):
        wide = graph.cast(tables[0], "float64")
        sides = (("Less", rule.low), ("Greater", rule.high))
        return [graph.any(graph.compare(kind, wide, graph.constant(bound, "float64"))) for kind, bound in sides]
    return []


def _bad_rows(graph: Graph, flags: list[Table]) -> onnx.ValueInfoProto:
    total = flags[0]
    for flag in flags[1:]:
        total = graph.add("Or", total, flag)
    graph.nodes.append(helper.make_node("Identity", [total.name], [BAD_ROWS], name=BAD_ROWS))
    return helper.make_tensor_value_info(BAD_ROWS, TensorProto.BOOL, ["rows"])


def _shape(operator: Operator | None, width: int) -> list[int]:
    """Give what follows the axis of rows in an operator's result."""
    if isinstance(operator, ops.Leaves) and operator.columns:
        return [operator.trees // operator.columns, operator.columns]
    return [width]


def _answers(graph: Graph, name: str, output: Output, table: Table, shape: list[int]) -> list[onnx.ValueInfoProto]:
    """Give a result the shape, the type and the names of the library's."""
    if isinstance(output.labels, tuple):
        own = [_named(graph, labels, graph.columns(table, [column])) for column, labels in enumerate(output.labels)]
        if len({one.dtype for one in own}) > 1:
            raise ops.UnsupportedOperatorError(f"output {name!r} has texts in one column and numbers in another")
        table = graph.add("Concat", *own, axis=1)
    elif output.labels is not None:
        table = _named(graph, output.labels, table)
    if output.dtype is not None and table.dtype != "text":
        wanted = np.dtype(output.dtype)
        table = graph.cast(table, {"f4": "float32", "f8": "float64", "b1": "bool"}.get(wanted.str[1:], "int64"))
    if output.split is not None:
        ends = np.cumsum(output.split).tolist()
        parts = [graph.columns(table, np.arange(e - w, e)) for e, w in zip(ends, output.split, strict=True)]
        return [
            _answer(graph, f"{name}_{number}", part, [size])
            for number, (part, size) in enumerate(zip(parts, output.split, strict=True))
        ]
    if output.shape is not None:
        return [_answer(graph, name, table, list(output.shape))]
    return [_answer(graph, name, table, [] if output.flat else shape)]


def _named(graph: Graph, labels: object, places: Table) -> Table:
    values = np.asarray(labels)
    if values.dtype.kind == "O" and not all(isinstance(one, str) for one in values.tolist()):
        raise ops.UnsupportedOperatorError(f"classes {values.tolist()[:3]} of several types have no ONNX form")
    if values.dtype.kind in "iu":
        values = values.astype(np.int64)
    return graph.add("Gather", graph.constant(values), places, dtype=graph.constant(values).dtype)


def _answer(graph: Graph, name: str, table: Table, shape: list[int]) -> onnx.ValueInfoProto:
    # Of no row, -1 is no row too; zero is the rows that there are.
    wanted = graph.constant(np.array([0, *shape] if shape else [-1], np.int64))
    graph.nodes.append(helper.make_node("Reshape", [table.name, wanted.name], [name], name=name))
    return helper.make_tensor_value_info(name, _TYPES[table.dtype], ["rows", *shape])


def _model(graph: Graph, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    read = {name for node in graph.nodes for name in node.input}
    held = [constant for constant in graph.constants if constant.name in read]
    body = helper.make_graph(graph.nodes, "compiled pipeline", inputs, outputs, held)
    opsets = [helper.make_opsetid("", _OPSET)]
    if "ai.onnx.ml" in graph.domains:
        opsets.append(helper.make_opsetid("ai.onnx.ml", _ML_OPSET))
    model = helper.make_model(
        body, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets), producer_name="cerebro-spark"
    )
    checker.check_model(model, full_check=True)
    return model
