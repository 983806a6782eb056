"""Inputs of which some groups of elements are there, and the others replaced by a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.attribution._scoring import checked_scores, in_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scoring import ScoreFunction

__all__ = ["Subsets"]


class Subsets:
    """Inputs by the groups that are there.

    Parameters
    ----------
    inputs, baselines : sequence of array
        Of one shape each.
    groups : sequence of array of int
        In a shape that broadcasts to the input's.
    masks : sequence of tuples
        As :func:`group_masks` makes them of the groups.
    """

    def __init__(
        self,
        inputs: Sequence[NDArray[Any]],
        baselines: Sequence[NDArray[Any]],
        groups: Sequence[NDArray[np.integer]],
        masks: Sequence[Sequence[NDArray[np.bool_] | None]],
    ) -> None:
        self._inputs, self._baselines = inputs, baselines
        # Of each element the place of its group among all groups, or the place after them where it has none.
        self._places = []
        for number, array in enumerate(groups):
            place = np.full(np.shape(array), len(masks), np.int64)
            for at, mask in enumerate(masks):
                part = mask[number]
                if part is not None:
                    place[part] = at
            self._places.append(place)

    def scores(self, score: ScoreFunction, there: NDArray[np.bool_], batch_size: int) -> NDArray[np.float64]:
        """Score the inputs with some of their groups; an element without a group is always there.

        Parameters
        ----------
        score : callable
        there : array of bool, of shape (subsets, groups)
        batch_size : int
        """
        return np.concatenate([self._scored(score, np.stack(rows)) for rows in in_batches(there, batch_size)])

    def values(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Give each element its group's weight, in the shape of each input; NaN where it has no group."""
        padded = np.append(weights, np.nan)
        return tuple(
            np.broadcast_to(padded[place], array.shape).copy()
            for place, array in zip(self._places, self._inputs, strict=True)
        )

    def _scored(self, score: ScoreFunction, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
        there = np.pad(rows, ((0, 0), (0, 1)), constant_values=True)
        changed = []
        for array, baseline, place in zip(self._inputs, self._baselines, self._places, strict=True):
            own = there[:, place.reshape([1] * (array.ndim - place.ndim) + list(place.shape))]
            kept = np.broadcast_to(own, (len(rows), *array.shape))
            changed.append(np.where(kept, array, baseline).astype(array.dtype))
        return checked_scores(score, changed)
