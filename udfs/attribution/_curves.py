"""Deletion and insertion curves: fall and rise of the score in the order of an attribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scored_inputs import check_positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scored_inputs import ScoredInputs

__all__ = ["ScoreCurve", "deletion", "insertion"]


@dataclass(frozen=True, slots=True)
class ScoreCurve:
    """Scores while the elements of an input are removed or restored, the most important first."""

    kind: str  # direction of the curve; one of "deletion", "insertion"
    fractions: NDArray[np.float64]  # fraction of the elements that are changed, from 0 to 1, of shape (steps + 1,)
    scores: NDArray[np.float64]  # score at each fraction, of shape (steps + 1,)

    @property
    def area(self) -> float:
        """Area under the curve: lower is better for deletion, higher for insertion."""
        return float(np.sum(np.diff(self.fractions) * (self.scores[1:] + self.scores[:-1]) / 2))

    def explain(self) -> str:
        """Describe the ends and the area of the curve.

        Examples
        --------
        >>> ScoreCurve("deletion", np.array([0.0, 1.0]), np.array([0.75, 0.25])).explain()
        'deletion: from 0.7500 to 0.2500, area 0.5000 (lower is better)'
        """
        better = "lower" if self.kind == "deletion" else "higher"
        first, last = self.scores[0], self.scores[-1]
        return f"{self.kind}: from {first:.4f} to {last:.4f}, area {self.area:.4f} ({better} is better)"


def deletion(
    scored: ScoredInputs,
    baselines: Sequence[NDArray[Any] | None],
    values: NDArray[np.floating],
    *,
    steps: int = 100,
) -> ScoreCurve:
    """Replace the elements of an input by the baseline, the most important first.

    Petsiuk, Das and Saenko, *RISE*, BMVC 2018, section 4.2. A good attribution has a steep fall: a small area.

    Parameters
    ----------
    baselines : sequence of array or None
        Replacement by input, in its shape; ``None`` for an input that stays.
    values : array of float
        Attribution, in a shape that broadcasts to every changed input's. Elements of NaN stay, and elements of equal
        value are changed in the order of their index.
    steps : int
        Points of the curve after the first, at most the number of values. Default 100.

    Raises
    ------
    InvalidArgumentError
        The values or a baseline have another shape, or all values are NaN.

    Examples
    --------
    >>> from udfs.attribution import ScoredInputs
    >>> row, zeros = np.array([1.0, 2.0, 4.0]), np.zeros(3)
    >>> scored = ScoredInputs(lambda batches: batches[0].sum(axis=1), [row])
    >>> deletion(scored, [zeros], row).scores.tolist()
    [7.0, 3.0, 1.0, 0.0]
    >>> insertion(scored, [zeros], row).scores.tolist()
    [0.0, 4.0, 6.0, 7.0]
    """
    return _curve("deletion", scored, baselines, values, steps)


def insertion(
    scored: ScoredInputs,
    baselines: Sequence[NDArray[Any] | None],
    values: NDArray[np.floating],
    *,
    steps: int = 100,
) -> ScoreCurve:
    """Restore the elements of an input in the baseline, the most important first; see :func:`deletion`.

    The paper's baseline is the blurred image. A good attribution has a steep rise: a large area.
    """
    return _curve("insertion", scored, baselines, values, steps)


def _curve(
    kind: str, scored: ScoredInputs, baselines: Sequence[NDArray[Any] | None], values: NDArray[np.floating], steps: int
) -> ScoreCurve:
    """Change the inputs to their baselines, or the other way."""
    inputs, size = scored.inputs, scored.batch_size
    values = np.asarray(values, np.float64)
    for array, baseline in zip(inputs, baselines, strict=True):
        if baseline is not None:
            _check_shapes(array, baseline, values)
    known = int((~np.isnan(values)).sum())
    if not known:
        raise InvalidArgumentError("values must have a number, got only NaN")
    order = np.argsort(np.where(np.isnan(values), np.inf, -values), axis=None, kind="stable")
    places = np.empty(values.size, np.int64)
    places[order] = np.arange(values.size)
    rank = places.reshape(values.shape)
    counts = np.unique(np.rint(np.linspace(0, known, min(check_positive("steps", steps), known) + 1)).astype(int))
    scores = []
    for first in range(0, len(counts), size):
        part = counts[first : first + size]
        batches = []
        for array, baseline in zip(inputs, baselines, strict=True):
            if baseline is None:
                batches.append(np.repeat(array[None], len(part), axis=0))
                continue
            # Elements without a value keep the input's content in both directions.
            ranks = rank.reshape(*([1] * (array.ndim - rank.ndim)), *rank.shape)
            changed = (ranks[None] < part.reshape(-1, *([1] * ranks.ndim))) == (kind == "deletion")
            replaced = np.broadcast_to(changed & (ranks < known), (len(part), *array.shape))
            batches.append(np.where(replaced, baseline, array).astype(array.dtype))
        scores.append(scored.scores(batches))
    return ScoreCurve(kind, counts / known, np.concatenate(scores))


def _check_shapes(array: NDArray[Any], baseline: NDArray[Any], values: NDArray[np.floating]) -> None:
    """Raise ``InvalidArgumentError`` unless the shapes of an input, its baseline and the values fit."""
    if baseline.shape != array.shape:
        raise InvalidArgumentError(f"baseline must have the input's shape {array.shape}, got {baseline.shape}")
    try:
        np.broadcast_to(values, array.shape)
    except ValueError:
        raise InvalidArgumentError(
            f"values must broadcast to the input's shape {array.shape}, got {values.shape}"
        ) from None
