"""Paired t intervals, and Holm's correction for several comparisons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Interval", "holm", "paired_interval", "student_p_value", "student_quantile"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean of paired differences with its confidence interval.

    Parameters
    ----------
    mean : float
        Mean of the differences.
    low, high : float
        Ends of the interval.
    """

    mean: float
    low: float
    high: float

    @property
    def contains_zero(self) -> bool:
        """True if the data do not tell the mean from zero."""
        return self.low <= 0 <= self.high


def student_p_value(t: float, freedom: int) -> float:
    """Return the two-sided p-value of Student's t distribution.

    Parameters
    ----------
    freedom : int
        Degrees of freedom, at least 1.

    References
    ----------
    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: finite sums for whole degrees of
    freedom.

    Examples
    --------
    >>> round(student_p_value(2.776, 4), 3)
    0.05
    """
    if math.isinf(t):
        return 0.0
    angle = math.atan(abs(t) / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for place in range(freedom // 2):
        total += term
        number = 2 * place + 1 + odd
        term *= square * number / (number + 1)
    central = math.sin(angle) * total
    if odd:
        central = 2 / math.pi * (angle + central)
    return max(0.0, 1.0 - central)


def student_quantile(p_value: float, freedom: int) -> float:
    """Return the positive t whose two-sided p-value is ``p_value``.

    Examples
    --------
    >>> round(student_quantile(0.05, 4), 3)
    2.776
    """
    low, high = 0.0, 1.0
    while student_p_value(high, freedom) > p_value:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p_value(middle, freedom) > p_value else (low, middle)
    return high


def paired_interval(differences: Sequence[float], alpha: float) -> tuple[Interval, float]:
    """Return the paired t interval of differences at the level ``1 - alpha``, and the p-value of a mean of zero.

    Parameters
    ----------
    differences : sequence of float
        Difference of each pair, at least two.
    alpha : float
        Probability of an interval without the true mean.

    Examples
    --------
    >>> interval, p_value = paired_interval([1.0, 2.0, 3.0], alpha=0.05)
    >>> round(interval.mean, 2), round(interval.low, 2), round(interval.high, 2), round(p_value, 3)
    (2.0, -0.48, 4.48, 0.074)
    """
    count = len(differences)
    mean = math.fsum(differences) / count
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in differences) / (count - 1) / count)
    if error == 0:
        return Interval(mean, mean, mean), 0.0 if mean else 1.0
    margin = student_quantile(alpha, count - 1) * error
    return Interval(mean, mean - margin, mean + margin), student_p_value(mean / error, count - 1)


def holm(p_values: Sequence[float], alpha: float) -> list[tuple[float, float]]:
    """Correct p-values for several comparisons by Holm's step-down method.

    The probability that any true null hypothesis is rejected is at most ``alpha``.

    Returns
    -------
    list of (float, float)
        Corrected p-value of each, and the alpha of its interval: the interval at this level contains zero if and only
        if the hypothesis is not rejected.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979. Ludbrook,
    Multiple inferences using confidence intervals, Clinical and Experimental Pharmacology and Physiology 27, 2000.

    Examples
    --------
    >>> [(round(p, 3), round(level, 4)) for p, level in holm([0.01, 0.04, 0.03], alpha=0.05)]
    [(0.03, 0.0167), (0.06, 0.025), (0.06, 0.025)]
    """
    count = len(p_values)
    corrected = [(1.0, alpha)] * count
    largest, level, rejects = 0.0, alpha, True
    for step, place in enumerate(sorted(range(count), key=lambda place: p_values[place])):
        if rejects:
            level = alpha / (count - step)
            rejects = p_values[place] <= level
        largest = max(largest, min(1.0, p_values[place] * (count - step)))
        corrected[place] = largest, level
    return corrected
