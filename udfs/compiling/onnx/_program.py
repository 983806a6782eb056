"""ONNX model of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import helper

import optimizer.compiling as ops
from udfs.compiling.onnx._graph import TYPES, Graph, Table
from udfs.compiling.onnx._lowering import lower, shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from optimizer.compiling import Node, Output, Program

__all__ = ["BAD_ROWS", "model_of"]

BAD_ROWS = "bad_rows"
"""Name of the output with the refused rows."""


def model_of(program: Program, dtype: str = "float64") -> onnx.ModelProto:
    """Write a program as an ONNX model.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Type of the input table. Default ``"float64"``.

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
    bad = lower(graph, program, values)
    kinds = {node.name: node.operator for node in program.nodes}
    outputs = [
        info
        for name, output in program.outputs.items()
        for info in _answers(
            graph, name, output, values[output.node], shape_of(kinds.get(output.node), program.widths[output.node])
        )
    ]
    if bad:
        outputs.append(graph.result(BAD_ROWS, graph.or_(*bad.values())))
    return graph.model(inputs, outputs)


def _inputs(graph: Graph, program: Program, dtype: str) -> tuple[list[onnx.ValueInfoProto], dict[str, Table]]:
    """Declare what the model is given, and make the program's table and codes of it."""
    if not program.host:
        info = helper.make_tensor_value_info(ops.INPUT, TYPES[dtype], ["rows", program.width])
        return [info], {ops.INPUT: Table(ops.INPUT, dtype)}
    names = program.columns or tuple(f"column_{place}" for place in range(program.width))
    texts = {column for node in program.host for column in _columns_of(node)}
    both = texts & program.numeric
    if both:
        raise ops.UnsupportedOperatorError(f"column {names[min(both)]!r} is read as text and as numbers")
    used = sorted({*texts, *program.numeric})
    infos = [helper.make_tensor_value_info(names[n], TYPES["text" if n in texts else dtype], ["rows", 1]) for n in used]
    tables = {place: Table(names[place], "text" if place in texts else dtype) for place in used}
    values = {node.name: _codes_of(graph, node, tables) for node in program.host}
    if program.numeric:
        like = tables[min(program.numeric)]
        zero = graph.filled(like, np.zeros(1), dtype)
        parts = [tables[place] if place in program.numeric else zero for place in range(program.width)]
        values[ops.INPUT] = graph.join(*parts)
    else:
        # No operator reads its numbers, but a constant may read its number of rows.
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
    assert isinstance(operator, ops.Encode)  # _columns_of looked
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


def _answers(graph: Graph, name: str, output: Output, table: Table, shape: list[int]) -> list[onnx.ValueInfoProto]:
    """Convert a result to the shape, the type and the labels of the library's."""
    if isinstance(output.labels, tuple):
        named = [_named(graph, labels, graph.columns(table, [column])) for column, labels in enumerate(output.labels)]
        if len({column_table.dtype for column_table in named}) > 1:
            raise ops.UnsupportedOperatorError(f"output {name!r} has texts in one column and numbers in another")
        table = graph.add("Concat", *named, axis=1)
    elif output.labels is not None:
        table = _named(graph, output.labels, table)
    if output.dtype is not None and table.dtype != "text":
        wanted = np.dtype(output.dtype)
        table = graph.cast(table, {"f4": "float32", "f8": "float64", "b1": "bool"}.get(wanted.str[1:], "int64"))
    if output.split is not None:
        ends = np.cumsum(output.split).tolist()
        parts = [graph.columns(table, np.arange(e - w, e)) for e, w in zip(ends, output.split, strict=True)]
        return [
            graph.result(f"{name}_{number}", part, [size])
            for number, (part, size) in enumerate(zip(parts, output.split, strict=True))
        ]
    if output.shape is not None:
        return [graph.result(name, table, list(output.shape))]
    return [graph.result(name, table, [] if output.flat else shape)]


def _named(graph: Graph, labels: object, places: Table) -> Table:
    values = np.asarray(labels)
    if values.dtype.kind == "O" and not all(isinstance(label, str) for label in values.tolist()):
        raise ops.UnsupportedOperatorError(f"classes {values.tolist()[:3]} of several types have no ONNX form")
    if values.dtype.kind in "iu":
        values = values.astype(np.int64)
    return graph.add("Gather", graph.constant(values), places, dtype=graph.constant(values).dtype)
