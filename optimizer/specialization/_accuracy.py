"""Accuracy and cost of a specialised classifier with the oracle behind it (equation 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Confusion", "ConfusionCurve", "cascaded_accuracy", "cascaded_seconds", "corrected_skew"]


class Confusion(NamedTuple):
    """Measured answers of a specialised classifier, as shares.

    ``a_in`` is its accuracy on dominant classes; ``e`` the share of dominant inputs that it calls "other"; ``a_out``
    the share of other inputs that it calls "other".
    """

    a_in: float
    e: float
    a_out: float


@dataclass(frozen=True, slots=True)
class ConfusionCurve:
    """Confusions of a compact model, measured for several numbers of dominant classes.

    They depend on the number of dominant classes much more than on the classes themselves (section 5.3.2), so they are
    measured before the stream begins and interpolated.

    Parameters
    ----------
    classes : sequence of int
        Numbers of dominant classes, strictly increasing.
    confusions : sequence of Confusion
        Shares for each number.

    Raises
    ------
    InvalidArgumentError
        The numbers do not increase, or a share is not between 0 and 1.

    Examples
    --------
    >>> curve = ConfusionCurve((5, 10), (Confusion(0.9, 0.04, 0.95), Confusion(0.8, 0.08, 0.93)))
    >>> [round(share, 3) for share in curve.at(6)]
    [0.88, 0.048, 0.946]
    """

    classes: Sequence[int]
    confusions: Sequence[Confusion]

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.classes)
        if not sizes or sizes[0] < 1 or any(low >= high for low, high in pairwise(sizes)):
            raise InvalidArgumentError(f"classes must be strictly increasing positive integers, got {self.classes!r}.")
        entries = tuple(Confusion(*map(float, entry)) for entry in self.confusions)
        if len(entries) != len(sizes) or not all(0 <= share <= 1 for entry in entries for share in entry):
            raise InvalidArgumentError(
                f"confusions must have shares from 0 to 1 for each of {len(sizes)} sizes, got {self.confusions!r}."
            )
        object.__setattr__(self, "classes", sizes)
        object.__setattr__(self, "confusions", entries)

    def at(self, dominant: int) -> Confusion:
        """Return the shares for a number of dominant classes: interpolated linearly, constant outside."""
        columns = zip(*self.confusions, strict=True)
        return Confusion(*(float(np.interp(dominant, self.classes, column)) for column in columns))


def cascaded_accuracy(skew: float, confusion: Confusion, oracle: float) -> float:
    """Return the accuracy of the classifier with the oracle behind it (equation 5.1).

    Parameters
    ----------
    skew : float
        Share of the inputs in dominant classes, ``p``.
    confusion : Confusion
        Measured answers of the classifier.
    oracle : float
        Accuracy of the oracle, ``a*``.

    Examples
    --------
    >>> round(cascaded_accuracy(0.9, Confusion(0.84, 0.08, 0.95), 0.689), 4)
    0.8711
    """
    return skew * confusion.a_in + skew * confusion.e * oracle + (1 - skew) * confusion.a_out * oracle


def cascaded_seconds(skew: float, confusion: Confusion, compact: float, oracle: float) -> float:
    """Return the expected time of an input: the compact model always, and the oracle for what it calls "other".

    Parameters
    ----------
    skew : float
        Share of the inputs in dominant classes, ``p``.
    confusion : Confusion
        Measured answers of the classifier.
    compact, oracle : float
        Times of an input, ``r`` and ``R``, in seconds.

    Examples
    --------
    >>> cascaded_seconds(0.9, Confusion(0.84, 0.1, 0.9), 0.01, 1.0)
    0.19
    """
    return compact + oracle * (skew * confusion.e + (1 - skew) * confusion.a_out)


def corrected_skew(answered: float, confusion: Confusion) -> float:
    """Return the skew from the share of inputs that the classifier answers with a dominant class.

    Of dominant inputs it answers ``1 - e``, of others ``1 - a_out``. The share alone overestimates the skew where the
    classifier takes other inputs for dominant ones.

    Parameters
    ----------
    answered : float
        Share of the inputs that the classifier answers with a dominant class.
    confusion : Confusion
        Measured answers of the classifier.

    Returns
    -------
    float
        Skew from 0 to 1; 0 if the classifier calls dominant inputs "other" as often as others.

    Examples
    --------
    >>> round(corrected_skew(0.9 * 0.95 + 0.1 * 0.2, Confusion(0.9, 0.05, 0.8)), 3)
    0.9
    """
    gap = confusion.a_out - confusion.e
    if gap <= 0:  # a classifier that answers everything, or nothing, shows no skew
        return 0.0
    return float(np.clip((answered - (1 - confusion.a_out)) / gap, 0, 1))
