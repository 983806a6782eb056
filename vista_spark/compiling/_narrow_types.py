"""Functions of numpy and scalers over narrow types, in which numpy and scikit-learn compute with 16 or 32 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["computes_narrowly", "with_types"]

_NARROW = frozenset({"bool", "float16", "int16", "int8", "uint16", "uint8"})
_HALF = np.dtype(np.float16)
# Steps that scikit-learn computes in float16 if the table is one of float16.
_HALF_STEPS = (ops.Arithmetic, ops.Impute, ops.Monomials, ops.Normalise, ops.PowerTransform, ops.Quantiles)
_KEEP = (ops.Finite, ops.ReadAs, ops.Select)


def computes_narrowly(program: ops.Program, dtypes: Sequence[Any]) -> bool:
    """Return whether types of columns may matter for the results."""
    narrow = [kind for kind in dtypes if kind is not None and kind.name in _NARROW]
    if not narrow:
        return False
    return all(kind == _HALF for kind in narrow) or any(isinstance(node.operator, ops.Ufunc) for node in program.nodes)


def with_types(program: ops.Program, dtypes: Sequence[Any]) -> ops.Program:
    """Return a program whose functions of numpy compute in the types of a table, as numpy does.

    Parameters
    ----------
    dtypes : sequence of numpy dtypes
        Type of each column of the input; ``None`` for a column that is no array of numpy.

    Raises
    ------
    ColumnError
        The library computes a later step in float16, or a function does not take a type.
    """
    types: dict[str, list[Any]] = {ops.INPUT: list(dtypes)}
    nodes = []
    for node in program.nodes:
        before = types[node.inputs[0]] if node.inputs else []
        after: list[Any] = [None] * program.widths[node.name]
        changed = node
        if isinstance(node.operator, _HALF_STEPS) and before and all(kind == _HALF for kind in before):
            raise ColumnError(
                "X must be float32 or float64 for scalers and imputers, which scikit-learn otherwise computes with 16 "
                "bits, got float16, or narrow integers behind a function of numpy. Convert it with astype(float)."
            )
        if isinstance(node.operator, ops.Select):
            after = [before[place] for place in node.operator.columns.tolist()]
        elif isinstance(node.operator, _KEEP):
            # A validation makes one array of a table.
            is_array = isinstance(node.operator, ops.Finite) and all(kind is not None for kind in before)
            after = [np.result_type(*before)] * len(before) if is_array and before else before
        elif isinstance(node.operator, ops.Ufunc):
            kinds = tuple(kind.name if kind is not None and kind.name in _NARROW else "" for kind in before)
            after = [_result(node.operator.name, kind) if kind else None for kind in kinds]
            changed = replace(node, operator=replace(node.operator, kinds=kinds)) if any(kinds) else node
        types[node.name] = after
        nodes.append(changed)
    return ops.Program(program.width, program.columns, nodes, program.outputs)


def _result(name: str, kind: str) -> Any:
    try:
        with np.errstate(all="ignore"):
            return getattr(np, name)(np.ones(1, kind)).dtype
    except TypeError as error:
        raise ColumnError(f"X must have a type that np.{name} takes, got {kind}. Convert it to floats.") from error
