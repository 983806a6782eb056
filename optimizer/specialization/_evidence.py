"""Conclusions from few answers: skew of a window, and statistical tests of shares."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["binomial_cdf", "contradicts", "frequencies", "held_out_share", "share_in", "silence", "upper_share"]

_SIGNIFICANCE = 0.05
_SILENCE = 1e-4
_DEVIATIONS = 1.64  # one-sided bound of the same significance


def binomial_cdf(most: int, trials: int, probability: float) -> float:
    """Return the probability of at most `most` successes in independent trials.

    Examples
    --------
    >>> binomial_cdf(1, 3, 0.5)
    0.5
    """
    return sum(
        math.comb(trials, hits) * probability**hits * (1 - probability) ** (trials - hits)
        for hits in range(min(most, trials) + 1)
    )


def contradicts(agreements: int, answers: int, expected: float) -> bool:
    """Return whether so few agreements among some answers are improbable for an expected share of agreements.

    Examples
    --------
    >>> contradicts(1, 3, 0.9), contradicts(1, 3, 0.5)
    (True, False)
    """
    return binomial_cdf(agreements, answers, expected) < _SIGNIFICANCE


def upper_share(flags: Sequence[bool]) -> float:
    """Return the upper confidence bound of a share.

    Examples
    --------
    >>> round(upper_share([True, False] * 18), 2), upper_share([False] * 36)
    (0.64, 0.0)
    """
    share = sum(flags) / len(flags)
    return min(1.0, share + _DEVIATIONS * math.sqrt(share * (1 - share) / len(flags)))


def share_in(labels: Sequence[int], dominant: Collection[int]) -> float:
    """Return the share of the labels in some classes."""
    return sum(label in dominant for label in labels) / len(labels)


def frequencies(labels: Sequence[int]) -> tuple[tuple[int, float], ...]:
    """Return the share of each class among labels, sorted by class.

    Examples
    --------
    >>> frequencies([7, 3, 7, 7])
    ((3, 0.25), (7, 0.75))
    """
    return tuple((label, count / len(labels)) for label, count in sorted(Counter(labels).items()))


def held_out_share(labels: Sequence[int], support: int) -> float:
    """Return the share of the labels whose class would be dominant without them.

    The share of all labels in dominant classes is too high, because the same labels chose these classes.

    Examples
    --------
    >>> held_out_share([3, 3, 3, 5, 5, 7], 2)
    0.5
    """
    return sum(count for count in Counter(labels).values() if count > support) / len(labels)


def silence(answered: Sequence[bool]) -> int:
    """Return the number of last inputs that were not answered, if so many are improbable by the inputs before; else 0.

    Examples
    --------
    >>> silence([True] * 20 + [False] * 2), silence([True] * 20 + [False] * 3)
    (0, 3)
    """
    run = next((place for place, flag in enumerate(reversed(answered)) if flag), len(answered))
    before = len(answered) - run
    others = before - sum(answered)
    return run if ((others + 1) / (before + 2)) ** run < _SILENCE else 0
