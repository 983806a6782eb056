"""Compiled pipelines beside the libraries and ONNX Runtime: seconds of CPU and by the clock, in one run.

``python -m benchmarks.compiling`` fits the models that have a speed-up to reach, compiles them, and times the
probabilities of 10,000 rows, and of one row. All sides take the same float32 table with the same number of threads;
medians of five warm calls. *torch* is the strategy that Hummingbird's heuristics choose, in tensor operators; *auto* is
what a user gets: native code for trees. ``--models`` names fewer models.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compiling._models import Case
    from benchmarks.compiling._runs import Outcome
    from benchmarks.compiling._times import Spent
    from benchmarks.harness.report import Report

_BATCH_1_LIBRARY, _BATCH_1_RUNTIME, _AUTO = 100.0, 0.5, 1 / 1.05
_NAMES = {"library": "library", "runtime": "ONNX Runtime"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1, help="of each side")
    parser.add_argument("--models", help="some of them by name, with commas; all by default")
    parser.add_argument("--picture", help="file of the picture of speeds")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    from benchmarks.harness.report import Report, load_average  # libraries read the variable when they are imported

    report = Report(f"compiled pipelines, {options.rows:,} rows, {options.threads} thread(s), load {load_average()}")
    _speed(report, options)
    report.show(as_json=options.json)


def _speed(report: Report, options: argparse.Namespace) -> None:
    import torch  # `--help` is not to wait for it

    from benchmarks.compiling._models import CASES
    from benchmarks.compiling._runs import run_case

    torch.set_num_threads(options.threads)
    wanted = None if options.models is None else set(options.models.split(","))
    unknown = (wanted or set()) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"--models {', '.join(sorted(unknown))}: there are {', '.join(case.name for case in CASES)}")
    cases = [case for case in CASES if wanted is None or case.name in wanted]
    outcomes = []
    for case in cases:
        outcome = run_case(case, options.rows, options.threads)
        outcomes.append(outcome)
        _ratios(report, case, outcome)
    sides = list(outcomes[0].seconds)
    report.table(
        f"Milliseconds of CPU (by the clock) for {options.rows:,} rows",
        ("model", *(_NAMES.get(side, side) for side in sides), "rows of another class; greatest gap"),
        [(one.name, *_times(one.seconds, 1e3), f"{one.differing}; {one.gap:.1e}") for one in outcomes],
    )
    report.table(
        "Microseconds of CPU (by the clock) for one row",
        ("model", *(_NAMES.get(side, side) for side in sides)),
        [(one.name, *_times(one.single, 1e6)) for one in outcomes],
    )
    report.table(
        "Seconds by the clock of the first table: compiled trees are laid out, and what is missing is built",
        ("model", *outcomes[0].first_s),
        [(one.name, *(f"{spent:.1f}" for spent in one.first_s.values())) for one in outcomes],
    )
    if options.picture:
        _draw(outcomes, options)
    report.note("The tables are drawn (30 columns, 20 of them informative).")


def _ratios(report: Report, case: Case, outcome: Outcome) -> None:
    seconds, one, name = outcome.seconds, outcome.single, outcome.name
    for side, target in (("library", case.library), ("runtime", case.runtime)):
        meaning = f"CPU seconds of {_NAMES[side]} over those of auto"
        report.ratio(f"vs_{side}.{name}", seconds[side].cpu / seconds["auto"].cpu, meaning, target)
    meaning = "CPU seconds of the best way over those of auto"
    report.ratio(f"auto.{name}", _best(seconds) / seconds["auto"].cpu, meaning, _AUTO)
    for side, target in (("library", _BATCH_1_LIBRARY), ("runtime", _BATCH_1_RUNTIME)):
        meaning = f"one row: CPU seconds of {_NAMES[side]} over those of auto"
        report.ratio(f"one_row_vs_{side}.{name}", one[side].cpu / one["auto"].cpu, meaning, target)
    meaning = "one row: CPU seconds of the best way over those of auto"
    report.ratio(f"one_row_auto.{name}", _best(one) / one["auto"].cpu, meaning, _AUTO)
    report.fact(name, {side: {"cpu_s": own.cpu, "wall_s": own.wall} for side, own in seconds.items()})
    report.fact(f"{name}.one_row", {side: {"cpu_s": own.cpu, "wall_s": own.wall} for side, own in one.items()})
    report.fact(f"{name}.first_s", outcome.first_s)


def _best(seconds: dict[str, Spent]) -> float:
    return min(own.cpu for side, own in seconds.items() if side not in _NAMES)


def _draw(outcomes: Sequence[Outcome], options: argparse.Namespace) -> None:
    from benchmarks.harness.charts import grouped, panels

    figure, (axes,) = panels(f"Probabilities of {options.rows:,} rows, {options.threads} thread(s)")
    shown = {"runtime": "ONNX Runtime", "torch": "compiled, torch alone", "auto": "compiled"}
    speeds = {
        label: [one.seconds["library"].cpu / one.seconds[side].cpu for one in outcomes] for side, label in shown.items()
    }
    grouped(axes, [one.name for one in outcomes], speeds, "speed, the library's being 1")
    axes.axhline(1, color="grey", linewidth=0.8)
    figure.savefig(options.picture, dpi=150)


def _times(seconds: dict[str, Spent], scale: float) -> list[str]:
    return [_shown(spent, scale) for spent in seconds.values()]


def _shown(spent: Spent, scale: float) -> str:
    return f"{spent.cpu * scale:.1f} ({spent.wall * scale:.1f})"


if __name__ == "__main__":
    main()
