"""Groups of an input's elements that are replaced together: channels, columns, tokens, superpixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["check_groups", "group_masks", "groups_along"]


def groups_along(shape: Sequence[int], axis: int | None = None) -> NDArray[np.int64]:
    """Make every index of an axis a group: channels of a tensor, columns of a table, tokens of a text.

    Parameters
    ----------
    shape : sequence of int
        Of the input, without the axis of records.
    axis : int, optional
        Without one, every element is a group of its own.

    Returns
    -------
    array of int64
        Number of the group, in a shape that broadcasts to `shape`.

    Raises
    ------
    InvalidArgumentError
        There is no such axis.

    Examples
    --------
    >>> groups_along((3, 8, 8), 0).ravel()
    array([0, 1, 2])
    """
    if axis is None:
        return np.arange(int(np.prod(shape))).reshape(shape)
    if not -len(shape) <= axis < len(shape):
        raise InvalidArgumentError(f"axis={axis}: the input has {len(shape)} axes, of shape {tuple(shape)}")
    own = axis % len(shape)
    return np.arange(shape[own]).reshape([extent if at == own else 1 for at, extent in enumerate(shape)])


def group_masks(groups: Sequence[NDArray[np.integer]]) -> list[tuple[NDArray[np.bool_] | None, ...]]:
    """Make a mask per group and input; a group that several inputs have is replaced in all of them at once.

    Parameters
    ----------
    groups : sequence of array of int
        For each input the number of each element's group; below 0 it belongs to none and stays.

    Returns
    -------
    list of tuples
        In the order of the groups' numbers; ``None`` for an input without the group.

    Raises
    ------
    InvalidArgumentError
        Numbers that are not whole, or no group.

    Examples
    --------
    >>> masks = group_masks([np.array([0, 0, 1, -1])])
    >>> [mask.astype(int).tolist() for (mask,) in masks]
    [[1, 1, 0, 0], [0, 0, 1, 0]]
    """
    arrays = [check_groups(array) for array in groups]
    numbers = sorted({int(number) for array in arrays for number in np.unique(array) if number >= 0})
    if not numbers:
        raise InvalidArgumentError("groups: no element has a group; number them from 0 on")
    masks = []
    for number in numbers:
        parts = (array == number for array in arrays)
        masks.append(tuple(part if part.any() else None for part in parts))
    return masks


def check_groups(groups: NDArray[np.integer]) -> NDArray[np.integer]:
    """Raise ``InvalidArgumentError`` unless these are whole numbers."""
    array = np.asarray(groups)
    if not np.issubdtype(array.dtype, np.integer):
        raise InvalidArgumentError(f"groups of {array.dtype}: the number of each element's group, a whole number")
    return array
