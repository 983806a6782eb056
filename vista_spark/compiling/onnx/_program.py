"""Programs of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import EXAMPLE, refusal
from vista_spark.compiling.onnx._graph import ORIGINAL, Graph, Table, attributes_of, refuse
from vista_spark.compiling.onnx._nodes import lower_node
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["program_of"]

_ROWS_AND_COLUMNS = 2


def program_of(model: Any, example: Any = None) -> ops.Program:
    """Lower an ONNX model.

    Its inputs are columns of one table, one after the other. A result that is a class becomes ``predict``, and scores
    beside it ``predict_proba``, or ``decision_function`` if "prob" is not part of their name. A single result is
    ``predict`` if it has one column or comes from a regressor, else ``transform``. ``example`` is a table for an input
    of unknown width.

    Raises
    ------
    UnsupportedOperatorError
        An operator, or an option of one, cannot be compiled.
    InvalidArgumentError
        The bytes are no ONNX model.
    """
    import onnx
    from onnx import numpy_helper

    if isinstance(model, bytes | str | Path):
        model = _read(model)
    proto = model.graph
    constants = {entry.name: numpy_helper.to_array(entry) for entry in proto.initializer}
    inputs = [entry for entry in proto.input if entry.name not in constants]
    widths = [_width(entry, len(inputs), example) for entry in inputs]
    texts = any(entry.type.tensor_type.elem_type == onnx.TensorProto.STRING for entry in inputs)
    single = all(width == 1 for width in widths) and (len(inputs) > 1 or texts)
    names = [entry.name for entry in inputs] if single else None
    graph = Graph(ops.Builder(sum(widths), names), dict(constants))
    graph.opsets = {entry.domain: entry.version for entry in model.opset_import}
    start = 0
    for entry, width in zip(inputs, widths, strict=True):
        graph.values[entry.name] = _input(graph, entry, start, width, sum(widths))
        start += width
    for node in proto.node:
        _lower(graph, node)
    results = [(entry.name, graph.values[entry.name]) for entry in proto.output]
    regresses = any(node.op_type.endswith("Regressor") for node in proto.node)
    try:
        return graph.build.program(_outputs(graph, results, regresses=regresses))
    except ops.ProgramError as error:
        raise refusal("ONNX model", str(error), ORIGINAL) from error


def _read(model: bytes | str | Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))
    except DecodeError as error:
        raise InvalidArgumentError(f"model must be an ONNX model, got other bytes ({error}).") from error


def _width(entry: Any, count: int, example: Any) -> int:
    shape = entry.type.tensor_type.shape.dim
    if not entry.type.HasField("tensor_type") or len(shape) not in {1, _ROWS_AND_COLUMNS}:
        raise refusal(f"ONNX input {entry.name!r}", "it is no tensor of rows and columns", ORIGINAL)
    if len(shape) == 1:
        return 1
    if shape[1].dim_value:
        return int(shape[1].dim_value)
    if example is not None and count == 1:
        return int(np.shape(example)[1])
    raise refusal(f"ONNX input {entry.name!r}", "its number of columns is unknown", EXAMPLE)


def _input(graph: Graph, entry: Any, start: int, width: int, total: int) -> Table:
    from onnx import TensorProto

    kinds = {
        TensorProto.FLOAT: "float32",
        TensorProto.DOUBLE: "float64",
        TensorProto.INT64: "int64",
        TensorProto.INT32: "int64",
        TensorProto.BOOL: "bool",
    }
    code = entry.type.tensor_type.elem_type
    if code == TensorProto.STRING:
        shape = () if len(entry.type.tensor_type.shape.dim) == 1 else (width,)
        return Table("", shape, "string", texts=tuple(range(start, start + width)))
    if code not in kinds:
        raise refusal(f"ONNX input {entry.name!r} of type {TensorProto.DataType.Name(code)}", remedy=ORIGINAL)
    kind = kinds[code]
    node = ops.INPUT if width == total else graph.build.add(ops.Select(np.arange(start, start + width)), ops.INPUT)
    flat = len(entry.type.tensor_type.shape.dim) == 1
    table = Table(node, () if flat else (width,), kind)
    table = graph.cast(table, kind if kind.startswith("float") else "float64")
    return Table(table.node, table.shape, kind)


def _lower(graph: Graph, node: Any) -> None:
    inputs = [graph.values[name] if name else None for name in node.input]
    attributes = attributes_of(node)
    if all(value is None or isinstance(value, np.ndarray) for value in inputs):
        results = _folded(graph, node, inputs)
    else:
        try:
            result = lower_node(graph, node, inputs, attributes)
        except ops.ProgramError as error:
            raise refuse(node, reason=str(error)) from error
        results = result if isinstance(result, list) else [result]
    graph.values.update(zip((name for name in node.output), results, strict=False))


def _folded(graph: Graph, node: Any, inputs: list[Any]) -> list[Any]:
    """Compute a node of constants."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
    types = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    made = [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in node.output if name]
    opsets = [helper.make_opsetid(domain, version) for domain, version in graph.opsets.items()]
    model = helper.make_model(helper.make_graph([node], "constant", types, made), opset_imports=opsets)
    try:
        return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]
    except (NotImplementedError, RuntimeError) as error:
        raise refuse(node, "constant inputs", str(error)) from error


def _outputs(graph: Graph, results: list[tuple[str, Any]], *, regresses: bool) -> Mapping[str, ops.Output]:
    for name, value in results:
        if not isinstance(value, Table) or value.texts is not None:
            raise refusal(f"ONNX output {name!r}", "it is a constant, a shape or texts of the input", ORIGINAL)
    table = results[0][1]
    if table.labels is not None or table.dtype == "int64":
        outputs = {"predict": _classes(graph, table)}
        for name, scores in results[1:2]:
            method = "predict_proba" if "prob" in name else "decision_function"
            outputs[method] = _output(scores, flat=not scores.shape)
        return outputs
    method = "predict" if regresses or table.width == 1 else "transform"
    return {method: _output(table, flat=table.width == 1 and method == "predict")}


def _classes(graph: Graph, table: Table) -> ops.Output:
    places = graph.build.add(ops.Cast("int64"), table.node)
    return ops.Output(places, flat=table.width == 1, labels=table.labels)


def _output(table: Table, *, flat: bool) -> ops.Output:
    flat = flat and table.width == 1
    return ops.Output(table.node, flat=flat)
