"""Interpolation between knots: isotonic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import ProgramError
from ._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Interpolate"]


@dataclass(frozen=True, eq=False, slots=True)
class Interpolate(Operator):
    """Straight lines between knots, in the type of the knots: ``slope * (x - x0) + y0``.

    Outside of the knots a number has no value, NaN, or is taken as the nearest knot. One knot stands for every number.

    Parameters
    ----------
    x : float32 or float64 array of shape (knots,)
        Ascending.
    y : array of shape (knots,), of the same type
    side : {"left", "right"}
        Which of its two lines gives the value at an inner knot: their ends differ in the last bit.
    outside : {"nan", "clip"}
    """

    x: NDArray[Any]
    y: NDArray[Any]
    side: str = "right"
    outside: str = "nan"

    def __post_init__(self) -> None:
        check_choice("Interpolate", "side", self.side, ("left", "right"))
        check_choice("Interpolate", "outside", self.outside, ("clip", "nan"))
        if self.x.shape != self.y.shape or not len(self.x) or self.x.dtype != self.y.dtype:
            raise ProgramError(
                f"Interpolate: knots of shape {self.x.shape} and type {self.x.dtype}, values of shape {self.y.shape} "
                f"and type {self.y.dtype}"
            )
        if not (self.x[1:] > self.x[:-1]).all():
            raise ProgramError("Interpolate: the knots do not ascend")

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], 1)
