"""Mean over the places of a patch that cover an element of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid

__all__ = ["mean_over_places"]


def mean_over_places(effects: NDArray[np.floating], grid: OcclusionGrid) -> NDArray[np.float64]:
    """Return for each element the mean over the places whose patch covers it, as captum's ``Occlusion`` does.

    Parameters
    ----------
    effects : array of float, of the grid's shape
        Score of the whole input minus the score with the patch there.

    Returns
    -------
    array of float64, of shape ``grid.image``
        Mean effects; NaN where no patch covers an element.

    Raises
    ------
    InvalidArgumentError
        The effects have another shape, or some are not finite.

    Examples
    --------
    >>> from optimizer.occlusion import OcclusionGrid
    >>> mean_over_places(np.array([[1.0, 3.0]]), OcclusionGrid((2, 3), (2, 2), (1, 1)))
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """
    if effects.shape != grid.shape:
        raise InvalidArgumentError(f"effects must have the grid's shape {grid.shape}, got {effects.shape}")
    if not np.isfinite(effects).all():
        missing = int((~np.isfinite(effects)).sum())
        raise InvalidArgumentError(
            f"effects must be finite, got {missing} of {effects.size} places that are not computed"
        )
    sums, counts = effects.astype(np.float64), np.ones(grid.shape)
    for axis, (extent, patch) in enumerate(zip(grid.image, grid.patch, strict=True)):
        after = np.arange(extent)[:, None] - np.asarray(grid.starts(axis))[None, :]
        covers = ((after >= 0) & (after < patch)).astype(np.float64)  # elements by places, of this axis
        sums, counts = (np.moveaxis(np.tensordot(covers, part, (1, axis)), 0, axis) for part in (sums, counts))
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts)
