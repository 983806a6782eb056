"""Choice of an approximation of heat maps by measurements on a sample of images (Krypton, section 6.4.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.occlusion import update_patches
from udfs.occlusion import Lattice, fitted, spread_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.graph import LayerGraph
    from udfs.occlusion import Measured, Occlusion

__all__ = ["Choice", "choose_approximation"]

# Share of the places, at most, for places chosen per image. Surfaces and small batches take time, too: with 0.9 of the
# places, heat maps of MobileNetV2 took 1.02 to 1.31 times as long as exact ones.
_WORTHWHILE = 0.8


@dataclass(frozen=True, slots=True)
class Choice:
    """Approximation of heat maps, and its savings.

    With ``per_image``, places are computed exactly, image by image, until the target is reached. ``tau`` is the
    threshold of projective field thresholding, ``step`` the ratio of the strides of stage one and stage two (1 is
    without drill-down), ``likeness`` the mean estimated SSIM on the sample of ``images``. ``cost`` is that of a heat
    map relative to an exact one, and ``fit_cost`` that of the measurements in exact heat maps, both by FLOPs. Seconds
    are those of the measurements in tasks, of an exact heat map, and of an approximate one.
    """

    per_image: bool
    tau: float
    step: int
    likeness: float
    cost: float
    images: int
    fit_cost: float
    fit_seconds: float
    exact_seconds: float
    seconds: float

    @property
    def is_exact(self) -> bool:
        """True if no approximation saves time, so that heat maps are exact."""
        return self.cost >= 1

    @property
    def break_even(self) -> float:
        """Number of images after which the time of the measurements is saved; infinite where none is."""
        saved = self.exact_seconds - self.seconds
        return math.ceil(self.fit_seconds / saved) if saved > 0 and not self.is_exact else math.inf

    def explain(self) -> str:
        """Describe the measurements, the choice, and the number of images after which they pay off."""
        way = f"tau {self.tau:.2f}" + (f", drill-down from every {self.step}. place" if self.step > 1 else "")
        if self.is_exact:
            way = "exact heat maps: no approximation reaches the target in less time"
        elif self.per_image:
            way = "places of each image until the target is reached"
        gain = "never: nothing is saved" if math.isinf(self.break_even) else f"after {self.break_even:.0f} images"
        lines = [
            f"chosen: {way}; estimated SSIM {self.likeness:.2f}, {self.cost:.2f} of an exact heat map's FLOPs",
            f"measured on {self.images} images: {self.fit_seconds:.1f} s, FLOPs of {self.fit_cost:.1f} exact maps",
            f"per image: {self.exact_seconds:.2f} s exactly, about {self.seconds:.2f} s so; repaid {gain}",
        ]
        return "\n".join(lines)


def choose_approximation(
    measured: Sequence[Measured], target: float, occlusion: Occlusion, graph: LayerGraph
) -> Choice:
    """Choose the cheapest approximation whose SSIM reaches a target on the sample; exact heat maps where none does."""

    def flops(tau: float) -> float:
        patches = update_patches(graph, occlusion.grid, threshold=tau)
        return patches.mean_flops + patches.whole_flops

    whole, count = flops(1.0), occlusion.grid.count
    # An approximate heat map computes these places exactly as well, to estimate its likeness.
    sample = float(spread_places(occlusion.grid.shape).sum()) / count
    exact_seconds = float(np.mean([each.exact_seconds for each in measured]))
    ways: list[tuple[float, float, bool, float, int, float]] = []  # cost, seconds, per image, tau, step, likeness
    share = float(np.mean([each.share for each in measured]))
    if target < 1 and share <= _WORTHWHILE:
        seconds = float(np.mean([each.sampled_seconds for each in measured]))
        ways.append((share, seconds, True, 1.0, 1, float(np.mean([each.likeness for each in measured]))))
    taus = [each.taus for each in measured]
    for similarities, step in (
        ([each.plain for each in measured], 1),
        ([each.drilled for each in measured], occlusion.step),
    ):
        curve = fitted(similarities, taus)
        tau = curve.lowest(target)
        if tau is not None:
            places = Lattice(occlusion.grid, step).places(occlusion.fraction) if step > 1 else count
            cost = places / count * flops(tau) / whole + sample
            ways.append((cost, cost * exact_seconds, False, tau, step, curve.at(tau)))
    best = min(ways, default=None)
    if best is None or best[0] >= 1:
        best = (1.0, exact_seconds, False, 1.0, 1, 1.0)
    cost, seconds, per_image, tau, step, likeness = best
    return Choice(
        per_image, tau, step, likeness, cost, len(measured), sum(each.cost for each in measured),
        sum(each.seconds for each in measured), exact_seconds, seconds,
    )  # fmt: skip
