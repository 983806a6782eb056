"""Figures 6.11 to 6.13: each optimisation alone, on top of incremental inference, beside its theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness.charts import lines, panels
from benchmarks.occlusion._bench import Bench, take_turns
from benchmarks.occlusion._theory import SEEDS_TAUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options

__all__ = ["drill_downs", "patch_sizes", "taus"]

_FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
_STEPS = (1, 2, 3, 4, 6, 8)

# Of Figure 6.13 (a): stage one's stride over stage two's, 16 over 4. Of (b): the fraction.
_STEP = 4
_FRACTION = 0.25

_COLUMNS = ("network", "seconds", "speed-up", "theory", "speed-up / theory", "theory, patch in the middle", "the seeds")

_NEAR = "almost matches theory"
_BELOW = "below theory"


def patch_sizes(options: Options, report: Report) -> Figure:
    """Figure 6.11: incremental inference alone, by the size of the patch."""
    rows, drawn = [], {}
    for name in options.models:
        bench = Bench(name, options)
        exact = {str(patch): bench.exact(bench.grid(patch)) for patch in options.patches}
        turns = take_turns(bench.naive(bench.grid()), {key: run for key, (run, _) in exact.items()}, options.repeats)
        for key, (_, network) in exact.items():
            theory, speedup = network.patches.overall_speedup, _scaled(turns.speedup(key), bench, int(key))
            seeds = "falls with the patch; " + (_NEAR if name == "resnet18" else _BELOW)
            rows.append(
                (
                    f"{name}, patch {key}",
                    f"{turns.seconds(key):.1f}",
                    f"{speedup:.2f}",
                    f"{theory:.2f}",
                    f"{speedup / theory:.3f}",
                    f"{network.patches.centre_speedup:.2f}",
                    seeds,
                )
            )
            report.ratio(f"exact_speedup.{name}.{key}", speedup, "seconds, naive / exact", 1.0)
            is_goal = name in {"vgg16", "resnet18"} and int(key) == 16 and options.stride == 4
            meaning = "speed-up measured / by FLOPs over all places"
            report.ratio(f"exact_over_theory.{name}.{key}", speedup / theory, meaning, 0.9 if is_goal else None)
            drawn.setdefault(name, []).append(speedup)
            drawn.setdefault(f"{name}, theory", []).append(theory)
        report.note(bench.naive_in_words())
    report.table(f"Figure 6.11: incremental inference alone, stride {options.stride}", _COLUMNS, rows)
    return _drawn("Figure 6.11", options.patches, drawn, "patch, pixels")


def taus(options: Options, report: Report) -> Figure:
    """Figure 6.12: with projective field thresholding."""
    rows, drawn = [], {}
    for name in options.models:
        bench = Bench(name, options)
        ways = {f"{tau:g}": bench.exact(bench.grid(), tau=tau) for tau in SEEDS_TAUS}
        turns = take_turns(bench.naive(bench.grid()), {key: run for key, (run, _) in ways.items()}, options.repeats)
        for key, (_, network) in ways.items():
            theory, speedup = network.patches.overall_speedup, turns.speedup(key)
            rows.append(
                (
                    f"{name}, tau {key}",
                    f"{turns.seconds(key):.1f}",
                    f"{speedup:.2f}",
                    f"{theory:.2f}",
                    f"{speedup / theory:.3f}",
                    f"{network.patches.centre_speedup:.2f}",
                    "rises as tau falls; " + (_NEAR if name == "resnet18" else _BELOW),
                )
            )
            report.ratio(f"tau_speedup.{name}.{key}", speedup, "seconds, naive / with the threshold", 1.0)
            report.ratio(f"tau_over_theory.{name}.{key}", speedup / theory, "speed-up measured / by FLOPs")
            drawn.setdefault(name, []).append(speedup)
            drawn.setdefault(f"{name}, theory", []).append(theory)
        report.note(bench.naive_in_words())
    title = f"Figure 6.12: with projective field thresholding, patch {options.patch}, stride {options.stride}"
    report.table(title, _COLUMNS, rows)
    return _drawn("Figure 6.12", SEEDS_TAUS, drawn, "tau")


def drill_downs(options: Options, report: Report) -> Figure:
    """Figure 6.13: with adaptive drill-down, by the fraction (a) and by the first stage's stride (b)."""
    settings = {f"r {fraction:g}": (_STEP, fraction) for fraction in _FRACTIONS}
    settings |= {f"S1 {step * options.stride}": (step, _FRACTION) for step in _STEPS}
    rows = []
    drawn_a: dict[str, list[float]] = {}
    drawn_b: dict[str, list[float]] = {}
    for name in options.models:
        bench = Bench(name, options)
        grid = bench.grid()
        ways = {
            key: bench.explained(grid, "approximate", step=step, fraction=fraction)
            for key, (step, fraction) in settings.items()
        }
        turns = take_turns(bench.naive(grid), {key: run for key, (run, _) in ways.items()}, options.repeats)
        for key, (step, fraction) in settings.items():
            occluder = ways[key][1]
            speedup, places = turns.speedup(key), occluder.places
            theory = occluder.patches.overall_speedup * grid.count / places
            equation = step**2 / (1 + fraction * step**2) if step > 1 else 1.0  # 6.28, in strides of stage two
            rows.append(
                (
                    f"{name}, {key}",
                    f"{turns.seconds(key):.1f}",
                    f"{speedup:.2f}",
                    f"{theory:.2f}",
                    f"{speedup / theory:.3f}",
                    f"{places} of {grid.count} ({equation:.2f})",
                    _NEAR,
                )
            )
            report.ratio(f"drill_speedup.{name}.{key.replace(' ', '')}", speedup, "seconds, naive / drill-down", 1.0)
            meaning = "speed-up measured / by FLOPs and places"
            report.ratio(f"drill_over_theory.{name}.{key.replace(' ', '')}", speedup / theory, meaning)
            drawn = drawn_a if key.startswith("r") else drawn_b
            drawn.setdefault(name, []).append(speedup)
            drawn.setdefault(f"{name}, theory", []).append(theory)
        report.note(bench.naive_in_words())
    columns = (*_COLUMNS[:5], "places (equation 6.28)", _COLUMNS[6])
    title = (
        f"Figure 6.13: with drill-down, patch {options.patch}, second stride {options.stride}: (a) by the fraction r, "
        f"first stride {_STEP * options.stride}; (b) by the first stride, r {_FRACTION}"
    )
    report.table(title, columns, rows)
    figure, (left, right) = panels("Figure 6.13", 2)
    lines(left, _FRACTIONS, drawn_a, "fraction in the second stage", "speed-up over the naive way")
    strides = [step * options.stride for step in _STEPS]
    lines(right, strides, drawn_b, "first stride, pixels", "speed-up over the naive way")
    return figure


def _scaled(speedup: float, bench: Bench, patch: int) -> float:
    """A whole naive heat map has more places with a smaller patch; the reference has those of the options' patch."""
    return speedup * bench.grid(patch).count / bench.grid().count


def _drawn(title: str, xs: Sequence[float], series: Mapping[str, Sequence[float]], xlabel: str) -> Figure:
    figure, (axes,) = panels(title)
    lines(axes, xs, series, xlabel, "speed-up over the naive way")
    return figure
