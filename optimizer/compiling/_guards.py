"""Operators that hold rows beside the path of the values: checks of a rewritten program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ._functions import Within
from ._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["After", "Held"]


@dataclass(frozen=True, eq=False, slots=True)
class Held(Within):
    """Hold rows to bounds, as :class:`Within` does; a row with NaN is bad too."""


@dataclass(frozen=True, eq=False, slots=True)
class After(Operator):
    """The first table, unchanged. The others are checks that hold its rows as well, though it does not read them."""

    arity: ClassVar[int | None] = None

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return inputs[0]
