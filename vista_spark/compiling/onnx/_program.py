"""Programs of ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    INPUT,
    Builder,
    Cast,
    Output,
    Program,
    ProgramError,
    Select,
    UnsupportedOperatorError,
)
from vista_spark.compiling.onnx._graph import Graph, Table, attributes_of, refuse
from vista_spark.compiling.onnx._nodes import lower_node
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["opened", "program_of"]

_ROWS_AND_COLUMNS = 2


def opened(model: bytes | str | Path) -> Any:
    """Read an ONNX model from bytes or a file.

    Raises
    ------
    InvalidArgumentError
        The bytes are no ONNX model.
    """
    import onnx  # an optional package
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # of onnx

    try:
        return onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))
    except DecodeError as error:
        raise InvalidArgumentError(f"not an ONNX model: {error}") from error


def program_of(model: Any, example: Any = None) -> Program:
    """Lower an ONNX model.

    Its inputs are columns of one table, one after the other. A result that is a class becomes ``predict``; scores
    beside it ``predict_proba``, or ``decision_function`` where their name says nothing of probabilities. A result alone
    is ``predict`` if it has one column or comes from a regressor, else ``transform``.

    Parameters
    ----------
    model : onnx.ModelProto
    example : array of shape (rows, columns), optional
        Needed if the one input does not say how many columns it has.

    Raises
    ------
    UnsupportedOperatorError
        An operator, or an option of one, has no translation.
    """
    import onnx  # an optional package
    from onnx import numpy_helper

    proto = model.graph
    constants = {one.name: numpy_helper.to_array(one) for one in proto.initializer}
    inputs = [one for one in proto.input if one.name not in constants]
    widths = [_width(one, len(inputs), example) for one in inputs]
    texts = any(one.type.tensor_type.elem_type == onnx.TensorProto.STRING for one in inputs)
    single = all(width == 1 for width in widths) and (len(inputs) > 1 or texts)
    names = [one.name for one in inputs] if single else None
    graph = Graph(Builder(sum(widths), names), dict(constants))
    graph.opsets = {one.domain: one.version for one in model.opset_import}
    start = 0
    for one, width in zip(inputs, widths, strict=True):
        graph.values[one.name] = _input(graph, one, start, width, sum(widths))
        start += width
    for node in proto.node:
        _lower(graph, node)
    results = [(one.name, graph.values[one.name]) for one in proto.output]
    regresses = any(node.op_type.endswith("Regressor") for node in proto.node)
    try:
        return graph.build.program(_outputs(graph, results, regresses=regresses))
    except ProgramError as error:
        raise UnsupportedOperatorError(f"ONNX model: {error}") from error


def _width(one: Any, count: int, example: Any) -> int:
    if one.type.HasField("map_type"):
        return 1
    shape = one.type.tensor_type.shape.dim
    if not one.type.HasField("tensor_type") or len(shape) not in {1, _ROWS_AND_COLUMNS}:
        raise UnsupportedOperatorError(f"ONNX input {one.name!r} is no tensor of rows and columns")
    if len(shape) == 1:
        return 1
    if shape[1].dim_value:
        return int(shape[1].dim_value)
    if example is not None and count == 1:
        return int(np.shape(example)[1])
    raise UnsupportedOperatorError(
        f"ONNX input {one.name!r} does not say how many columns it has: give example=, a row, if it is the only input"
    )


def _input(graph: Graph, one: Any, start: int, width: int, total: int) -> Table:
    from onnx import TensorProto  # an optional package

    kinds = {
        TensorProto.FLOAT: "float32",
        TensorProto.DOUBLE: "float64",
        TensorProto.INT64: "int64",
        TensorProto.INT32: "int64",
        TensorProto.BOOL: "bool",
    }
    code = one.type.tensor_type.elem_type
    if one.type.HasField("map_type"):
        held = one.type.map_type
        kind = kinds.get(held.value_type.tensor_type.elem_type, "")
        if held.key_type != TensorProto.STRING or not kind:
            raise UnsupportedOperatorError(f"ONNX input {one.name!r} is a map of other things than texts to numbers")
        return Table("", (), "float32" if kind == "float32" else "float64", texts=(start,))
    if code == TensorProto.STRING:
        shape = () if len(one.type.tensor_type.shape.dim) == 1 else (width,)
        return Table("", shape, "string", texts=tuple(range(start, start + width)))
    if code not in kinds:
        raise UnsupportedOperatorError(f"ONNX input {one.name!r} of type {TensorProto.DataType.Name(code)}")
    kind = kinds[code]
    node = INPUT if width == total else graph.build.add(Select(np.arange(start, start + width)), INPUT)
    flat = len(one.type.tensor_type.shape.dim) == 1
    table = Table(node, () if flat else (width,), kind)
    table = graph.cast(table, kind if kind.startswith("float") else "float64")
    return Table(table.node, table.shape, kind)


def _lower(graph: Graph, node: Any) -> None:
    given = [graph.values[name] if name else None for name in node.input]
    attributes = attributes_of(node)
    if all(one is None or isinstance(one, np.ndarray) for one in given):
        results = _folded(graph, node, given)
    else:
        try:
            found = lower_node(graph, node, given, attributes)
        except ProgramError as error:
            raise refuse(node, str(error)) from error
        results = found if isinstance(found, list) else [found]
    graph.values.update(zip((name for name in node.output), results, strict=False))


def _folded(graph: Graph, node: Any, given: list[Any]) -> list[Any]:
    """Compute a node of constants."""
    from onnx import helper  # an optional package
    from onnx.reference import ReferenceEvaluator

    feeds = {name: value for name, value in zip(node.input, given, strict=True) if name}
    types = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    made = [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in node.output if name]
    opsets = [helper.make_opsetid(domain, version) for domain, version in graph.opsets.items()]
    model = helper.make_model(helper.make_graph([node], "constant", types, made), opset_imports=opsets)
    try:
        return [np.asarray(one) for one in ReferenceEvaluator(model).run(None, feeds)]
    except (NotImplementedError, RuntimeError) as error:
        raise refuse(node, f"of constants: {error}") from error


def _outputs(graph: Graph, results: list[tuple[str, Any]], *, regresses: bool) -> Mapping[str, Output]:
    for name, value in results:
        if not isinstance(value, Table) or value.texts is not None:
            raise UnsupportedOperatorError(f"ONNX output {name!r} is a constant, a shape or texts of the input")
    table = results[0][1]
    if table.labels is not None or table.dtype == "int64":
        outputs = {"predict": _classes(graph, table)}
        for name, scores in results[1:2]:
            method = "predict_proba" if "prob" in name else "decision_function"
            outputs[method] = _output(scores, flat=not scores.shape)
        return outputs
    method = "predict" if regresses or table.width == 1 else "transform"
    return {method: _output(table, flat=table.width == 1 and method == "predict")}


def _classes(graph: Graph, table: Table) -> Output:
    places = graph.build.add(Cast("int64"), table.node)
    return Output(places, flat=table.width == 1, labels=table.labels)


def _output(table: Table, *, flat: bool) -> Output:
    flat = flat and table.width == 1
    return Output(table.node, flat=flat)
