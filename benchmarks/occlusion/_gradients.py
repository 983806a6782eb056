"""Figure B.6 of appendix B.8: integrated gradients beside occlusion, on three photographs."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.harness.charts import panels
from benchmarks.occlusion._bench import Bench
from udfs.attribution import ScoredInputs, blurred, deletion, insertion, mean_over_places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options
    from optimizer.occlusion import OcclusionGrid

__all__ = ["gradients"]

_PHOTOGRAPHS = 3

# The seeds' number.
_STEPS = 50

# Points of the curves of deletion and insertion.
_POINTS = 20

# Pixels of the blur from which insertion starts.
_BLUR = (25, 25)


def gradients(options: Options, report: Report) -> Figure | None:
    """Appendix B.8: seconds, pictures, and how well each map orders the places.

    Integrated gradients are judged as occlusion is, by their mean over each place of the patch: single pixels, deleted
    here and there, destroy any picture.
    """
    if importlib.util.find_spec("captum") is None:
        report.note('B.8 needs captum: pip install "captum>=0.8,<1"')
        return None
    from captum.attr import IntegratedGradients  # an optional package

    (name, *_) = options.models
    bench = Bench(name, options)
    grid = bench.grid()
    naive = bench.naive(grid)()
    occluder = bench.occluder(grid)
    integrate = IntegratedGradients(bench.network)
    rows, pictures = [], []
    seconds: dict[str, list[float]] = {"exact": [], "gradients": []}
    for photograph in range(_PHOTOGRAPHS):
        pixels, image = bench.pixels(photograph), bench.image(photograph)
        began = bench.now()
        heat_map = occluder.heat_map(occluder.opened(pixels))
        seconds["exact"].append(bench.now() - began)
        began = bench.now()
        attributed = integrate.attribute(
            image.requires_grad_(), target=heat_map.target, n_steps=_STEPS, internal_batch_size=options.batch_size
        )
        seconds["gradients"].append(bench.now() - began)
        # The three colours of a pixel are one number by their L2 norm.
        by_gradient = attributed.detach()[0].norm(dim=0).numpy()
        by_patch = mean_over_places(heat_map.probability - heat_map.values, grid)
        maps = {"occlusion": by_patch, "gradients": mean_over_places(_within(by_gradient, grid), grid)}
        areas = {
            f"{curve.__name__}.{way}": curve(
                ScoredInputs(_probability(bench, heat_map.target), [pixels]), [start], values, steps=_POINTS
            ).area
            for curve, start in ((deletion, np.zeros_like(pixels)), (insertion, _blurred(pixels)))
            for way, values in maps.items()
        }
        for key, area in areas.items():
            report.ratio(f"{key}.{name}.{photograph + 1}", area, "area under the curve of the probability")
        rows.append(
            (
                f"photograph {photograph + 1}, class {heat_map.target}, {heat_map.probability:.2f}",
                f"{naive:.1f}",
                *(f"{seconds[way][-1]:.1f}" for way in ("exact", "gradients")),
                *(" / ".join(f"{areas[f'{curve}.{way}']:.3f}" for way in maps) for curve in ("deletion", "insertion")),
                "occlusion localises better in general",
            )
        )
        pictures.append((_shown(bench, pixels), by_gradient, by_patch))
    integrated = float(np.median(seconds["gradients"]))
    meaning = f"seconds / those of integrated gradients in {_STEPS} steps"
    report.ratio(f"naive_over_gradients.{name}", naive / integrated, f"naive occlusion's {meaning}")
    exact = float(np.median(seconds["exact"]))
    report.ratio(f"exact_over_gradients.{name}", exact / integrated, f"exact occlusion's {meaning}")
    columns = (
        "photograph",
        "naive, s",
        "exact, s",
        f"gradients, {_STEPS} steps, s",
        "deletion: occlusion / gradients",
        "insertion: occlusion / gradients",
        "the seeds",
    )
    report.table(f"Appendix B.8: {name}, patch {options.patch}, stride {options.stride}", columns, rows)
    report.note("Deletion and insertion: areas under the probability's curve, lower and higher is better.")
    return _drawn(pictures)


def _within(values: NDArray[np.floating], grid: OcclusionGrid) -> NDArray[np.float64]:
    """The mean of a map within each place of the patch."""
    means = np.empty(grid.shape)
    rows, columns = grid.starts(0), grid.starts(1)
    for row, column in np.ndindex(grid.shape):
        top, left = rows[row], columns[column]
        means[row, column] = values[top : top + grid.patch[0], left : left + grid.patch[1]].mean()
    return means


def _blurred(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    return blurred(pixels, (1, 2), _BLUR).astype(np.float32)


def _probability(bench: Bench, target: int) -> Callable[[Sequence[NDArray[Any]]], NDArray[np.floating]]:
    """A function from a batch of pixels to the target's probability."""

    def score(batches: Sequence[NDArray[Any]]) -> NDArray[np.floating]:
        with torch.inference_mode():
            return bench.network(torch.from_numpy(batches[0])).softmax(dim=1)[:, target].numpy()

    return score


def _shown(bench: Bench, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    std, mean = (np.reshape(values, (3, 1, 1)) for values in (bench.preprocessing.std, bench.preprocessing.mean))
    shown: NDArray[np.float32] = np.clip(pixels * std + mean, 0, 1).transpose(1, 2, 0)
    return shown


def _drawn(pictures: list[tuple[NDArray[np.floating], ...]]) -> Figure:
    figure, axes = panels("Appendix B.8", len(pictures) * 3, height=2.4)
    figure.set_size_inches(1.6 * len(axes), 2.0)
    for number, (photograph, by_gradient, by_patch) in enumerate(pictures):
        three = axes[3 * number : 3 * number + 3]
        for axis, title in zip(three, ("photograph", "integrated gradients", "occlusion"), strict=True):
            axis.set_title(title, fontsize=9)
        three[0].imshow(photograph)
        three[1].imshow(by_gradient, cmap="inferno", vmax=float(np.quantile(by_gradient, 0.99)))
        three[2].imshow(by_patch, cmap="jet")
        for axis in three:
            axis.set_axis_off()
    return figure
