"""Approximate model scheduling: policies against the LP bound, and the experiments of section 4.4.2.

``python -m benchmarks.variants.scheduling`` simulates days of ten hours with 600 MB of memory for the ten tasks of
Table 4.1, whose example catalogs ``_catalogs.py`` documents:

* stationary traces: the sum of accuracies over the bound of all schedules, for a tight and a wide energy budget;
* Figure 4.11: requests served, energy and accuracy as the cache is more and more oversubscribed;
* Algorithm 4.1 as printed and corrected, for ten equally frequent tasks and 60 kJ;
* Figure 4.12: requests served against the server-first policy, for three prices of sending;
* Figure 4.13: a day of face analysis and scene recognition with a link that comes and goes;
* Figures 4.8 to 4.10: memory, energy and latency of full, compact and shared models by the cost card.

Table 4.2, the time to specialise a model, is measured by training and not simulated. Default: a few minutes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness.report import Report, load_average
from benchmarks.variants._catalogs import COMPACT, FULL, SHARED_HEAD, measured_by_the_authors
from benchmarks.variants._scenarios import (
    POLICIES,
    QUARTER_BATTERY,
    cache_load,
    glimpse,
    opportunities,
    serve,
    stationary,
)
from optimizer.approximate import CostCard, Problem, Task, upper_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.approximate import Schedule

_WIDE = 60_000.0
_APPLICATIONS = (2, 5, 10, 20, 40)
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate all scenarios, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6_000, help="requests of a day; budgets are in proportion")
    parser.add_argument("--mcdnn", type=Path, help="clone of github.com/haneul/mcdnn, whose catalog is scheduled too")
    parser.add_argument("--picture", help="file for a picture of Figures 4.11 to 4.13")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report(f"Approximate model scheduling, {options.requests:,} requests a day, 600 MB")
    _time(report)
    _stationary(report, options.requests)
    loads = _loads(report, options.requests)
    _printed(report, options.requests, options.mcdnn)
    locations = _locations(report, options.requests)
    days = _day(report)
    _models(report)
    if options.picture:
        _draw(options.picture, loads, locations, days)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _time(report: Report) -> None:
    """Time the simulation of a whole day, and let the schedule explain itself."""
    problem = stationary(10, 36_000, _WIDE)
    begun, cpu = time.perf_counter(), time.process_time()
    schedule = serve(problem, "mcdnn")
    seconds = time.perf_counter() - begun
    report.ratio("seconds_36000", seconds / 10, f"seconds ({seconds:.1f}) / 10 for 36,000 requests", 1)
    report.note(f"36,000 requests, ten tasks: {seconds:.2f} s, {time.process_time() - cpu:.2f} s of CPU")
    report.note(schedule.explain())


def _stationary(report: Report, requests: int) -> None:
    rows, worst = [], 1.0
    names = POLICIES[:2]
    for joules, dollars, applications, skew in (
        (_WIDE, 0.0, 2, 0.0),
        (_WIDE, 0.0, 10, 0.0),
        (_WIDE, 0.0, 40, 0.0),
        (_WIDE, 0.0, 10, 1.0),
        (_WIDE, 0.03, 10, 0.0),
        (QUARTER_BATTERY, 0.0, 10, 0.0),
        (QUARTER_BATTERY, 0.0, 40, 1.0),
        (QUARTER_BATTERY, 0.03, 10, 1.0),
    ):
        problem = stationary(applications, requests, joules, dollars=dollars, skew=skew)
        bound = upper_bound(problem)
        ratios = [serve(problem, name).total_accuracy / bound for name in names]
        worst = min(worst, ratios[0])
        label = f"{applications} tasks, {'Zipf' if skew else 'uniform'}, {joules / 1e3:g} kJ, ${dollars:g}"
        rows.append([label, f"{bound / requests:.3f}", *(f"{ratio:.3f}" for ratio in ratios), ""])
    report.table("Sum of accuracies / LP bound", ["trace", "bound a request", *names, ""], rows)
    report.ratio("of_bound", worst, "mcdnn / LP bound, the least of all stationary traces", 0.9)


def _summary(schedule: Schedule) -> str:
    served = max(1, int((schedule.choices >= 0).sum()))
    return f"{schedule.served:.1%}, {schedule.joules / served:.2f} J, {schedule.mean_accuracy:.3f}"


def _loads(report: Report, requests: int) -> tuple[list[float], dict[str, list[Schedule]]]:
    """Serve increasing loads of the cache (Figure 4.11)."""
    loads, results = [], {name: [] for name in POLICIES}  # type: tuple[list[float], dict[str, list[Schedule]]]
    rows = []
    for applications in _APPLICATIONS:
        problem = stationary(applications, requests, QUARTER_BATTERY, seed=1)
        loads.append(cache_load(problem))
        for name in POLICIES:
            results[name].append(serve(problem, name))
        row = [_summary(results[name][-1]) for name in POLICIES]
        rows.append([f"{applications} tasks", f"{loads[-1]:.2f}", *row, ""])
    title = "Figure 4.11: served, J a served request, accuracy of served requests; 6.9 kJ"
    report.table(title, ["", "cache load", *POLICIES, ""], rows)
    for name in ("original", "best"):
        margin = min(
            ours.served / max(theirs.served, 1e-9) for ours, theirs in zip(results["mcdnn"], results[name], strict=True)
        )
        report.ratio(f"served_over_{name}", margin, f"requests served, mcdnn / {name}, the least of all loads", 1)
    return loads, results


def _printed(report: Report, requests: int, clone: Path | None) -> None:
    """Compare Algorithm 4.1 as printed and corrected."""
    problems = {
        f"{joules / 1e3:g} kJ": stationary(10, requests, joules) for joules in (_WIDE, 20_000.0, QUARTER_BATTERY)
    }
    if clone:
        variants = measured_by_the_authors(clone)
        wide = stationary(10, requests, _WIDE)
        tasks = tuple(Task(task.name, variants) for task in wide.tasks)
        problems["60 kJ, the authors' catalog"] = Problem(tasks, wide.budget, wide.trace)
    rows = []
    for label, problem in problems.items():
        bound = upper_bound(problem)
        for name in ("as printed", "mcdnn"):
            schedule = serve(problem, name)
            share = schedule.load_joules / max(schedule.joules, 1e-9)
            values = f"{schedule.served:.1%}", f"{schedule.mean_accuracy:.3f}", f"{schedule.total_accuracy / bound:.3f}"
            rows.append([f"{label}, {name}", *values, f"{schedule.loads:,}", f"{share:.0%}", ""])
    columns = ["ten uniform tasks", "served", "accuracy", "of the bound", "loads", "energy for loads", ""]
    report.table("Algorithm 4.1 as printed and corrected", columns, rows)


def _locations(report: Report, requests: int) -> dict[str, list[float]]:
    """Serve with more and more opportunities to run on the device (Figure 4.12)."""
    served: dict[str, list[float]] = {}
    for send in (0.1, 0.3, 0.5):
        for name in ("mcdnn", "server-first"):
            served[f"{name}, {send} J"] = [
                serve(opportunities(share, send, requests), name).served for share in _SHARES
            ]
    rows = [[label, *(f"{value:.1%}" for value in values), ""] for label, values in served.items()]
    title = "Figure 4.12: requests served by share of tasks with a specialised or shared model; 6.9 kJ"
    report.table(title, ["price of sending", *(f"{share:.0%}" for share in _SHARES), ""], rows)
    least = min(
        ours / theirs
        for send in (0.1, 0.3, 0.5)
        for ours, theirs in zip(served[f"mcdnn, {send} J"], served[f"server-first, {send} J"], strict=True)
    )
    report.ratio("served_over_server_first", least, "requests served, mcdnn / server-first, the least of all", 1)
    return served


def _day(report: Report) -> dict[str, list[float]]:
    """Serve a day with a link that comes and goes (Figure 4.13)."""
    hourly: dict[str, list[float]] = {}
    rows = []
    for label, name, sharing in (
        ("server-first", "server-first", False),
        ("server-first, shared", "server-first", True),
        ("mcdnn, shared", "mcdnn", True),
    ):
        schedule = serve(glimpse(sharing=sharing).problem, name)
        hours = (schedule.problem.trace.arrivals // 3600).astype(int)
        gains = np.array([*(option.accuracy for option in schedule.problem.options), 0.0])[schedule.choices]
        hourly[label] = [float(gains[hours == hour].mean()) for hour in range(10)]
        rows.append([label, f"{schedule.served:.1%}", *(f"{value:.2f}" for value in hourly[label]), ""])
    columns = ["", "served", *(f"hour {hour}" for hour in range(10)), ""]
    report.table("Figure 4.13: accuracy over all requests of an hour; no link in hours 3, 4 and 8", columns, rows)
    return hourly


def _models(report: Report) -> None:
    """Price full, compact and shared models (Figures 4.8 to 4.10)."""
    card = CostCard()
    rows = []
    for label, network in {"V, full": FULL["V"], "D, full": FULL["D"], **COMPACT, "shared head": SHARED_HEAD}.items():
        priced = card.variant(
            "m", accuracy=network.accuracy, gflop=network.gflop, memory_bytes=network.memory_bytes, sent_bytes=10_000
        )
        rows.append(
            [
                label,
                f"{priced.memory_bytes / 1e6:.2f}",
                f"{priced.run_joules:.2f}",
                f"{priced.load_joules:.2f}",
                f"{1e3 * priced.run_seconds:.0f}",
                "",
            ]
        )
    report.table(
        "Figures 4.8 to 4.10 by the cost card", ["model", "MB", "J a run", "J a load", "ms on the device", ""], rows
    )
    report.note(
        "Section 4.4.1: 7 to 16 J for object recognition with stand-alone variants (printed as mJ), 0.4 to 0.7 J "
        "specialised; shared models take tens of kB, about 0.1 J and less than 1 ms."
    )


def _draw(
    path: str,
    loads: tuple[list[float], dict[str, list[Schedule]]],
    locations: dict[str, list[float]],
    days: dict[str, list[float]],
) -> None:
    from benchmarks.harness.charts import lines, panels

    figure, axes = panels("Approximate model scheduling", 3)
    served = {name: [100 * schedule.served for schedule in schedules] for name, schedules in loads[1].items()}
    lines(axes[0], _APPLICATIONS, served, "applications", "requests served, %", logarithmic=True)
    # At 0.1 J both policies serve all requests.
    shown = {name: [100 * value for value in values] for name, values in locations.items() if "0.1 J" not in name}
    lines(axes[1], [100 * share for share in _SHARES], shown, "tasks with a cheap model, %", "requests served, %")
    lines(axes[2], range(10), days, "hour of the day", "accuracy over all requests")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
