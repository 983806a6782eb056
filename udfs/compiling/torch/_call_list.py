"""Part of a program as a list of calls, for tables of few rows, where calls take most of the time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._leaves import MODULES as FOLLOWERS
from udfs.compiling.torch._row_checks import broken
from udfs.compiling.torch._trees import TreesModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Above, ArgMax, Cast, Complement, Finite, Link, Node, Operator, Program, Rule, Select
    from udfs.compiling.torch._program import ProgramModule

__all__ = ["CallList"]

Table = Any  # a numpy array: checked by what made it


class _Step(NamedTuple):
    run: Callable[..., Table]
    reads: tuple[int, ...]
    rule: Callable[[Table, list[Table]], NDArray[np.bool_] | None] | None
    operator: Any


class CallList:
    """Run a part of a program on numpy arrays, step by step, without look-ups.

    Operators that round run the module of the program. Exact ones (selections, comparisons, ``1 - p``, native trees)
    call numpy, because a call of torch costs several times as much for a small table.

    Parameters
    ----------
    part : Program
        Part of the program, from :meth:`optimizer.compiling.Program.only`.
    """

    def __init__(self, module: ProgramModule, part: Program) -> None:
        slots = {ops.INPUT: 0}
        for node in part.nodes:
            slots[node.name] = len(slots)
        self._steps = [_step(module, node, slots) for node in part.nodes]
        self._outputs = [(name, slots[output.node], output.answer) for name, output in part.outputs.items()]

    @staticmethod
    def takes(part: Program) -> bool:
        """Return whether a part can run as calls: without operators of the host, and without numbers of leaves."""
        return not part.host and not any(type(node.operator) in FOLLOWERS for node in part.nodes)

    def run(self, table: NDArray[Any]) -> tuple[dict[str, Any], list[tuple[Rule, NDArray[np.bool_]]]]:
        """Run on a table of shape (rows, columns), float32 or float64.

        Returns
        -------
        outputs : dict of str to array, or list of arrays
            Results as the library returns them.
        broken : list of (Rule, bool array of shape (rows,))
            Rules that some row breaks, and the rows.
        """
        values, wrong = [table], []
        for run, reads, rule, operator in self._steps:
            value = run(values[reads[0]]) if len(reads) == 1 else run(*[values[place] for place in reads])
            values.append(value)
            if rule is not None:
                fails = rule(value, [values[place] for place in reads])
                if fails is not None and fails.any():
                    wrong.append((operator, fails))
        return {name: answer(values[place]) for name, place, answer in self._outputs}, wrong


def _step(module: ProgramModule, node: Node, slots: Mapping[str, int]) -> _Step:
    operator = node.operator
    step_module: Any = module.steps[module.places[node.name]]
    exact = _EXACT.get(type(operator))
    run = None if exact is None else exact(operator)
    if isinstance(step_module, TreesModule) and step_module.native:
        run = partial(_trees, step_module)
    rule: Callable[[Table, list[Table]], NDArray[np.bool_] | None] | None = None
    if isinstance(operator, ops.Finite):
        rule = _finite_rule(operator)
    elif isinstance(operator, ops.RULES):
        rule = partial(_rule, operator)
    run = run or partial(_by_module, step_module.forward)
    return _Step(run, tuple(slots[name] for name in node.inputs), rule, operator)


def _by_module(forward: Callable[..., torch.Tensor], *tables: Table) -> Table:
    return forward(*[torch.from_numpy(table) for table in tables]).numpy()


def _trees(module: TreesModule, x: Table) -> Table:
    if module.native is not None and len(x) <= ops.WALKED_ROWS:
        return module.native.few(x)
    return _by_module(module.forward, x)


def _rule(operator: Operator, value: Table, tables: list[Table]) -> NDArray[np.bool_] | None:
    fails = broken(operator, torch.from_numpy(value), [torch.from_numpy(table) for table in tables])
    broken_rows: NDArray[np.bool_] | None = None if fails is None else fails.numpy()
    return broken_rows


def _finite_rule(operator: Finite) -> Callable[[Table, list[Table]], NDArray[np.bool_] | None]:
    """Return a rule that checks one sum of squares, and each number only if that is not finite."""

    def rule(value: Table, tables: list[Table]) -> NDArray[np.bool_] | None:
        # If the sum of squares is in the range of float32, so are the numbers. np.vdot does not warn of an overflow,
        # in contrast to other products of numpy.
        if value.dtype in _FLOATS and np.vdot(value, value) < _GREATEST:
            return None
        return _rule(operator, value, tables)

    return rule


_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
_GREATEST = float(np.finfo(np.float32).max)
# As of the module of Link.
_LARGEST = 88.7


def _same(table: Table, *_: Table) -> Table:
    return table


def _select(operator: Select) -> Callable[[Table], Table]:
    columns = operator.columns.astype(np.int64)
    return lambda x: x.take(columns, axis=1)


def _cast(operator: Cast) -> Callable[[Table], Table]:
    dtype = np.dtype(operator.dtype)

    def run(x: Table) -> Table:
        if x.dtype == dtype:
            return x
        with np.errstate(over="ignore", invalid="ignore"):
            return x.astype(dtype)

    return run


def _complement(_: Complement) -> Callable[[Table], Table]:
    def run(x: Table) -> Table:
        both = np.empty((len(x), 2), x.dtype)
        np.subtract(1, x, out=both[:, :1])
        both[:, 1:] = x
        return both

    return run


def _above(operator: Above) -> Callable[[Table], Table]:
    compare, threshold = np.greater_equal if operator.or_equal else np.greater, operator.threshold
    return lambda x: compare(x, threshold).astype(np.int64)


def _argmax(operator: ArgMax) -> Callable[[Table], Table] | None:
    if operator.nan != "greatest":
        return None
    return lambda x: x.argmax(axis=1)[:, None]


def _link(operator: Link) -> Callable[[Table], Table] | None:
    if operator.kind != "logistic of float32":
        return None

    def run(x: Table) -> Table:
        negative = -x
        wide = np.minimum(negative, _LARGEST, out=negative).astype(np.float64)
        # Libraries differ in the last bit of an exponential: this one is the module's.
        torch.from_numpy(wide).exp_()
        single = wide.astype(np.float32)
        single += 1
        return np.reciprocal(single, out=single)

    return run


_EXACT: Mapping[type[Operator], Callable[[Any], Callable[..., Table] | None]] = {
    ops.Above: _above,
    ops.After: lambda _: _same,
    ops.ArgMax: _argmax,
    ops.Cast: _cast,
    ops.Complement: _complement,
    ops.Finite: lambda _: _same,
    ops.Link: _link,
    ops.NarrowIntegers: lambda _: _same,
    ops.ReadAs: lambda _: _same,
    ops.Select: _select,
}
"""Builders of exact calls by operator class; they return ``None`` for options that are not exact."""
