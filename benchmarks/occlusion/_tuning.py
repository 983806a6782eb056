"""Figure 6.9: SSIM as a function of tau on a sample of photographs, and the chosen tau on photographs held out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness.charts import lines, panels
from benchmarks.occlusion._bench import Bench
from udfs.occlusion import TAUS, fitted, similarity

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options

__all__ = ["tuning"]

_TARGET = 0.9

# A flatter heat map shows nothing, and neither does its likeness.
_CONTRAST = 0.01

_SEEDS_REACHED = "80 % reach it, none is 0.1 below"
_SEEDS = {"vgg16": "0.5", "resnet18": "0.7", "inception_v3": "0.9"}


def tuning(options: Options, report: Report) -> Figure:
    """Figure 6.9 (a) and (b); and the rounds of places that need no sample, on the same photographs."""
    curves, deviations, chosen_rows, curve_rows = {}, {}, [], []
    for name in options.models:
        bench = Bench(name, options)
        if not bench.has_weights:
            report.note(f"{name} is left out: with random weights its heat maps show nothing. --weights {name}=FILE")
            continue
        sample, flat = _shown(bench, range(options.images))
        held_out, more = _shown(bench, range(options.images, 2 * options.images))
        if not sample or not held_out:
            report.note(
                f"{name} is left out: its heat maps of all these photographs are flat. --images {options.images * 2}"
            )
            continue
        measured = [_similarities(bench, photograph, exact, TAUS) for photograph, exact in sample]
        curve = fitted(measured)
        chosen = curve.lowest(_TARGET)
        tau = 1.0 if chosen is None else chosen
        curves[name] = [float(np.mean([ssims[at] for ssims in measured])) for at in range(len(TAUS))]
        curve_rows.append(
            (
                name,
                *(f"{ssim:.3f} ({curve.at(at):.3f})" for at, ssim in zip(TAUS, curves[name], strict=True)),
                "second degree",
            )
        )
        for which, photographs in (("sample", sample), ("held out", held_out)):
            ssims = [_similarities(bench, photograph, exact, (tau,))[0] for photograph, exact in photographs]
            deviations[f"{name}, {which}"] = np.sort(ssims) - _TARGET
            chosen_rows.append(
                (f"{name}, {which}", f"{tau:.2f}", _SEEDS.get(name, "-"), *_reached(ssims), _SEEDS_REACHED)
            )
            key = f"{which.replace(' ', '_')}.{name}"
            report.ratio(f"reached_{key}", _share(ssims), "share of photographs that reach the target SSIM", 0.8)
            report.ratio(f"worst_{key}", min(ssims), "least SSIM", _TARGET - 0.1)
        ssims, computed = _by_rounds(bench, [*sample, *held_out])
        deviations[f"{name}, by rounds"] = np.sort(ssims) - _TARGET
        chosen_rows.append((f"{name}, by rounds", f"{computed:.0%} of places", "-", *_reached(ssims), "not there"))
        report.ratio(f"reached_by_rounds.{name}", _share(ssims), "the same by rounds of places, without a sample", 0.8)
        report.ratio(f"worst_by_rounds.{name}", min(ssims), "least SSIM", _TARGET - 0.1)
        report.ratio(f"places_by_rounds.{name}", computed, "share of the places that are computed")
        report.ratio(f"chosen_tau.{name}", tau, f"for an SSIM of {_TARGET}")
        if flat + more:
            report.note(f"{name}: {flat + more} photographs have heat maps flatter than {_CONTRAST} and do not count.")
    columns = ("network", *(f"tau {tau:g}" for tau in TAUS), "the seeds' curve")
    report.table("Figure 6.9 (a): mean SSIM by tau, and the curve's", columns, curve_rows)
    columns = ("photographs", "tau", "the seeds' tau", "number", "reach 0.9", "a fifth is below", "worst", "the seeds")
    report.table(f"Figure 6.9 (b): SSIM less the target of {_TARGET} with the chosen tau", columns, chosen_rows)
    figure, (left, right) = panels("Figure 6.9", 2)
    if curves:
        lines(left, TAUS, curves, "tau", "mean SSIM of the sample")
        for name, values in deviations.items():
            right.step(values, np.arange(1, len(values) + 1) / len(values), where="post", label=name)
        right.axvline(0, color="#6c757d", linewidth=1)
        right.set_xlabel("SSIM less the target")
        right.set_ylabel("share of photographs")
        right.legend(frameon=False, fontsize="small")
    return figure


def _shown(bench: Bench, photographs: range) -> tuple[list[tuple[int, NDArray[np.float32]]], int]:
    """Photographs with their exact heat maps, without the flat ones, and the number of those."""
    occluder = bench.occluder(bench.grid())
    maps = [(number, occluder.heat_map(occluder.opened(bench.pixels(number))).values) for number in photographs]
    shown = [(number, heat_map) for number, heat_map in maps if np.ptp(heat_map) >= _CONTRAST]
    return shown, len(maps) - len(shown)


def _by_rounds(bench: Bench, photographs: list[tuple[int, NDArray[np.float32]]]) -> tuple[list[float], float]:
    """SSIM of heat maps whose places are computed until the likeness is estimated as the target; the share of them."""
    grid = bench.grid()
    occluder = bench.occluder(grid, mode="approximate", target_ssim=_TARGET)
    maps = [occluder.heat_map(occluder.opened(bench.pixels(number))) for number, _ in photographs]
    ssims = [similarity(exact, mapped.values) for (_, exact), mapped in zip(photographs, maps, strict=True)]
    return ssims, float(np.mean([mapped.computed / grid.count for mapped in maps]))


def _share(ssims: list[float]) -> float:
    return float(np.mean(np.array(ssims) >= _TARGET))


def _reached(ssims: list[float]) -> tuple[str, ...]:
    """Return the number of heat maps, the share on target, and the distances of the lowest fifth and the worst."""
    off = np.array(ssims) - _TARGET
    return str(len(ssims)), f"{_share(ssims):.0%}", f"{np.quantile(off, 0.2):+.3f}", f"{off.min():+.3f}"


def _similarities(bench: Bench, photograph: int, exact: NDArray[np.float32], taus: tuple[float, ...]) -> list[float]:
    """SSIM with the exact heat map at each tau, without drill-down."""
    grid, pixels = bench.grid(), bench.pixels(photograph)
    found = []
    for tau in taus:
        occluder = bench.occluder(grid, mode="approximate", tau=tau)
        found.append(similarity(exact, occluder.heat_map(occluder.opened(pixels)).values))
    return found
