"""Deletion and insertion: how fast the score falls, or comes back, in the order of an attribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scoring import checked_scores, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scoring import ScoreFunction

__all__ = ["ScoreCurve", "deletion", "insertion"]


@dataclass(frozen=True, slots=True)
class ScoreCurve:
    """Scores while an input is taken away or put back, the most important elements first.

    Attributes
    ----------
    kind : {"deletion", "insertion"}
    fractions : array of float64, of shape (steps + 1,)
        Of the elements that are changed, from 0 to 1.
    scores : array of float64, of the same shape
    """

    kind: str
    fractions: NDArray[np.float64]
    scores: NDArray[np.float64]

    @property
    def area(self) -> float:
        """Area under the curve: lower is better for deletion, higher for insertion."""
        return float(np.sum(np.diff(self.fractions) * (self.scores[1:] + self.scores[:-1]) / 2))

    def explain(self) -> str:
        """Say in words where the curve begins and ends, and its area.

        Examples
        --------
        >>> ScoreCurve("deletion", np.array([0.0, 1.0]), np.array([0.75, 0.25])).explain()
        'deletion: from 0.7500 to 0.2500, area 0.5000 (lower is better)'
        """
        better = "lower" if self.kind == "deletion" else "higher"
        first, last = self.scores[0], self.scores[-1]
        return f"{self.kind}: from {first:.4f} to {last:.4f}, area {self.area:.4f} ({better} is better)"


def deletion(
    score: ScoreFunction,
    inputs: Sequence[NDArray[Any]],
    baselines: Sequence[NDArray[Any] | None],
    values: NDArray[np.floating],
    *,
    steps: int = 100,
    batch_size: int = 32,
) -> ScoreCurve:
    """Replace the elements of an input by the baseline, the most important first.

    Petsiuk, Das and Saenko, *RISE*, BMVC 2018, section 4.2. A good attribution has a steep fall: a small area.

    Parameters
    ----------
    score : callable
        See :data:`ScoreFunction`.
    inputs : sequence of array
        Without the axis of records.
    baselines : sequence of array or None
        For each input an array of its shape, or ``None`` where it stays.
    values : array of float
        The attribution, in a shape that broadcasts to every changed input's. An element of NaN stays as it is. Elements
        of one value come in the order of their index.
    steps : int
        Points of the curve after the first. Default 100; at most the number of values.
    batch_size : int
        Inputs at a time. Default 32.

    Raises
    ------
    InvalidArgumentError
        Values or a baseline of another shape, values that are all NaN.

    Examples
    --------
    >>> def total(batches):
    ...     return batches[0].sum(axis=1)
    >>> row, zeros = np.array([1.0, 2.0, 4.0]), np.zeros(3)
    >>> deletion(total, [row], [zeros], row).scores.tolist()
    [7.0, 3.0, 1.0, 0.0]
    >>> insertion(total, [row], [zeros], row).scores.tolist()
    [0.0, 4.0, 6.0, 7.0]
    """
    return _curve("deletion", score, inputs, baselines, values, steps, batch_size)


def insertion(
    score: ScoreFunction,
    inputs: Sequence[NDArray[Any]],
    baselines: Sequence[NDArray[Any] | None],
    values: NDArray[np.floating],
    *,
    steps: int = 100,
    batch_size: int = 32,
) -> ScoreCurve:
    """Put the elements of an input into the baseline, the most important first; see :func:`deletion`.

    The paper's baseline is the blurred image. A good attribution has a steep rise: a large area.
    """
    return _curve("insertion", score, inputs, baselines, values, steps, batch_size)


def _curve(
    kind: str,
    score: ScoreFunction,
    inputs: Sequence[NDArray[Any]],
    baselines: Sequence[NDArray[Any] | None],
    values: NDArray[np.floating],
    steps: int,
    batch_size: int,
) -> ScoreCurve:
    """Go from the inputs to their baselines, or the other way."""
    size = positive("batch_size", batch_size)
    values = np.asarray(values, np.float64)
    for array, baseline in zip(inputs, baselines, strict=True):
        if baseline is not None:
            _check_shapes(array, baseline, values)
    known = int((~np.isnan(values)).sum())
    if not known:
        raise InvalidArgumentError("values that are all NaN have no order")
    order = np.argsort(np.where(np.isnan(values), np.inf, -values), axis=None, kind="stable")
    places = np.empty(values.size, np.int64)
    places[order] = np.arange(values.size)
    rank = places.reshape(values.shape)
    counts = np.unique(np.rint(np.linspace(0, known, min(positive("steps", steps), known) + 1)).astype(int))
    scores = []
    for first in range(0, len(counts), size):
        part = counts[first : first + size]
        batches = []
        for array, baseline in zip(inputs, baselines, strict=True):
            if baseline is None:
                batches.append(np.repeat(array[None], len(part), axis=0))
                continue
            # What has no value is the input's in both.
            own = rank.reshape(*([1] * (array.ndim - rank.ndim)), *rank.shape)
            changed = (own[None] < part.reshape(-1, *([1] * own.ndim))) == (kind == "deletion")
            taken = np.broadcast_to(changed & (own < known), (len(part), *array.shape))
            batches.append(np.where(taken, baseline, array).astype(array.dtype))
        scores.append(checked_scores(score, batches))
    return ScoreCurve(kind, counts / known, np.concatenate(scores))


def _check_shapes(array: NDArray[Any], baseline: NDArray[Any], values: NDArray[np.floating]) -> None:
    """Raise ``InvalidArgumentError`` where they do not go together."""
    if baseline.shape != array.shape:
        raise InvalidArgumentError(f"a baseline of shape {baseline.shape} for an input of shape {array.shape}")
    try:
        np.broadcast_to(values, array.shape)
    except ValueError:
        raise InvalidArgumentError(f"values of shape {values.shape} for an input of shape {array.shape}") from None
