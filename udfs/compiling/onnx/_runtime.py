"""A program under ONNX Runtime: numpy in, numpy out, and no torch."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

import optimizer.compiling as ops
from udfs.compiling._answer import Answer
from udfs.compiling.onnx._graph import TYPES, Graph, Table
from udfs.compiling.onnx._lowering import lower, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import onnx
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

    from optimizer.compiling import Plan, Program

__all__ = ["RuntimeEngine"]

_CODES, _RULE = "codes ", "broken "


class RuntimeEngine:
    """Executor of a program in ONNX Runtime, a chunk of rows at a time.

    Answers are those of :class:`udfs.compiling.torch.Engine`.

    Parameters
    ----------
    plan : Plan
        Plan of the program with the backend ``"onnxruntime"``.
    threads : int, optional
        Threads that run a table. Default ONNX Runtime's number.

    Raises
    ------
    ModuleNotFoundError
        The package onnxruntime is missing.
    """

    def __init__(self, program: Program, plan: Plan, threads: int | None = None) -> None:
        import onnxruntime  # noqa: F401 - an optional package, missed now and not in a task

        self.program, self.plan = program, plan
        self._threads = threads
        self._part = lru_cache(maxsize=None)(program.only)
        self._session = lru_cache(maxsize=None)(self._opened)

    def run(
        self,
        table: NDArray[Any],
        host_tables: Sequence[NDArray[Any] | ops.SparseRows] = (),
        outputs: Iterable[str] | None = None,
    ) -> Answer:
        """Run on a table of shape (rows, columns), float32 or float64: as :meth:`udfs.compiling.torch.Engine.run`.

        Raises
        ------
        UnsupportedOperatorError
            An operator has no ONNX form.
        """
        names = tuple(self.program.outputs if outputs is None else outputs)
        part, session = self._part(names), self._session(names, table.dtype.name)
        wanted = [tensor.name for tensor in session.get_outputs()]
        feeds = {ops.INPUT: table} | {
            _CODES + node.name: codes for node, codes in zip(self.program.host, host_tables, strict=True)
        }
        fed = [tensor.name for tensor in session.get_inputs()]
        parts = [
            session.run(wanted, {name: np.ascontiguousarray(feeds[name][at : at + self.plan.chunk]) for name in fed})
            for at in range(0, max(len(table), 1), self.plan.chunk)
        ]
        results = {name: np.concatenate(chunks) for name, chunks in zip(wanted, zip(*parts, strict=True), strict=True)}
        answers = {name: output.answer(results[name]) for name, output in part.outputs.items()}
        bad, reasons = np.zeros(len(table), np.bool_), []
        for node in part.nodes:
            fails = results.get(_RULE + node.name)
            if isinstance(node.operator, ops.RULES) and fails is not None and fails.any():
                bad |= fails
                reasons.append(ops.reason_of(node.operator))
        return Answer(answers, bad, reasons)

    def check(self) -> None:
        """Write the model of all results, as :meth:`run` would.

        Raises
        ------
        UnsupportedOperatorError
            An operator has no ONNX form; the message names it.
        """
        _model_of(self.program, "float64")

    def _opened(self, names: tuple[str, ...], dtype: str) -> InferenceSession:
        import onnxruntime  # an optional package

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads or 0
        options.log_severity_level = 3  # no warning of a constant that is not read
        data = _model_of(self._part(names), dtype).SerializeToString()
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _model_of(program: Program, dtype: str) -> onnx.ModelProto:
    """Write a program with the tables of its results and one output for each rule that refuses rows."""
    graph = Graph()
    values = {ops.INPUT: Table(ops.INPUT, dtype)}
    inputs = [helper.make_tensor_value_info(ops.INPUT, TYPES[dtype], ["rows", program.width])]
    for node in program.host:
        if not isinstance(node.operator, ops.Encode):
            raise ops.UnsupportedOperatorError(
                f"{type(node.operator).__name__} (node {node.name!r}) is not for backend='onnxruntime', which has no "
                "sparse tables: leave backend out"
            )
        values[node.name] = Table(_CODES + node.name, "int64")
        inputs.append(
            helper.make_tensor_value_info(_CODES + node.name, TYPES["int64"], ["rows", program.widths[node.name]])
        )
    broken = lower(graph, program, values)
    kinds = {node.name: node.operator for node in program.nodes}
    outputs = [
        graph.result(name, values[output.node], shape_of(kinds.get(output.node), program.widths[output.node]))
        for name, output in program.outputs.items()
    ]
    outputs += [graph.result(_RULE + name, flags) for name, flags in broken.items()]
    return graph.model(inputs, outputs)
