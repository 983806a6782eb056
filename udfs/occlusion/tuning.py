"""Measure approximate heat maps on a sample of images (Krypton, section 6.4.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from udfs.occlusion._curve import TAUS
from udfs.occlusion._drill import Lattice
from udfs.occlusion._similarity import similarity
from udfs.occlusion.occluder import Occluder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.handlers.torch import TorchModel
    from udfs.occlusion._settings import Occlusion

__all__ = ["Tuning"]


class Tuning:
    """Measures the SSIM of one image's approximate heat maps for every tau, with and without drill-down.

    Parameters
    ----------
    model : TorchModel
    occlusion : Occlusion
        In the approximate mode; its tau does not count.
    """

    def __init__(self, model: TorchModel, occlusion: Occlusion) -> None:
        self._occlusion = occlusion
        every = replace(occlusion, mode="approximate", step=1)
        self._exact = Occluder(model, replace(occlusion, mode="exact")) if occlusion.in_bfloat16 else None
        self._occluders = [Occluder(model, replace(every, tau=tau)) for tau in TAUS]

    def measure(self, pixels: NDArray[np.float32], target: int | None = None) -> tuple[list[float], list[float]]:
        """SSIM with the exact heat map at each of :data:`udfs.occlusion.TAUS`: of all places, and after drill-down.

        What drill-down computes is a part of what is known then, so that it costs nothing more.

        Parameters
        ----------
        pixels : array of float32, of the network's input
        target : int, optional
        """
        image = self._occluders[0].opened(pixels)
        maps = [occluder.heat_map(image, target).values for occluder in self._occluders]
        exact = self._exact.heat_map(self._exact.opened(pixels), target).values if self._exact else maps[0]
        return [similarity(exact, found) for found in maps], [similarity(exact, self._drilled(m)) for m in maps]

    def _drilled(self, whole: NDArray[np.float32]) -> NDArray[np.floating]:
        lattice = Lattice(self._occlusion.grid, self._occlusion.step)
        known = lattice.first | lattice.second(whole, self._occlusion.fraction)
        return lattice.filled(np.where(known, whole, np.nan))
