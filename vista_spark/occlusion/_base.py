"""The base of explanations of an image and of another tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid

__all__ = ["Explained"]


@dataclass(frozen=True)
class Explained:
    """A heat map and its facts; :class:`vista_spark.Explanation` documents the attributes."""

    heat_map: NDArray[np.float32]
    grid: OcclusionGrid
    target: int
    predicted: int
    probability: float
    mode: str
    theoretical_speed_up: float
    seconds: float

    def explain(self) -> str:
        """Say in words what was computed and how long it took."""
        rows, extents = (" x ".join(map(str, numbers)) for numbers in (self.grid.shape, self.grid.patch))
        predicted = f" (predicted: class {self.predicted})" if self.predicted != self.target else ""
        lowest = f"lowest {np.nanmin(self.heat_map):.4f} without a patch of {extents}, of {rows} places"
        theory = f"theoretical speed-up of a place over naive: {self.theoretical_speed_up:.2f}"
        return (
            f"class {self.target} with probability {self.probability:.4f}{predicted}; {lowest}\n"
            f"{self.mode}: {self.seconds:.1f} s; {theory}"
        )
