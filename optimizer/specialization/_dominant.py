"""Dominant classes of a window of answers, and the probability of finding them (appendix C)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.specialization._evidence import binomial_cdf
from optimizer.specialization._state import MOST_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Detection", "choose_window", "detection", "dominant_classes", "least_support"]

# Expected inputs: dominant classes, and their share. Requirements: other classes per window, probability of detection.
_DOMINANT, _SKEW = 5, 0.8
_FALSE_CLASSES, _DETECTED = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Detection:
    """Probabilities that a class is answered at least ``k`` times in a window.

    Parameters
    ----------
    dominant, other : float
        Probability for a single dominant class, and for a single other class: ``p_in`` and ``p_out``. ``dominant`` is
        NaN without dominant classes.
    """

    dominant: float
    other: float


def dominant_classes(labels: Iterable[int], support: int) -> frozenset[int]:
    """Return the classes with at least `support` answers (``DOMCLASSES``).

    Examples
    --------
    >>> sorted(dominant_classes([3, 3, 5, 7, 7, 7], 2))
    [3, 7]
    """
    return frozenset(label for label, count in Counter(labels).items() if count >= support)


def detection(*, classes: int, accuracy: float, dominant: int, skew: float, window: int, support: int) -> Detection:
    """Return the probabilities that dominant and other classes reach the support (equations C.1 and C.2).

    Parameters
    ----------
    classes : int
        Number of classes of the oracle, ``N``.
    accuracy : float
        Accuracy of the oracle, ``a*``. Its errors are spread evenly over the other classes.
    dominant : int
        Number of dominant classes ``n``; 0 for inputs without skew, uniform over all classes.
    skew : float
        Share of the inputs in dominant classes, ``p``. Ignored without dominant classes.
    window, support : int
        Answers in the window ``w``, and answers that make a class dominant, ``k``.

    Raises
    ------
    InvalidArgumentError
        A number is out of range.

    References
    ----------
    Shen, *System for Serving Deep Neural Networks Efficiently*, appendix C, Table C.1. Its row 8 is printed as .00929;
    the equations give .00995.

    Examples
    --------
    >>> probabilities = detection(classes=1000, accuracy=0.68, dominant=5, skew=0.9, window=30, support=2)
    >>> round(probabilities.dominant, 3), f"{probabilities.other:.2e}"
    (0.898, '6.52e-05')
    """
    whole("classes", classes, 2)
    real("accuracy", accuracy, 0, 1)
    whole("dominant", dominant, 0)
    if dominant >= classes:
        raise InvalidArgumentError(f"dominant must be below the number of classes, {classes}, got {dominant}.")
    share = real("skew", skew, 0, 1) if dominant else 0.0
    wrong = (1 - accuracy) / (classes - 1)  # probability of each single wrong answer
    rest = classes - dominant
    other = ((1 - share) * accuracy + (1 - share) * wrong * (rest - 1) + share * wrong * rest) / rest
    within = math.nan
    if dominant:
        each = (share * accuracy + share * wrong * (dominant - 1) + (1 - share) * wrong * dominant) / dominant
        within = _at_least(support, window, each)
    return Detection(within, _at_least(support, window, other))


@lru_cache(maxsize=4096)
def least_support(classes: int, accuracy: float, window: int) -> int:
    """Return the smallest support, of at least 2, that on average at most 0.5 other classes reach in a window.

    The inputs are expected to have 5 dominant classes with a share of 80 %.

    Parameters
    ----------
    classes, accuracy : int and float
        Number of classes and accuracy of the oracle.
    window : int
        Answers in the window.

    Raises
    ------
    InvalidArgumentError
        A number is out of range.

    Examples
    --------
    >>> [least_support(205, 0.58, window) for window in (30, 60, 90)]
    [3, 3, 3]
    """
    for support in range(2, window + 1):
        other = _expected_detection(classes, accuracy, window, support).other
        if other * (classes - min(_DOMINANT, classes - 1)) <= _FALSE_CLASSES:
            return support
    return max(window, 2)


def choose_window(*, classes: int, accuracy: float) -> int:
    """Return the smallest window in which each of 5 dominant classes with 80 % of the inputs is found in 90 % of cases.

    Parameters
    ----------
    classes, accuracy : int and float
        Number of classes and accuracy of the oracle.

    Returns
    -------
    int
        Number of answers from 10 to 300, a multiple of 10; 300 if no window is sufficient. A class is dominant with the
        support of :func:`least_support`.

    Raises
    ------
    InvalidArgumentError
        A number is out of range.

    Examples
    --------
    >>> choose_window(classes=1000, accuracy=0.68)
    40
    """
    for window in range(10, MOST_LABELS, 10):
        support = least_support(classes, accuracy, window)
        if _expected_detection(classes, accuracy, window, support).dominant >= _DETECTED:
            return window
    return MOST_LABELS


def _expected_detection(classes: int, accuracy: float, window: int, support: int) -> Detection:
    dominant = min(_DOMINANT, classes - 1)
    return detection(classes=classes, accuracy=accuracy, dominant=dominant, skew=_SKEW, window=window, support=support)


def _at_least(support: int, trials: int, probability: float) -> float:
    """Return the probability of at least `support` successes of a binomial distribution."""
    return max(0.0, 1.0 - binomial_cdf(support - 1, trials, probability))
