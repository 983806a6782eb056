"""Progress of an explanation: computed places, remaining seconds and current heat map."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udfs.occlusion import nearest_known

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Progress"]


@dataclass(frozen=True)
class Progress:
    """State of an explanation in progress; ``on_progress`` receives one after each batch.

    Attributes
    ----------
    heat_map : array of float32, of the grid's shape, or (targets, *grid) for several targets
        Heat map with NaN where it is not computed yet. Places are computed from coarse to fine, each level a lattice of
        half the stride.
    done, total : int
        Number of computed places, and of places to compute. In the approximate mode `total` is an upper bound, and
        estimated places count as computed at the end.
    seconds : float
        Seconds since the network began with the image.
    seconds_left : float
        Estimate of the seconds until the heat map is complete and verified.
    """

    heat_map: NDArray[np.float32]
    done: int
    total: int
    seconds: float
    seconds_left: float

    def filled(self) -> NDArray[np.float32]:
        """Return the heat map for display: places that are not computed yet have the value of the nearest coarser one.

        Examples
        --------
        >>> coarse = np.array([[0.25, np.nan, 0.5], [np.nan, np.nan, np.nan]], np.float32)
        >>> Progress(coarse, 2, 6, 0.1, 0.2).filled().tolist()
        [[0.25, 0.5, 0.5], [0.25, 0.5, 0.5]]
        """
        if self.heat_map.ndim > 2:  # rows and columns
            return np.stack([nearest_known(heat_map) for heat_map in self.heat_map])
        return nearest_known(self.heat_map)

    def to_json(self) -> str:
        """Return the progress as a JSON object; a place that is not computed yet is null.

        Examples
        --------
        >>> Progress(np.array([[0.5, np.nan]], np.float32), 1, 2, 0.25, 0.25).to_json()
        '{"done": 1, "total": 2, "seconds": 0.25, "seconds_left": 0.25, "heat_map": [[0.5, null]]}'
        """
        numbers = self.heat_map.astype(object)
        numbers[np.isnan(self.heat_map)] = None
        facts = {name: getattr(self, name) for name in ("done", "total", "seconds", "seconds_left")}
        return json.dumps({**facts, "heat_map": numbers.tolist()}, allow_nan=False)
