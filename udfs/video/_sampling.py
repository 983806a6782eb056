"""Choice of frames by their time stamps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["Sampling"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """First frame at or after each multiple of ``1 / fps``, at most ``limit`` frames of a file.

    The choice depends on time stamps only, so it is the same for every division of a file into segments, and for a
    variable frame rate.

    Parameters
    ----------
    fps : Fraction, optional
        Frames per second; all frames by default.
    limit : int, optional
        Largest number of frames of a file; no limit by default.

    Examples
    --------
    >>> from fractions import Fraction
    >>> sampling = Sampling(Fraction(2))
    >>> [sampling.slot(stamp, Fraction(1, 10)) for stamp in (0, 4, 5, 9, 12)]  # seconds 0, 0.4, 0.5, 0.9, 1.2
    [0, 0, 1, 1, 2]
    """

    fps: Fraction | None = None
    limit: int | None = None

    def slot(self, stamp: int, unit: Fraction) -> int:
        """Return the interval of length ``1 / fps`` that a time stamp lies in; the first frame of each is chosen.

        Parameters
        ----------
        stamp : int
            Time since the first frame of the file, in `unit`.
        unit : Fraction
            Seconds.
        """
        if self.fps is None:
            return stamp
        return stamp * (unit.numerator * self.fps.numerator) // (unit.denominator * self.fps.denominator)
