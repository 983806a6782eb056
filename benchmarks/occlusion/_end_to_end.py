"""Figure 6.10: a whole heat map the naive way, by captum, exactly and approximately."""

from __future__ import annotations

import importlib.util
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.harness.charts import grouped, panels
from benchmarks.occlusion._bench import Bench, Turns, sampled, take_turns
from benchmarks.occlusion._memory import peak_of
from optimizer.occlusion import stage_one_step
from udfs.incremental import IncrementalNetwork
from udfs.occlusion import similarity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options
    from optimizer.occlusion import OcclusionGrid, UpdatePatches
    from udfs.occlusion.occluder import Occluder

__all__ = ["end_to_end"]

_ASKED = "as asked"

# What `mode="approximate"` does without other options: exact places until the estimated SSIM is reached.
_DEFAULT = "the default"

# Fraction and target of the seeds' datasets (section 6.5.1), in addition to those that were asked for.
_SEEDS_SETTINGS: Mapping[str, tuple[float, float]] = {
    "as for OCT": (0.1, 5.0),
    "as for Chest X-Ray": (0.4, 2.0),
    "as for ImageNet": (0.25, 3.0),
}

# Of the text, on a CPU and a GPU.
_SEEDS_EXACT = {"vgg16": "5.4 (GPU 3.9)", "resnet18": "almost theory", "inception_v3": "(GPU 0.7)"}
_SEEDS_APPROXIMATE = {"vgg16": "up to 34.5 (GPU 16)", "inception_v3": "up to 8 (GPU 4.5)"}


@dataclass(frozen=True)
class _Measured:
    """One network's turns.

    Attributes
    ----------
    bench : Bench
    grid : OcclusionGrid
    turns : Turns
        Of ``"exact"``, ``"checked"``, a way for each setting and perhaps ``"captum"``.
    patches : UpdatePatches
        Of the exact way.
    settings : mapping of str to _Setting
    occluders : mapping of str to Occluder
        By setting.
    """

    bench: Bench
    grid: OcclusionGrid
    turns: Turns
    patches: UpdatePatches
    settings: Mapping[str, _Setting]
    occluders: Mapping[str, Occluder]


@dataclass(frozen=True)
class _Setting:
    """A setting of the approximate way.

    Attributes
    ----------
    words : str
    of_occlusion : mapping of str to object
        Keywords of ``udfs.occlusion.Occlusion``.
    """

    words: str
    of_occlusion: Mapping[str, Any]


@dataclass(frozen=True)
class _Likeness:
    """Similarity of an approximate heat map to the exact one.

    Attributes
    ----------
    ssim, estimated : float or None
        As measured, and as the approximate heat map says; ``None`` where random weights show nothing.
    contrast : float
        The exact heat map's highest value less its lowest.
    computed : int
        Places.
    """

    ssim: float | None
    estimated: float | None
    contrast: float
    computed: int


def end_to_end(options: Options, report: Report) -> Figure:
    """Figure 6.10, with theory, memory and likeness."""
    drills = {_ASKED: (options.fraction, options.target), **(_SEEDS_SETTINGS if options.full else {})}
    exact_rows: list[tuple[str, ...]] = []
    rough_rows: list[tuple[str, ...]] = []
    drawn: dict[str, list[float]] = {"exact": [], _DEFAULT: [], "approximate, as asked": []}
    worst = 0.0
    for name in options.models:
        bench = Bench(name, options)
        measured = _measure(bench, _settings(drills, bench.grid(), options))
        exact_rows.append(_exact(measured, report))
        rough_rows += _approximate(measured, report)
        worst = max(worst, _error(measured.bench, measured.grid))
        drawn["exact"].append(measured.turns.speedup("exact"))
        drawn[_DEFAULT].append(measured.turns.speedup(_DEFAULT))
        drawn["approximate, as asked"].append(measured.turns.speedup(_ASKED))
    columns = (
        "network, the fastest naive way",
        "naive, s",
        "captum, s",
        "exact, s",
        "speed-up",
        "theory",
        "theory, one size",
        "memory, MiB",
        "the seeds' speed-up",
    )
    title = (
        "Figure 6.10: a whole heat map, exact without and with the checked places; memory of the naive and exact way"
    )
    report.table(title, columns, exact_rows)
    columns = (
        "network, setting",
        "approximate, s",
        "speed-up",
        "theory",
        "places",
        "SSIM, estimated",
        "SSIM, true",
        "the seeds",
    )
    title = f"Figure 6.10: approximate; all but the default in {options.precision}, tau {options.tau:g}"
    report.table(title, columns, rough_rows)
    report.ratio("max_abs_error", worst, "largest difference / largest output: at most 1e-5")
    figure, (axes,) = panels(f"Figure 6.10: patch {options.patch}, stride {options.stride}")
    grouped(axes, options.models, drawn, "speed-up over the naive way")
    return figure


