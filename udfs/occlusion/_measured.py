"""Measurements of approximate heat maps on one image, as they travel from a task to the driver."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TAUS_MEASURED", "Measured"]

TAUS_MEASURED = 3
"""Taus that are measured beside 1."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of one image's approximate heat maps.

    Attributes
    ----------
    share : float
        Of the places that rounds compute until the target is reached; 1 where it is not with less than all.
    likeness : float
        Estimated SSIM of that heat map.
    taus, plain, drilled : tuple of 4 float
        Some taus, the largest of them 1, with the estimated SSIM of all places, and after drill-down.
    cost : float
        What all of it took, in exact heat maps, by FLOPs.
    seconds, exact_seconds, sampled_seconds : float
        Of the measurements; of an exact heat map, by its places' mean; and of the rounds.
    """

    share: float
    likeness: float
    taus: tuple[float, ...]
    plain: tuple[float, ...]
    drilled: tuple[float, ...]
    cost: float
    seconds: float
    exact_seconds: float
    sampled_seconds: float

    def numbers(self) -> list[float]:
        """Write all of it as a list, for a column of Arrow."""
        return [number for value in astuple(self) for number in (value if isinstance(value, tuple) else (value,))]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Measured:
        """Read what :meth:`numbers` wrote."""
        rest = iter(numbers)
        values: dict[str, Any] = {
            field.name: tuple(next(rest) for _ in range(TAUS_MEASURED + 1))
            if field.name in ("taus", "plain", "drilled")
            else next(rest)
            for field in fields(cls)
        }
        return cls(**values)
