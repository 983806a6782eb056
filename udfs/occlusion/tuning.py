"""Measurements of approximate heat maps on a sample of images (Krypton, section 6.4.3)."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from udfs.occlusion._drill_down import Lattice
from udfs.occlusion._gaussian_process import Surface
from udfs.occlusion._sampling import Sampling, coordinates
from udfs.occlusion._similarity import similarity
from udfs.occlusion._tau_curve import bisected
from udfs.occlusion._tuning_result import TAUS_MEASURED, Measured
from udfs.occlusion.occluder import Occluder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.handlers.torch import TorchModel
    from udfs.occlusion._occlusion import Occlusion
    from udfs.occlusion.occluder import Opened

__all__ = ["Tuning"]

# Taus that are measured lie between this one and 1.
_LEAST_TAU = 0.3

# Of the exact map and its approximations, for an estimate.
_DRAWS = 6

# The rounds have a target below 1.
_HIGHEST_TARGET = 0.99


class Tuning:
    """Measurement of approximate heat maps, one image at a time, from a part of its places.

    Rounds of places are computed exactly until the rest is estimated well enough; the first round is computed again for
    some taus, on the same views. Draws of the exact map, and of a tau's difference from it, estimate the SSIM.

    Parameters
    ----------
    occlusion : Occlusion
        Settings of the approximate mode, with the step of drill-down; its tau is ignored.
    target : float
        SSIM to reach.
    """

    def __init__(self, model: TorchModel, occlusion: Occlusion, target: float) -> None:
        self._model, self._target = model, target
        self._occlusion = replace(occlusion, mode="approximate", target_ssim=None, step=1)
        self._lattice = Lattice(occlusion.grid, occlusion.step)
        self._exact = Occluder(model, replace(occlusion, mode="exact", verify=0))
        self._occluders: dict[float, Occluder] = {}

    def measure(self, pixels: NDArray[np.float32], target: int | None = None) -> Measured:
        """Measure one image for a target, by default the largest element of its score.

        Raises
        ------
        udfs.occlusion.TargetError, udfs.occlusion.ScoreError
            As :meth:`udfs.occlusion.occluder.Occluder.heat_map`.
        """
        started = time.perf_counter()
        image = self._exact.opened(pixels)
        opened, element = time.perf_counter() - started, self._exact.element(image, target)
        grid = self._occlusion.grid
        values = np.full((1, *grid.shape), np.nan, np.float32)
        sampling, rounds, seconds = Sampling(grid, min(self._target, _HIGHEST_TARGET)), [], 0.0
        for places in sampling.rounds(values):
            began = time.perf_counter()
            values[0, places] = _computed(self._exact, image, element, places)[places]
            seconds += time.perf_counter() - began
            rounds.append(places)
        sampled_seconds = time.perf_counter() - started
        share, first = float((~np.isnan(values)).mean()), rounds[0]
        (mean,) = sampling.filled(values)
        spent = [share]

        def departures(tau: float) -> Callable[[np.random.Generator], NDArray[np.floating]]:
            """Return a function that draws the difference between the map of a tau and the exact one."""
            occluder = self._occluder(tau)
            seen = occluder.opened(pixels) if self._occlusion.in_bfloat16 else image
            spent.append(float(first.mean()) * _flops(occluder) / _flops(self._exact))
            known = _computed(occluder, seen, element, first) - np.where(first, values[0], np.nan)
            return Surface.through(known, coordinates(grid), mean).draw

        measured: dict[float, tuple[float, float]] = {}

        def likeness(tau: float) -> float:
            is_exact = tau == 1 and not self._occlusion.in_bfloat16
            departing = (lambda _: np.zeros(grid.shape)) if is_exact else departures(tau)
            measured[tau] = self._likeness(sampling, values, departing)
            return measured[tau][0]

        likeness(1.0)
        bisected(likeness, self._target, low=_LEAST_TAU, high=1.0, steps=TAUS_MEASURED)
        plain, drilled = zip(*measured.values(), strict=True)
        return Measured(
            share, sampling.likeness[0], tuple(measured), plain, drilled, sum(spent),
            time.perf_counter() - started, opened + seconds / share, sampled_seconds,
        )  # fmt: skip

    def _likeness(
        self,
        sampling: Sampling,
        values: NDArray[np.float32],
        departing: Callable[[np.random.Generator], NDArray[np.floating]],
    ) -> tuple[float, float]:
        """Estimate the SSIM of a map with differences, whole and after drill-down, as means over draws."""
        random, estimates = np.random.default_rng(0), []
        for _ in range(_DRAWS):
            (exact,) = sampling.drawn(values, random)
            rough = exact + departing(random)
            estimates.append((similarity(exact, rough), similarity(exact, self._drilled(rough))))
        plain, drilled = np.mean(estimates, axis=0)
        return float(plain), float(drilled)

    def _drilled(self, whole: NDArray[np.floating]) -> NDArray[np.floating]:
        if self._lattice.step == 1:
            return whole
        known = self._lattice.first | self._lattice.second(whole, self._occlusion.fraction)
        return self._lattice.filled(np.where(known, whole, np.nan))

    def _occluder(self, tau: float) -> Occluder:
        if tau not in self._occluders:
            self._occluders[tau] = Occluder(self._model, replace(self._occlusion, tau=tau))
        return self._occluders[tau]


def _computed(occluder: Occluder, image: Opened, element: int, places: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Compute some places of one element's heat map; the others are NaN."""
    values = np.full(places.shape, np.nan, np.float32)
    for index, scores in occluder.values(image, occluder.settle(image), [element], places):
        values[tuple(index.T)] = scores[:, 0]
    return values


def _flops(occluder: Occluder) -> float:
    return occluder.patches.mean_flops + occluder.patches.whole_flops
