"""Interpolation between knots: isotonic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Interpolate"]


@dataclass(frozen=True, eq=False, slots=True)
class Interpolate(Operator):
    """Linear interpolation between knots, in the type of the knots: ``slope * (x - x0) + y0``.

    Outside the knots the result is NaN or the value of the nearest knot. A single knot serves every number.

    Parameters
    ----------
    x : float32 or float64 array of shape (knots,)
        Knots, ascending.
    y : array of shape (knots,), of the same type
        Value at each knot.
    side : {"left", "right"}
        Line that decides at an inner knot, since the ends of both differ in the last bit. Default ``"right"``.
    outside : {"nan", "clip"}
        Result outside the knots. Default ``"nan"``.
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
                f"y must have shape {self.x.shape} and type {self.x.dtype}, with at least one knot, got {self.y.shape} "
                f"and {self.y.dtype}."
            )
        if not (self.x[1:] > self.x[:-1]).all():
            raise ProgramError(f"x must ascend, got {self.x.tolist()[:5]}.")

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], 1)
