"""From one number per place of a patch to one per element of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid

__all__ = ["mean_over_places"]


def mean_over_places(effects: NDArray[np.floating], grid: OcclusionGrid) -> NDArray[np.float64]:
    """Give each element of the input the mean over the places whose patch covers it, as captum's ``Occlusion`` does.

    Parameters
    ----------
    effects : array of float, of the grid's shape
        The score of the whole input minus the score with the patch there.
    grid : OcclusionGrid

    Returns
    -------
    array of float64, of shape ``grid.image``
        NaN where no patch comes.

    Raises
    ------
    InvalidArgumentError
        Effects of another shape, or not of every place.

    Examples
    --------
    >>> from optimizer.occlusion import OcclusionGrid
    >>> mean_over_places(np.array([[1.0, 3.0]]), OcclusionGrid((2, 3), (2, 2), (1, 1)))
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """
    if effects.shape != grid.shape:
        raise InvalidArgumentError(f"effects of shape {effects.shape} for a grid of {grid.shape}: one for each place")
    if not np.isfinite(effects).all():
        missing = int((~np.isfinite(effects)).sum())
        raise InvalidArgumentError(f"{missing} of {effects.size} places are not computed: wait for the whole heat map")
    sums, counts = effects.astype(np.float64), np.ones(grid.shape)
    for axis, (extent, patch) in enumerate(zip(grid.image, grid.patch, strict=True)):
        after = np.arange(extent)[:, None] - np.asarray(grid.starts(axis))[None, :]
        covers = ((after >= 0) & (after < patch)).astype(np.float64)  # elements by places, of this axis
        sums, counts = (np.moveaxis(np.tensordot(covers, part, (1, axis)), 0, axis) for part in (sums, counts))
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts)
