"""Figure B.1: incremental inference over few places, as an interactive user asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness.charts import lines, panels
from benchmarks.occlusion._bench import Bench, take_turns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options

__all__ = ["few_places"]

# The paper's batches on a CPU, or fewer where there are fewer places.
_BATCH = 16

_COUNTS = (1, 4, 16, 64, 256, 1024)


def few_places(options: Options, report: Report) -> Figure:
    """Figure B.1: speed-ups by the number of places, |G|, with the run that makes the views."""
    rows, drawn = [], {}
    counts: list[int] = []
    for name in options.models:
        bench = Bench(name, options)
        grid = bench.grid()
        counts = [*(count for count in _COUNTS if count < grid.count), grid.count]
        exact = {str(count): bench.exact(grid, batch_size=min(_BATCH, count), places=count) for count in counts}
        ways = {key: run for key, (run, _) in exact.items()}
        turns = take_turns(bench.naive(grid), ways, options.repeats)
        for count in counts:
            # The reference is of all places.
            speedup = turns.speedup(str(count)) * count / grid.count
            # The views cost a run of the whole network.
            theory = count / (count / exact[str(count)][1].patches.overall_speedup + 1)
            seconds = f"{turns.seconds(str(count)):.2f}"
            rows.append((name, str(count), seconds, f"{speedup:.2f}", f"{theory:.2f}", "falls with |G|"))
            report.ratio(f"places_speedup.{name}.{count}", speedup, "seconds, naive / exact, over so many places")
            drawn.setdefault(name, []).append(speedup)
        report.note(bench.naive_in_words())
    title = (
        f"Figure B.1: exact, batches of {_BATCH} or of all places where there are fewer, patch {options.patch}, "
        f"stride {options.stride}"
    )
    report.table(title, ("network", "places, |G|", "exact, s", "speed-up", "theory", "the seeds"), rows)
    figure, (axes,) = panels("Figure B.1: exact explanations of few places")
    lines(axes, counts, drawn, "places, |G|", "speed-up over the naive way", logarithmic=True)
    return figure
