"""Base class of explanations of an image and of another tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vista_spark.occlusion._caveats import RANDOM_WEIGHTS, flatness
from vista_spark.occlusion._color_scale import fitting_scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid
    from udfs.handlers import Framework
    from udfs.occlusion import HeatMaps, Occlusion

__all__ = ["NOTHING_IN_PARTS", "Explained", "notes_of"]


NOTHING_IN_PARTS = (
    "naive instead of exact: the network has no convolution or pooling, so there is nothing to compute in parts"
)


@dataclass(frozen=True)
class Explained:
    """Heat map and its description; :class:`vista_spark.Explanation` documents the attributes."""

    heat_map: NDArray[np.float32]
    grid: OcclusionGrid
    target: int
    predicted: int
    probability: float
    mode: str
    theoretical_speedup: float
    seconds: float
    score: str = field(default="", kw_only=True)
    verified: int = field(default=0, kw_only=True)
    difference: float = field(default=0.0, kw_only=True)
    computed: int | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    top: tuple[tuple[int, float], ...] = field(default=(), kw_only=True)
    class_names: tuple[str, ...] = field(default=(), kw_only=True)
    likeness: float | None = field(default=None, kw_only=True)
    model: str = field(default="", kw_only=True)
    has_random_weights: bool = field(default=False, kw_only=True)

    @property
    def kind(self) -> str:
        """Kind of the score: ``"probability"``, ``"logit"``, ``"log_odds"``, ``"value"`` or another."""
        return self.score.partition(":")[0] or "probability"

    def name_of(self, element: int) -> str:
        """Return the name of an element of the score, such as ``"tabby"``, or ``"class 281"`` where it is unknown."""
        if element < len(self.class_names) and self.class_names[element]:
            return self.class_names[element]
        return f"{self._element} {element}"

    def explain(self) -> str:
        """Describe the target, the score, the mode, the time, the verification, and reasons not to use the heat map."""
        rows, extents = (" x ".join(map(str, numbers)) for numbers in (self.grid.shape, self.grid.patch))
        predicted = f" (predicted: {self._numbered(self.predicted)})" if self.predicted != self.target else ""
        known = self.heat_map[np.isfinite(self.heat_map)]
        lowest = f"; lowest {known.min():.4f}, with a patch of {extents} at one of {rows} places" if known.size else ""
        theory = f"; theoretical speed-up of a place over naive: {self.theoretical_speedup:.2f}"
        flat = flatness(self.kind, fitting_scale(self.heat_map, self.probability)) if known.size else ""
        lines = [
            *([RANDOM_WEIGHTS] if self.has_random_weights else []),
            f"{self._numbered(self.target)} with {self.kind} {self.probability:.4f}{predicted}{lowest}",
            *([flat] if flat else []),
            *([self.score] if self.score else []),
            f"{self.mode}: {self.seconds:.1f} s" + ("" if self.mode == "naive" else theory),
            *([self._approximation()] if self.mode == "approximate" else []),
            *self.notes,
        ]
        if self.verified:
            places = "1 place" if self.verified == 1 else f"{self.verified} places"
            lines.append(f"{places} verified by the whole network; largest difference {self.difference:.1e}")
        return "\n".join(lines)

    @property
    def _element(self) -> str:
        return "class" if self.kind in ("probability", "log_odds", "logit") else "element"

    def _numbered(self, element: int) -> str:
        name, plain = self.name_of(element), f"{self._element} {element}"
        return plain if name == plain else f"{plain} ({name})"

    def _approximation(self) -> str:
        """Describe the number of computed places and the similarity to the exact heat map."""
        if self.likeness is None:
            return "likeness to the exact heat map unknown: there are too few places for an SSIM"
        if self.likeness == 1 and self.computed == self.grid.count:
            return f"exact: all {self.grid.count} places were computed, as fewer did not reach the likeness"
        return (
            f"{self.computed} of {self.grid.count} places computed; estimated likeness (SSIM) to the exact heat map: "
            f"{self.likeness:.2f}"
        )


def notes_of(framework: Framework, occlusion: Occlusion, occluder: HeatMaps) -> tuple[str, ...]:
    """Describe why the mode is not the one that was wanted, and which layers of a network are computed in parts."""
    changed = (occlusion.note,) if occlusion.note else ()
    return (*changed, *_parts_of(framework, occlusion.mode, occluder))


def _parts_of(framework: Framework, mode: str, occluder: HeatMaps) -> tuple[str, ...]:
    if mode == "naive":
        return ()
    if not framework.incremental:
        return (f"computed in full: {framework.name} networks are not run in parts",)
    means, others = [], []
    for name, op in occluder.patches.ended_by:
        if name in occluder.patches.means:
            means.append(f"{name!r} ({op})")
        else:
            others.append(f"{name!r} ({op}, which has a hook)" if occluder.has_hook(name) else f"{name!r} ({op})")
    if occluder.in_full:
        end = f"; they end at {', '.join((*means, *others))}" if means or others else ""
        return (f"computed in full: parts of the network would cost about as much as all of it{end}",)
    # A mean over all places is updated by the patch's difference; other layers that end the parts are not.
    ends = [
        *([f"up to and including {', '.join(means)}, and in full after it"] if means else []),
        *([f"up to {', '.join(others)}, and in full from there on"] if others else []),
    ]
    return (f"computed in parts {'; '.join(ends)}",) if ends else ()
