"""Measurements of approximate heat maps on one image, as a task sends them to the driver."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TAUS_MEASURED", "Measured"]

TAUS_MEASURED = 3
"""Number of taus that are measured in addition to 1."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of one image's approximate heat maps.

    `share` of the places is computed in rounds until the target is reached (1 where it is not), with the estimated SSIM
    `likeness`. `plain` and `drilled` are the estimated SSIM by tau, the largest of which is 1, for all places and after
    drill-down. `cost` is that of all measurements in exact heat maps, by FLOPs. `seconds` are those of the
    measurements, `exact_seconds` of an exact heat map, and `sampled_seconds` of the rounds.
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
        """Return all fields as a list, for a column of Arrow."""
        return [number for value in astuple(self) for number in (value if isinstance(value, tuple) else (value,))]

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> Measured:
        """Restore the fields from :meth:`numbers`."""
        rest = iter(numbers)
        values: dict[str, Any] = {
            field.name: tuple(next(rest) for _ in range(TAUS_MEASURED + 1))
            if field.name in ("taus", "plain", "drilled")
            else next(rest)
            for field in fields(cls)
        }
        return cls(**values)
