"""Pareto front of variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError, nearest
from optimizer.variants._measurement import MEASURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optimizer.variants._measurement import Measurement

__all__ = ["pareto_front"]


def pareto_front(measurements: Iterable[Measurement], measure: str = "memory") -> tuple[Measurement, ...]:
    """Return the variants that no cheaper one matches in accuracy, from the cheapest to the most accurate.

    Parameters
    ----------
    measurements : iterable of Measurement
        Variants of a catalog.
    measure : {"memory", "storage", "latency", "compute", "load"}
        Cost that is compared. Default ``"memory"``.

    Returns
    -------
    tuple of Measurement
        The front. Both the cost and the accuracy increase.

    Raises
    ------
    InvalidArgumentError
        There is no such measure.

    Examples
    --------
    >>> from optimizer.variants import Measurement
    >>> full = Measurement("full", 0.92, 400, 0.89, 0.94, 14_000_000, 20_000_000, 0.6, 0.1, {1: 0.03}, 224)
    >>> half = Measurement("half", 0.92, 400, 0.89, 0.94, 7_000_000, 13_000_000, 0.6, 0.1, {1: 0.03}, 224)
    >>> [entry.name for entry in pareto_front([full, half])]
    ['half']
    """
    if measure not in MEASURES:
        raise InvalidArgumentError(
            f"measure must be one of {', '.join(MEASURES)}, got {measure!r}{nearest(str(measure), MEASURES)}."
        )
    attribute = MEASURES[measure]
    front: list[Measurement] = []
    for entry in sorted(measurements, key=lambda entry: (getattr(entry, attribute), -entry.accuracy, entry.name)):
        if not front or entry.accuracy > front[-1].accuracy:
            front.append(entry)
    return tuple(front)
