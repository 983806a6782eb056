"""Link functions of models."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.compiling._operator import Operator, check_choice

__all__ = ["Link"]

_KINDS = ("exp", "exp2", "softplus", "signed square", "logistic of float32", "softmax of float32")


@dataclass(frozen=True, eq=False, slots=True)
class Link(Operator):
    """Link function of each number, or of each row.

    Parameters
    ----------
    kind : {"exp", "exp2", "softplus", "signed square", "logistic of float32", "softmax of float32"}
        ``exp(x)``, ``2 ** x``, ``log(1 + exp(x))``, ``x * |x|``, or one of two functions that round each step to
        float32, as their libraries do.
    """

    kind: str

    def __post_init__(self) -> None:
        check_choice("Link", "kind", self.kind, _KINDS)
