"""Groups of an input's elements, and inputs in which some groups are replaced by a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scored_inputs import in_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scored_inputs import ScoredInputs

__all__ = ["GroupedInputs", "groups_along"]


def groups_along(shape: Sequence[int], axis: int | None = None) -> NDArray[np.int64]:
    """Number the groups of an input by the index along an axis: channels, columns of a table, tokens of a text.

    Parameters
    ----------
    shape : sequence of int
        Shape of the input without the axis of records.
    axis : int, optional
        Axis of the groups. Default: every element is a group.

    Returns
    -------
    array of int64
        Number of each element's group, in a shape that broadcasts to `shape`.

    Raises
    ------
    InvalidArgumentError
        The input has no such axis.

    Examples
    --------
    >>> groups_along((3, 8, 8), 0).ravel()
    array([0, 1, 2])
    """
    if axis is None:
        return np.arange(int(np.prod(shape))).reshape(shape)
    if not -len(shape) <= axis < len(shape):
        raise InvalidArgumentError(f"axis must be one of the {len(shape)} axes of shape {tuple(shape)}, got {axis}")
    axis %= len(shape)
    return np.arange(shape[axis]).reshape([extent if at == axis else 1 for at, extent in enumerate(shape)])


class GroupedInputs:
    """Inputs whose groups of elements are kept or replaced.

    Parameters
    ----------
    baselines : sequence of array
        Replacement by input: an array of its shape, or several draws of it along a first axis. Every input has the same
        number of draws, or one.
    groups : sequence of array of int
        Number of each element's group by input, in a shape that broadcasts to the input's; below 0 for elements that
        are always kept. A group that several inputs share is replaced in all of them at once.

    Raises
    ------
    InvalidArgumentError
        The shape of a baseline or the numbers of the groups do not fit.

    Examples
    --------
    >>> from udfs.attribution import ScoredInputs
    >>> row, zeros = np.array([1.0, -2.0, 4.0]), np.zeros(3)
    >>> grouped = GroupedInputs(ScoredInputs(lambda batches: batches[0].sum(axis=1), [row]), [zeros], [np.arange(3)])
    >>> grouped.scores(np.array([[True, False, True]])).tolist()
    [5.0]
    """

    def __init__(
        self, scored: ScoredInputs, baselines: Sequence[NDArray[Any]], groups: Sequence[NDArray[np.integer]]
    ) -> None:
        self.scored = scored
        self._inputs = [np.asarray(array) for array in scored.inputs]
        self._draws = _check_draws(self._inputs, baselines)
        numbers = np.unique(np.concatenate([np.ravel(_check_integers(array)) for array in groups]))
        numbers = numbers[numbers >= 0]
        if not numbers.size:
            raise InvalidArgumentError("groups must number the elements from 0, got no element with a group")
        self.count = len(numbers)
        # Place of each element's group among all groups; the last place belongs to elements without a group.
        self._places = [np.where(array < 0, self.count, np.searchsorted(numbers, array)) for array in groups]

    @property
    def draws(self) -> int:
        """Number of draws of the baselines."""
        return max(len(drawn) for drawn in self._draws)

    def scores(self, kept: NDArray[np.bool_], draws: NDArray[np.integer] | None = None) -> NDArray[np.float64]:
        """Score the inputs with some of their groups.

        Parameters
        ----------
        kept : array of bool, of shape (subsets, groups)
            Whether a group is kept.
        draws : array of int, of shape (subsets,), optional
            Draw of the baselines that replaces the other groups. Default: the first.
        """
        draws = np.zeros(len(kept), np.int64) if draws is None else draws
        return np.concatenate(
            [
                self.scored.scores(self._changed(kept[rows], draws[rows]))
                for rows in in_batches(range(len(kept)), self.scored.batch_size)
            ]
        )

    def values(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return each element's weight of its group, by input; NaN where it has no group."""
        padded = np.append(weights, np.nan)
        return tuple(
            np.broadcast_to(padded[place], array.shape).copy()
            for place, array in zip(self._places, self._inputs, strict=True)
        )

    def _changed(self, kept: NDArray[np.bool_], draws: NDArray[np.integer]) -> list[NDArray[Any]]:
        kept = np.pad(kept, ((0, 0), (0, 1)), constant_values=True)
        changed = []
        for array, drawn, place in zip(self._inputs, self._draws, self._places, strict=True):
            mask = kept[:, place.reshape([1] * (array.ndim - place.ndim) + list(place.shape))]
            changed.append(np.where(mask, array, drawn[draws % len(drawn)]).astype(array.dtype))
        return changed


def _check_draws(inputs: Sequence[NDArray[Any]], baselines: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Add an axis of draws to each baseline, and check the shapes."""
    if len(baselines) != len(inputs):
        raise InvalidArgumentError(f"baselines must have one for each of {len(inputs)} inputs, got {len(baselines)}")
    draws = []
    for number, (array, baseline) in enumerate(zip(inputs, baselines, strict=True)):
        drawn = np.asarray(baseline)
        drawn = drawn[None] if drawn.ndim == array.ndim else drawn
        if drawn.shape[1:] != array.shape or not len(drawn):
            raise InvalidArgumentError(
                f"the baseline of input {number} must have the input's shape {array.shape}, or several draws of it "
                f"along a first axis, got shape {np.shape(baseline)}"
            )
        draws.append(drawn)
    counts = [len(drawn) for drawn in draws]
    if len({*counts} - {1}) > 1:
        raise InvalidArgumentError(f"baselines must have the same number of draws, or one, got {counts}")
    return draws


def _check_integers(groups: NDArray[np.integer]) -> NDArray[np.integer]:
    if not np.issubdtype(np.asarray(groups).dtype, np.integer):
        raise InvalidArgumentError(f"groups must be integers, the number of each element's group, got {groups.dtype}")
    return groups
