"""Model-selection procedures on models that hop against a configuration per task: the seeds' AutoML figures.

``python -m benchmarks.procedures`` first simulates the searches of Section 3.6.3 and Appendix A.4 (Figures 3.12, 3.13
and A.8 to A.14; Figure 3.9's bytes are in ``benchmarks/hopper/schedulers.py --drill-down``) with the scheduler of a
live run, which learns unit times, on 8 workers, and takes the time of a decision with 1,000 configurations.
``--simulate-only`` ends here.

Then it trains, on Spark with two workers, one thread each: Hyperband, random search with p and 2p configurations beside
each other, with ``rounds="rolling"``, ``"together"``, and by a study that trains one configuration per Spark task with
all data local, as Optuna with MLflow on Spark does. All have the same rows, networks and optimiser, and the rival's
procedure is told ours' accuracies, so that all take the same decisions. ASHA's depend on who finishes first: it counts
configurations in the same time. Starting Python, importing torch and loading come before the clock in all. Last,
a ``NetworkEstimator`` fits four param maps by ``fitMultiple`` and map by map; there the clock has all of it.
``--only cross_validator`` has Spark's ``CrossValidator`` do both, and ``--only batches`` trains Figure 3.9, the time of
an epoch by batch size against gradients averaged every step; that computes always.

``--units sleep`` (the default) trains networks that sleep in proportion to their rows, ``--unit-seconds`` a unit on
average: what counts is who waits for whom, and what the system adds. That part, Spark's jobs above all, still feels the
machine's load. ``--units compute`` trains perceptrons of two sizes; a unit takes as long as ``--rows`` take.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average
from benchmarks.procedures._figures import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

# Those of _procedures_trained, which imports torch and Spark.
_SHORT = ("hyperband", "p", "2p", "asha", "fit_multiple")
_ALL = (*_SHORT, "cross_validator", "batches")


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="of each simulated search")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=_ALL, default=_SHORT, help="what to train")
    parser.add_argument("--units", choices=["sleep", "compute"], default="sleep", help="what a unit of training does")
    parser.add_argument("--unit-seconds", type=float, default=0.2, help="of a sleeping unit, on average")
    parser.add_argument("--asha-seconds", type=float, default=16.0, help="for ASHA")
    parser.add_argument("--simulate-only", action="store_true")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report("Model-selection procedures: models that hop against one configuration per task")
    figures(report, options.seeds)
    if not options.simulate_only:
        from benchmarks.procedures._trained_searches import train  # imports torch and Spark

        train(report, options)
    if not options.simulate_only:
        what = f"sleep {options.unit_seconds:g} s" if options.units == "sleep" else f"compute, {options.rows:,} rows"
        report.note(f"Units of training: {what}.")
    report.note(
        "Times are ours / theirs: smaller is better. Configurations of ASHA are ours / theirs: larger is better."
    )
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
