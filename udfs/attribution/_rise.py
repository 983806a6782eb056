"""RISE: the score under random soft masks, and how much it depends on each element's share in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scoring import checked_scores, checked_seed, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scoring import ScoreFunction

__all__ = ["Rise", "rise"]


@dataclass(frozen=True, slots=True)
class Rise:
    """Importance of each element, made by :func:`rise`.

    Attributes
    ----------
    values : array of float64, of the input's spatial extents
        How much higher the score is where an element is shown than where it is hidden, over all masks: positive where
        it supports the target, 0 where it does not matter. NaN where no mask told the two apart.
    saliency : array of float64, of the same shape
        As the paper has it (equation 6): the mean score where an element is shown, which is never below 0 for a
        probability. For many masks ``values`` is ``(saliency - mean score) / (1 - probability)``.
    agreement : float
        Correlation of the maps of two halves of the masks: near 0 it is noise, and takes more masks. NaN for a flat
        map.
    whole : float
        Score of the whole input.
    evaluations : int
        Inputs that the score was asked for.
    """

    values: NDArray[np.float64]
    saliency: NDArray[np.float64]
    agreement: float
    whole: float
    evaluations: int


def rise(
    score: ScoreFunction,
    inputs: Sequence[NDArray[Any]],
    baseline: NDArray[Any],
    spatial: Sequence[int],
    *,
    of: int = 0,
    masks: int = 4000,
    cells: int = 7,
    probability: float = 0.5,
    seed: int = 0,
    batch_size: int = 32,
) -> Rise:
    """Mask an input at random, and compare the scores where an element is shown with those where it is hidden.

    Petsiuk, Das and Saenko, *RISE: randomized input sampling for explanation of black-box models*, BMVC 2018, sections
    3.1 and 3.2. Masks are small grids of ones and zeros, enlarged bilinearly to one cell more than the input, and cut
    out at a random place.

    Parameters
    ----------
    score : callable
        See :data:`ScoreFunction`.
    inputs : sequence of array
        Without the axis of records.
    baseline : array
        What shows through where the mask is 0, in the shape of the masked input.
    spatial : sequence of int
        Axes of the masked input that the masks have; the others are masked alike.
    of : int
        Which input is masked. Default the first.
    masks : int
        Even: the map is also made of two halves. Default 4000.
    cells : int
        Cells of the small grid along each axis. Default 7.
    probability : float
        That a cell is shown. Default 0.5.
    seed : int
    batch_size : int
        Inputs at a time. Default 32.

    Raises
    ------
    InvalidArgumentError
        An odd number of masks, more cells than elements, a probability that is not between 0 and 1.

    Examples
    --------
    >>> def right_half(batches):
    ...     return batches[0][:, :, 4:].mean(axis=(1, 2))
    >>> result = rise(right_half, [np.ones((8, 8))], np.zeros((8, 8)), (0, 1), masks=400, cells=2)
    >>> bool(result.values[:, 6:].min() > result.values[:, :2].max())
    True
    """
    axes, size, seed = tuple(spatial), positive("batch_size", batch_size), checked_seed(seed)
    extents = tuple(inputs[of].shape[axis] for axis in axes)
    if positive("masks", masks) % 2:
        raise InvalidArgumentError(f"masks={masks}: an even number, for two halves are compared")
    if positive("cells", cells) > min(extents):
        raise InvalidArgumentError(f"cells={cells}: the input has {' x '.join(map(str, extents))} elements")
    if not 0 < probability < 1:
        raise InvalidArgumentError(f"probability={probability!r}: between 0 and 1, neither of them")
    whole = float(checked_scores(score, [array[None] for array in inputs])[0])
    random, enlarging = np.random.default_rng(seed), [enlargement(extent, cells) for extent in extents]
    others = tuple(axis for axis in range(inputs[of].ndim) if axis not in axes)
    # Sums by half of the masks: of the mask, of mask times score, of the score, each score less the whole's.
    shown, weighted, total = np.zeros((2, *extents)), np.zeros((2, *extents)), np.zeros(2)
    for first in range(0, masks, size):
        drawn = np.stack(
            [_mask(random, enlarging, extents, cells, probability) for _ in range(min(size, masks - first))]
        )
        soft = np.expand_dims(drawn, tuple(axis + 1 for axis in others))
        batches = [np.repeat(array[None], len(drawn), axis=0) for array in inputs]
        batches[of] = (inputs[of] * soft + baseline * (1 - soft)).astype(inputs[of].dtype)
        falls = checked_scores(score, batches) - whole
        for half in (0, 1):
            mine = (first + np.arange(len(drawn))) % 2 == half
            shown[half] += drawn[mine].sum(axis=0)
            weighted[half] += np.tensordot(falls[mine], drawn[mine], 1)
            total[half] += falls[mine].sum()
    values = _contrast(shown.sum(axis=0), weighted.sum(axis=0), float(total.sum()), masks)
    halves = [_contrast(shown[half], weighted[half], float(total[half]), masks // 2) for half in (0, 1)]
    saliency = (weighted.sum(axis=0) + whole * shown.sum(axis=0)) / (masks * probability)
    return Rise(values, saliency, _correlation(*halves), whole, 1 + masks)


def enlargement(extent: int, cells: int) -> NDArray[np.float64]:
    """Make the matrix that enlarges a line of cells bilinearly to one cell more than an extent.

    Each row sums to 1, so that an enlarged mask has the cells' mean; beyond the outermost centres their value stays.
    """
    cell = math.ceil(extent / cells)
    length = (cells + 1) * cell
    centres = np.clip((np.arange(length) + 0.5) * cells / length - 0.5, 0, cells - 1)
    below = np.minimum(np.floor(centres).astype(np.int64), max(cells - 2, 0))
    matrix = np.zeros((length, cells))
    matrix[np.arange(length), below] += 1 - (centres - below)
    matrix[np.arange(length), np.minimum(below + 1, cells - 1)] += centres - below
    return matrix


def _mask(
    random: np.random.Generator,
    enlarging: Sequence[NDArray[np.float64]],
    extents: Sequence[int],
    cells: int,
    probability: float,
) -> NDArray[np.float64]:
    """Draw a mask: the cells, then the place that is cut out."""
    mask = (random.random((cells,) * len(extents)) < probability).astype(np.float64)
    for axis, (matrix, extent) in enumerate(zip(enlarging, extents, strict=True)):
        first = int(random.integers(0, math.ceil(extent / cells)))
        mask = np.moveaxis(np.tensordot(matrix[first : first + extent], mask, (1, axis)), 0, axis)
    return mask


def _contrast(
    shown: NDArray[np.float64], weighted: NDArray[np.float64], total: float, masks: int
) -> NDArray[np.float64]:
    """Mean score weighted by how much an element is shown, less that weighted by how much it is hidden."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(weighted / shown - (total - weighted) / (masks - shown))


def _correlation(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Correlate two maps where both have values."""
    known = np.isfinite(left) & np.isfinite(right)
    if not known.any() or not (left[known].std() and right[known].std()):
        return float("nan")
    return float(np.corrcoef(left[known], right[known])[0, 1])