def _settings(drills: Mapping[str, tuple[float, float]], grid: OcclusionGrid, options: Options) -> dict[str, _Setting]:
    """The product's default, and drill-down by fraction and target."""
    settings = {_DEFAULT: _Setting(f"SSIM {options.target_ssim:g}", {"target_ssim": options.target_ssim})}
    for key, (fraction, target) in drills.items():
        drill = {"step": stage_one_step(grid, target, fraction), "fraction": fraction}
        shared = {"tau": options.tau, "precision": options.precision}
        settings[key] = _Setting(f"r {fraction:g}, target {target:g}", {**drill, **shared})
    return settings


def _measure(bench: Bench, settings: Mapping[str, _Setting]) -> _Measured:
    grid, options = bench.grid(), bench.options
    exact, network = bench.exact(grid)
    rough = {key: bench.explained(grid, "approximate", **setting.of_occlusion) for key, setting in settings.items()}
    ways = {
        "exact": exact,
        "checked": bench.explained(grid, "exact")[0],
        **{key: run for key, (run, _) in rough.items()},
    }
    reference = _captum(bench, grid)
    if reference:
        ways["captum"] = reference
    turns = take_turns(bench.naive(grid), ways, options.repeats)
    occluders = {key: occluder for key, (_, occluder) in rough.items()}
    return _Measured(bench, grid, turns, network.patches, settings, occluders)


def _exact(measured: _Measured, report: Report) -> tuple[str, ...]:
    """The row of the exact way."""
    bench, turns = measured.bench, measured.turns
    name, options, patches = bench.name, bench.options, measured.patches
    theory, speedup = patches.overall_speedup, turns.speedup("exact")
    memory = {way: peak_of(name, way, options) for way in ("naive", "exact")}
    is_goal = name in {"vgg16", "resnet18"} and options.stride == 4
    report.ratio(f"exact_speedup.{name}", speedup, "seconds, naive / exact", 5.4 if name == "vgg16" else 1.0)
    meaning = "speed-up measured / by FLOPs over all places"
    report.ratio(f"exact_over_theory.{name}", speedup / theory, meaning, 0.9 if is_goal else None)
    meaning = "seconds, naive / an explanation with its checked places"
    report.ratio(f"explained_speedup.{name}", turns.speedup("checked"), meaning, 1.0)
    if "captum" in turns.ways:
        captum = turns.seconds("captum") / turns.seconds("exact")
        report.ratio(f"captum_speedup.{name}", captum, "seconds, captum / exact")
    meaning = "bytes at most, exact / naive; 0.42 in the seeds"
    report.ratio(f"memory_over_naive.{name}", memory["exact"] / memory["naive"], meaning, 1.0)
    return (
        f"{name}, {bench.fastest.layout}, {bench.fastest.batch_size}",
        f"{statistics.median(turns.reference):.1f}",
        f"{turns.seconds('captum'):.1f}" if "captum" in turns.ways else "-",
        f"{turns.seconds('exact'):.1f}, {turns.seconds('checked'):.1f}",
        f"{speedup:.2f}, {turns.speedup('checked'):.2f}",
        f"{theory:.2f}",
        f"{patches.uniform_speedup:.2f}",
        " / ".join(f"{peak / 2**20:.0f}" for peak in memory.values()),
        _SEEDS_EXACT.get(name, "-"),
    )


