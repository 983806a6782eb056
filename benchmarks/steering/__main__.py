"""Steered searches: what the server and the page cost, how soon commands and epochs arrive, and what an expert gains.

``python -m benchmarks.steering`` measures four things; ``--only`` selects some of them. ``training`` runs searches of
four networks on two workers with and without a server in turn, sends commands and stops configurations. ``page`` opens
an experiment with 1,000 configurations, 30 hyperparameters and 100 epochs in Chromium. ``viewers`` has 20 viewers of
one server. ``paradigm`` compares an expert that steers by rules with grid search and TPE with the same budget of
epochs, on scikit-learn's digits.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARTS = ("training", "page", "viewers", "paradigm")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the parts, and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=_PARTS, default=_PARTS)
    parser.add_argument("--epochs", type=int, default=8, help="epochs of the searches of training")
    parser.add_argument("--repeats", type=int, default=3, help="searches without and with a server")
    parser.add_argument("--configurations", type=int, default=1000, help="configurations of the page")
    parser.add_argument("--page-epochs", type=int, default=100)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5, help="repetitions of the paradigm, whose medians are printed")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report("Steered searches")
    parts = {"training": _training, "page": _page, "viewers": _viewers, "paradigm": _paradigm}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            parts[name](report, Path(folder), options)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _training(report: Report, folder: Path, options: argparse.Namespace) -> None:
    # They import torch and Spark.
    from benchmarks.steering._server import server_process
    from benchmarks.steering._training import measure_training
    from cerebro_spark import Store
    from vista_spark import session

    spark = session("local[2]", conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
    try:
        with server_process(folder) as (url, process):
            store = Store.from_uri(str(folder / "store"))
            measured = measure_training(spark, store, url, process, options.epochs, options.repeats)
    finally:
        spark.stop()
    alone, served = statistics.median(measured.alone_s), statistics.median(measured.served_s)
    report.ratio("slowdown", served / alone, "seconds with a server and a viewer / without", 1.01)
    report.ratio(
        "server_share", statistics.median(measured.server_share) / 2, "server's time / that of two cores", 0.01
    )
    report.ratio("acknowledged_p95", _p95(measured.acknowledged_s) / 0.2, "p95 of acknowledgements / 200 ms", 1)
    report.ratio("event_p95", _p95(measured.event_s) / 1.0, "p95 from the end of an epoch to its event / 1 s", 1)
    report.ratio("late_stops", measured.late_units / measured.stops, "stops later than a unit and 1 s / stops", 0)
    rows = [
        ["search alone", _seconds(measured.alone_s), str(len(measured.alone_s))],
        ["search with a server", _seconds(measured.served_s), str(len(measured.served_s))],
        ["acknowledgement", _seconds(measured.acknowledged_s), str(len(measured.acknowledged_s))],
        ["end of an epoch to its event", _seconds(measured.event_s), str(len(measured.event_s))],
    ]
    report.table("Training", ["what", "median, p95 s", "number"], rows)


def _page(report: Report, folder: Path, options: argparse.Namespace) -> None:
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))):
        report.note("page: skipped, because there is no Chromium.")
        return
    from benchmarks.steering._page import measure_page

    times = measure_page(folder, options.configurations, options.page_epochs)
    report.ratio("page_usable", times.usable_s / 2, "seconds until the page is usable / 2 s", 1)
    report.ratio("page_update", times.update_s / 0.1, "longest task of an update / 100 ms", 1)
    report.ratio("page_shown", times.shown_s / 1.0, "seconds until an epoch is on the page / 1 s", 1)
    report.ratio("page_memory", times.megabytes / 300, "heap of the page / 300 MB", 1)


def _viewers(report: Report, folder: Path, options: argparse.Namespace) -> None:
    from benchmarks.steering._page import measure_viewers

    delays, missing = measure_viewers(folder, options.viewers, 30)
    report.ratio("viewers_p95", _p95(delays) / 1.0, f"p95 of events at {options.viewers} viewers / 1 s", 1)
    report.ratio("viewers_missing", missing / len(delays), "missing events / events", 0)


def _paradigm(report: Report, _: Path, options: argparse.Namespace) -> None:
    from benchmarks.steering._paradigm import BUDGET, compare

    curves = compare(options.seeds)
    epochs = [BUDGET // 8, BUDGET // 4, BUDGET // 2, BUDGET]
    rows = [[name, *(f"{curve[epoch - 1]:.4f}" for epoch in epochs)] for name, curve in curves.items()]
    report.table("Best error by epoch of the search", ["method", *map(str, epochs)], rows)
    for other in ("grid", "tpe"):
        for epoch in (BUDGET // 4, BUDGET):
            value = curves["expert"][epoch - 1] / curves[other][epoch - 1]
            report.ratio(
                f"expert_vs_{other}_{epoch}", value, f"error of the expert / {other}'s after {epoch} epochs", 1
            )


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


def _seconds(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f}, {_p95(values):.3f}"


if __name__ == "__main__":
    main()
