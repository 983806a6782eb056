"""RISE: dependence of the score on each element's share in random soft masks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scored_inputs import Importance, check_positive, check_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scored_inputs import ScoredInputs

__all__ = ["rise"]


def rise(
    scored: ScoredInputs,
    baseline: NDArray[Any],
    spatial: Sequence[int],
    *,
    place: int = 0,
    masks: int = 4000,
    cells: int = 7,
    probability: float = 0.5,
    seed: int = 0,
) -> Importance:
    """Mask an input at random and compare the scores where an element is visible with those where it is hidden.

    Petsiuk, Das and Saenko, *RISE: randomized input sampling for explanation of black-box models*, BMVC 2018, sections
    3.1 and 3.2. Masks are small grids of ones and zeros, enlarged bilinearly to one cell more than the input and
    cropped at a random place.

    Parameters
    ----------
    baseline : array
        Content where the mask is 0, in the shape of the masked input.
    spatial : sequence of int
        Axes of the masked input that the masks have; the others are masked alike.
    place : int
        Index of the masked input. Default 0.
    masks : int
        Number of masks, even. Default 4000.
    cells : int
        Cells of the small grid along each axis. Default 7.
    probability : float
        Probability that a cell is visible. Default 0.5.
    seed : int
        Seed of the masks. Default 0.

    Returns
    -------
    Importance
        One array of the input's spatial extents: mean score weighted by an element's visibility minus that weighted by
        its absence; for many masks the paper's saliency, equation 6, centred and scaled. NaN where no mask separates
        the two. ``measures["agreement"]`` is the correlation of the maps of two halves of the masks, NaN for a flat
        map.

    Raises
    ------
    InvalidArgumentError
        The number of masks is odd, there are more cells than elements, or the probability is not between 0 and 1.

    Examples
    --------
    >>> from udfs.attribution import ScoredInputs
    >>> scored = ScoredInputs(lambda batches: batches[0][:, :, 4:].mean(axis=(1, 2)), [np.ones((8, 8))])
    >>> (values,) = rise(scored, np.zeros((8, 8)), (0, 1), masks=400, cells=2).values
    >>> bool(values[:, 6:].min() > values[:, :2].max())
    True
    """
    inputs, size, seed = scored.inputs, scored.batch_size, check_seed(seed)
    extents = tuple(inputs[place].shape[axis] for axis in spatial)
    if check_positive("masks", masks) % 2:
        raise InvalidArgumentError(f"masks must be an even number, got {masks}; two halves are compared")
    if check_positive("cells", cells) > min(extents):
        raise InvalidArgumentError(f"cells must be at most the extents {' x '.join(map(str, extents))}, got {cells}")
    if not 0 < probability < 1:
        raise InvalidArgumentError(f"probability must be above 0 and below 1, got {probability!r}")
    random, enlarging = np.random.default_rng(seed), [enlargement(extent, cells) for extent in extents]
    others = tuple(axis for axis in range(inputs[place].ndim) if axis not in spatial)
    # Sums by half of the masks: of the mask, of mask times score, of the score, each score minus the whole's.
    visible, weighted, total = np.zeros((2, *extents)), np.zeros((2, *extents)), np.zeros(2)
    for first in range(0, masks, size):
        drawn = np.stack(
            [_mask(random, enlarging, extents, cells, probability) for _ in range(min(size, masks - first))]
        )
        soft = np.expand_dims(drawn, tuple(axis + 1 for axis in others))
        batches = [np.repeat(array[None], len(drawn), axis=0) for array in inputs]
        batches[place] = (inputs[place] * soft + baseline * (1 - soft)).astype(inputs[place].dtype)
        falls = scored.scores(batches) - scored.whole
        for half in (0, 1):
            members = (first + np.arange(len(drawn))) % 2 == half
            visible[half] += drawn[members].sum(axis=0)
            weighted[half] += np.tensordot(falls[members], drawn[members], 1)
            total[half] += falls[members].sum()
    values = _contrast(visible.sum(axis=0), weighted.sum(axis=0), float(total.sum()), masks)
    halves = [_contrast(visible[half], weighted[half], float(total[half]), masks // 2) for half in (0, 1)]
    return Importance((values,), scored.whole, 1 + masks, measures={"agreement": _correlation(*halves)})


def enlargement(extent: int, cells: int) -> NDArray[np.float64]:
    """Return the matrix that enlarges a line of cells bilinearly to one cell more than an extent.

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
    """Draw a mask: the cells, then the place of the crop."""
    mask = (random.random((cells,) * len(extents)) < probability).astype(np.float64)
    for axis, (matrix, extent) in enumerate(zip(enlarging, extents, strict=True)):
        first = int(random.integers(0, math.ceil(extent / cells)))
        mask = np.moveaxis(np.tensordot(matrix[first : first + extent], mask, (1, axis)), 0, axis)
    return mask


def _contrast(
    visible: NDArray[np.float64], weighted: NDArray[np.float64], total: float, masks: int
) -> NDArray[np.float64]:
    """Compute the mean score weighted by an element's visibility minus that weighted by its absence."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(weighted / visible - (total - weighted) / (masks - visible))


def _correlation(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Correlate two maps where both have values."""
    known = np.isfinite(left) & np.isfinite(right)
    if not known.any() or not (left[known].std() and right[known].std()):
        return float("nan")
    return float(np.corrcoef(left[known], right[known])[0, 1])