def _approximate(measured: _Measured, report: Report) -> list[tuple[str, ...]]:
    """The rows of the approximate way, one for each setting."""
    turns, grid, name = measured.turns, measured.grid, measured.bench.name
    rows = []
    for key, like in _likeness(measured).items():
        occluder, speedup = measured.occluders[key], turns.speedup(key)
        rows.append(
            (
                f"{name}, {key}: {measured.settings[key].words}",
                f"{turns.seconds(key):.1f}",
                f"{speedup:.2f}",
                f"{occluder.patches.overall_speedup * grid.count / like.computed:.2f}",
                f"{like.computed} of {grid.count}",
                "-" if like.estimated is None else f"{like.estimated:.3f}",
                "-" if like.ssim is None else f"{like.ssim:.3f} (contrast {like.contrast:.2f})",
                "-" if key == _DEFAULT else _SEEDS_APPROXIMATE.get(name, "-"),
            )
        )
        ending = "" if key == _ASKED else f".{key.split()[-1].lower()}"
        goal = 34.5 if name == "vgg16" and like.ssim is not None and ending in {"", ".oct"} else None
        report.ratio(f"approx_speedup.{name}{ending}", speedup, "seconds, naive / approximate", goal)
        if like.ssim is not None:
            report.ratio(f"approx_ssim.{name}{ending}", like.ssim, "likeness with the exact heat map", 0.9)
        if like.ssim is not None and like.estimated is not None:
            meaning = "likeness, as estimated less as measured"
            report.ratio(f"approx_estimate_off.{name}{ending}", like.estimated - like.ssim, meaning)
    return rows


def _error(bench: Bench, grid: OcclusionGrid) -> float:
    """The largest difference of an output between the naive and the exact way, over the largest output."""
    network, image, fill = IncrementalNetwork(bench.model, grid), bench.image(), torch.zeros(3)
    size, mask = bench.options.batch_size, sampled(grid, bench.options.sample)
    naive = _outputs(network.naive(image, fill, batch_size=size, places=mask), grid)[mask]
    exact = _outputs(network.outputs(network.materialise(image), fill, batch_size=size, places=mask), grid)[mask]
    return float(np.abs(exact - naive).max() / np.abs(naive).max())


def _outputs(
    results: Iterable[tuple[NDArray[np.int64], Mapping[str, torch.Tensor]]], grid: OcclusionGrid
) -> NDArray[np.float32]:
    """The network's outputs by place."""
    computed = [(index, next(iter(outputs.values()))) for index, outputs in results]
    values = np.full((*grid.shape, computed[0][1][0].numel()), np.nan, np.float32)
    for index, outputs in computed:
        values[tuple(index.T)] = outputs.numpy().reshape(len(index), -1)
    return values


def _likeness(measured: _Measured) -> dict[str, _Likeness]:
    """SSIM and the exact heat map's contrast by setting; not of random weights, whose heat maps show nothing."""
    bench, likeness = measured.bench, {}
    pixels, exact = bench.pixels(), bench.occluder(measured.grid)
    values = exact.heat_map(exact.opened(pixels)).values if bench.has_weights else None
    for key, occluder in measured.occluders.items():
        rough = occluder.heat_map(occluder.opened(pixels))
        if values is None:
            likeness[key] = _Likeness(None, None, 0.0, rough.computed)
        else:
            ssim, contrast = similarity(values, rough.values), float(np.ptp(values))
            likeness[key] = _Likeness(ssim, rough.likeness, contrast, rough.computed)
    return likeness


def _captum(bench: Bench, grid: OcclusionGrid) -> Callable[[], float] | None:
    """Captum's way: seconds of a whole heat map, from as many places as cover the image once."""
    if importlib.util.find_spec("captum") is None:
        return None
    from captum.attr import Occlusion as Reference  # an optional package

    fused, image = bench.model.fused(), bench.image()
    (source,), (output,) = fused.graph.inputs, fused.graph.outputs
    explain = Reference(lambda batch: fused.tensors({source: batch}, [output])[output])
    target = int(fused.tensors({source: image}, [output])[output].argmax())
    window = (3, *grid.patch)
    places = int(
        np.prod([-(-(extent - patch) // patch) + 1 for extent, patch in zip(grid.image, grid.patch, strict=True)])
    )

    def run() -> float:
        began = bench.now()
        explain.attribute(
            image, window, strides=window, baselines=0, target=target, perturbations_per_eval=bench.fastest.batch_size
        )
        return (bench.now() - began) * grid.count / places

    return run
