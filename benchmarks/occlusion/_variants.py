"""Beyond the seeds: networks whose layers read whole tensors early, squeeze-excite and group norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness.charts import bars, panels
from benchmarks.occlusion._bench import Bench, take_turns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options

__all__ = ["variants"]


def variants(options: Options, report: Report) -> Figure:
    """Speed-ups of exact explanations, and how much of each network is computed in parts."""
    rows, drawn = [], {}
    for name in options.models:
        bench = Bench(name, options)
        grid = bench.grid()
        exact, network = bench.exact(grid)
        turns = take_turns(bench.naive(grid), {"exact": exact}, options.repeats)
        patches, speedup = network.patches, turns.speedup("exact")
        share = patches.full_flops / (patches.full_flops + patches.whole_flops)
        rows.append(
            (
                name,
                f"{turns.seconds('exact'):.1f}",
                f"{speedup:.2f}",
                f"{patches.overall_speedup:.2f}",
                f"{share:.0%}",
                ", ".join(patches.whole[:1]) or "no layer in full",
            )
        )
        report.ratio(f"exact_speedup.{name}", speedup, "seconds, naive / exact", 2.0 if "_" in name else 1.0)
        drawn[name] = speedup
    columns = ("network", "exact, s", "speed-up", "theory", "FLOPs in parts", "the first layer in full")
    report.table(f"Squeeze-excite and group norm: patch {options.patch}, stride {options.stride}", columns, rows)
    figure, (axes,) = panels("Exact explanations")
    bars(axes, drawn, "speed-up over the naive way", chosen="", form="%.2f")
    return figure
