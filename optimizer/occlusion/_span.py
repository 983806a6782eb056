"""Half-open ranges on one axis, one per position of the patch, and their propagation through layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """Changed range along one axis of a tensor, by position of the patch; empty where ``stop <= start``.

    Attributes
    ----------
    start, stop : array of int64, of shape (positions,)
        Half-open range of each position.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of changed elements."""
        lengths: NDArray[np.int64] = np.maximum(self.stop - self.start, 0)
        return lengths

    def through(self, kernel: int, stride: int, padding: int, dilation: int, extent: int) -> Span:
        """Compute the hull of the outputs whose window reads the span (equations 6.13 and 6.14, with dilation).

        Those equations bound the length from above; this is the exact length, at the borders too (appendix B.3).
        ``extent`` is the number of elements of the output along the axis.

        Examples
        --------
        >>> Span(np.array([0, 4]), np.array([2, 6])).through(3, 1, 1, 1, extent=8)
        Span(start=array([0, 3]), stop=array([3, 7]))
        """
        reach = (kernel - 1) * dilation
        start = np.maximum(-((reach - padding - self.start) // stride), 0)
        stop = np.minimum((self.stop - 1 + padding) // stride + 1, extent)
        return Span(start, np.where(self.lengths > 0, np.maximum(start, stop), start))

    def reads(self, kernel: int, stride: int, padding: int, dilation: int) -> Span:
        """Compute the read-in context of the span (equations 6.15 and 6.16), which may reach into the padding.

        Examples
        --------
        >>> Span(np.array([0]), np.array([3])).reads(3, 1, 1, 1)
        Span(start=array([-1]), stop=array([4]))
        """
        start = self.start * stride - padding
        return Span(start, start + (self.lengths - 1) * stride + (kernel - 1) * dilation + 1)

    def hull(self, other: Span) -> Span:
        """Return the smallest span that contains both (equation 6.20)."""
        start, stop = np.minimum(self.start, other.start), np.maximum(self.stop, other.stop)
        mine, theirs = self.lengths > 0, other.lengths > 0
        return Span(
            np.where(mine & theirs, start, np.where(mine, self.start, other.start)),
            np.where(mine & theirs, stop, np.where(mine, self.stop, other.stop)),
        )

    def cropped(self, threshold: float, extent: int) -> Span:
        """Crop to a fraction of the tensor, from the middle: projective field thresholding (equations 6.22 to 6.27).

        ``threshold`` is tau, above 0 and at most 1; ``extent`` is the number of elements of the tensor along the axis.

        Examples
        --------
        >>> Span(np.array([0]), np.array([7])).cropped(5 / 7, 7)
        Span(start=array([1]), stop=array([6]))
        """
        most = max(1, round(threshold * extent))
        over = np.maximum(self.lengths - most, 0)
        start = self.start + over // 2
        return Span(start, start + self.lengths - over)
