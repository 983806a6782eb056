"""From scores to the quantity that a model was fitted for."""

from __future__ import annotations

from dataclasses import dataclass

from ._operator import Operator, check_choice

__all__ = ["Link"]


@dataclass(frozen=True, eq=False, slots=True)
class Link(Operator):
    """A function of each number by itself.

    Parameters
    ----------
    kind : {"exp", "softplus", "signed square"}
        ``exp(x)``, ``log(1 + exp(x))``, or ``x * |x|``.
    """

    kind: str

    def __post_init__(self) -> None:
        check_choice("Link", "kind", self.kind, ("exp", "softplus", "signed square"))
