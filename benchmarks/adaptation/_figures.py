"""Figures 6 to 11 of Nautilus on these workloads: each asks for the runs that it shows, and draws them."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from benchmarks.adaptation._outcome import Cycle, Measured
from benchmarks.adaptation._spark_arms import MAT_ALL, NO_FUSE, NO_MAT, OURS
from benchmarks.harness.charts import grouped, lines, panels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.adaptation._runs import Runs
    from benchmarks.adaptation._workloads import Workload
    from benchmarks.harness.report import Report

__all__ = ["FIGURES", "elapsed", "flops_optimal", "labelled_totals"]

_LABELLING_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_CURRENT, _OPTIMAL = "current practice", "FLOPs optimal"
_DRILLED = "FTR-2"
_MANY = (1, 2, 4, 6)
_MIB = 2**20


def flops_optimal(current: Measured, speedup: float) -> Measured:
    """Current practice with its seconds divided by equation 11: no run of its own."""
    cycles = tuple(Cycle(cycle.seconds / speedup, 0.0, 0, 0, cycle.best) for cycle in current.cycles)
    return Measured(_OPTIMAL, "by equation 11", current.initial / speedup, 0, cycles)


def labelled_totals(found: Measured, records: int, seconds: Sequence[float]) -> list[float]:
    """Compute total times for labelling times per record, without labelling during training (figure 6 C)."""
    return [found.total + len(found.cycles) * records * each for each in seconds]


def elapsed(found: Measured, records: int, seconds: float) -> list[float]:
    """Time at the end of each cycle, labelling included: the horizontal axis of figure 7."""
    return [found.initial + at for at in accumulate(cycle.seconds + records * seconds for cycle in found.cycles)]


def _arms(runs: Runs, work: Workload) -> dict[str, Measured]:
    current = runs.current(work)
    arms = {_CURRENT: current}
    if runs.spark is not None:
        arms |= {setting.name: runs.ours(work, setting) for setting in (MAT_ALL, OURS)}
    return arms | {_OPTIMAL: flops_optimal(current, runs.speedup(work))}


def _totals(report: Report, runs: Runs, out: Path) -> None:
    """Figure 6 A: total model selection time."""
    found = {name: _arms(runs, runs.workload(name)) for name in runs.names}
    arms = list(next(iter(found.values())))
    rows = [(name, *(f"{found[name][arm].total:.1f}" for arm in arms), "") for name in found]
    report.table("Figure 6 A: seconds of all cycles", ("workload", *arms, ""), rows)
    figure, (axes,) = panels("Model selection time")
    grouped(axes, list(found), {arm: [found[name][arm].total for name in found] for arm in arms}, "seconds")
    figure.savefig(out / "figure6a.png", dpi=120)


def _by_cycle(report: Report, runs: Runs, out: Path) -> None:
    """Figure 6 B: by cycle."""
    found = _arms(runs, runs.workload(_DRILLED))
    count = len(next(iter(found.values())).cycles)
    places = ["initial", *(f"cycle {number + 1}" for number in range(count))]
    series = {arm: [each.initial, *(cycle.seconds for cycle in each.cycles)] for arm, each in found.items()}
    rows = [(arm, *(f"{value:.1f}" for value in values), "") for arm, values in series.items()]
    report.table(f"Figure 6 B: {_DRILLED} by cycle, seconds", ("arm", *places, ""), rows)
    figure, (axes,) = panels(f"{_DRILLED} by cycle")
    grouped(axes, places, series, "seconds")
    figure.savefig(out / "figure6b.png", dpi=120)


def _labelling(report: Report, runs: Runs, out: Path) -> None:
    """Figure 6 C: with the time of labelling, from the cycles that were measured."""
    work = runs.workload(_DRILLED)
    found = _arms(runs, work)
    series = {arm: labelled_totals(each, work.scale.records, _LABELLING_S) for arm, each in found.items()}
    columns = ("arm", *(f"{each:g} s a record" for each in _LABELLING_S), "")
    rows = [(arm, *(f"{value:.0f}" for value in values), "") for arm, values in series.items()]
    report.table(f"Figure 6 C: {_DRILLED} with labelling, seconds", columns, rows)
    figure, (axes,) = panels(f"{_DRILLED} with labelling")
    lines(axes, _LABELLING_S, series, "seconds to label a record", "seconds", logarithmic=True)
    figure.savefig(out / "figure6c.png", dpi=120)


def _curves(report: Report, runs: Runs, out: Path) -> None:
    """Figure 7: the best candidate's validation metric by time, with and without labelling."""
    work = runs.workload(_DRILLED)
    found = {arm: each for arm, each in _arms(runs, work).items() if arm in {_CURRENT, OURS.name}}
    figure, both = panels(f"{_DRILLED}: best validation {work.metric}", 2)
    rows = []
    for axes, seconds in zip(both, (0.0, 4.0), strict=True):
        for arm, each in found.items():
            at, best = elapsed(each, work.scale.records, seconds), [cycle.best for cycle in each.cycles]
            axes.plot(at, best, marker="o", label=arm)
            rows.append(
                (f"{arm}, {seconds:g} s a label", " ".join(f"{x:.0f}: {y:.4f}" for x, y in zip(at, best, strict=True)))
            )
        axes.set_xlabel(f"seconds, {seconds:g} s a label")
        axes.legend(frameon=False, fontsize="small")
    report.table("Figure 7: seconds and the best validation metric", ("arm", "cycles"), rows)
    figure.savefig(out / "figure7.png", dpi=120)


def _switches(report: Report, runs: Runs, out: Path) -> None:
    """Figure 8: without one of the optimisations."""
    found: dict[str, dict[str, Measured]] = {}
    for name in runs.names:
        work = runs.workload(name)
        found[name] = {_CURRENT: runs.current(work)}
        if runs.spark is not None:
            found[name] |= {setting.name: runs.ours(work, setting) for setting in (NO_MAT, NO_FUSE, OURS)}
    arms = list(next(iter(found.values())))
    rows = [(name, *(f"{found[name][arm].total:.1f}" for arm in arms), "") for name in found]
    report.table("Figure 8: seconds without one optimisation", ("workload", *arms, ""), rows)
    figure, (axes,) = panels("Without one optimisation")
    grouped(axes, list(found), {arm: [found[name][arm].total for name in found] for arm in arms}, "seconds")
    figure.savefig(out / "figure8.png", dpi=120)


def _models(report: Report, runs: Runs, out: Path) -> None:
    """Figure 9: by the number of models, one strategy at one batch size."""
    series: dict[str, list[float]] = {}
    for count in _MANY:
        work = runs.workload(_DRILLED)
        first = next(params for params in work.space if params["scheme"] == "concat last 4" and params["batch"] == 16)
        fewer = replace(work, space=tuple(first | {"lr": first["lr"] / (1 + number)} for number in range(count)))
        series.setdefault(_CURRENT, []).append(runs.current(fewer).total)
        for setting in (NO_MAT, NO_FUSE, OURS) if runs.spark is not None else ():
            series.setdefault(setting.name, []).append(runs.ours(fewer, setting).total)
    _drawn(report, out / "figure9.png", "Figure 9: seconds by the number of models", "models", _MANY, series)


def _budgets(report: Report, runs: Runs, out: Path) -> None:
    """Figure 10: one optimisation alone, by its budget."""
    work = runs.workload(_DRILLED)
    current = runs.current(work).total
    layer = work.scale.total * work.scale.tokens * 384 * 4
    disks = tuple(layers * layer / _MIB for layers in (0, 1, 2, 3, 4))
    # Below 818 MiB a candidate of this workload does not fit alone.
    memories = (896.0, 1024.0, 1536.0, 2048.0, 4096.0)
    series: dict[str, list[float]] = {_CURRENT: [current] * len(disks)}
    if runs.spark is not None:
        series[NO_FUSE.name] = [
            runs.ours(work, replace(NO_FUSE, disk_bytes=round(disk * _MIB))).total for disk in disks
        ]
    _drawn(report, out / "figure10a.png", "Figure 10 A: seconds by the disk's budget", "MiB", disks, series)
    series = {_CURRENT: [current] * len(memories)}
    if runs.spark is not None:
        series[NO_MAT.name] = [
            runs.ours(work, replace(NO_MAT, memory_bytes=round(memory * _MIB))).total for memory in memories
        ]
    _drawn(report, out / "figure10b.png", "Figure 10 B: seconds by the memory's budget", "MiB", memories, series)


def _drawn(
    report: Report, path: Path, title: str, unit: str, places: Sequence[float], series: Mapping[str, Sequence[float]]
) -> None:
    rows = [(arm, *(f"{value:.1f}" for value in values), "") for arm, values in series.items()]
    report.table(f"{title} ({_DRILLED})", ("arm", *(f"{place:.0f} {unit}" for place in places), ""), rows)
    figure, (axes,) = panels(title)
    lines(axes, places, series, unit, "seconds")
    figure.savefig(path, dpi=120)


def _resources(report: Report, runs: Runs, out: Path) -> None:
    """Figure 11: how busy the cores are, and bytes of the disk by cycle; each cycle begins with a cold page cache."""
    work = runs.workload(_DRILLED)
    found = {_CURRENT: runs.current(work, cold=True)}
    if runs.spark is not None:
        found[OURS.name] = runs.ours(work, OURS, cold=True)
    rows = [
        (arm, f"{each.busy(runs.cores):.0%}", f"{each.read / _MIB:,.0f}", f"{each.written / _MIB:,.0f}", each.how)
        for arm, each in found.items()
    ]
    report.table(f"Figure 11: {_DRILLED}", ("arm", "CPU", "MiB read", "MiB written", "how"), rows)
    count = len(next(iter(found.values())).cycles)
    figure, (reads, writes) = panels("Cumulative bytes of the disk", 2)
    for axes, of in ((reads, "read"), (writes, "written")):
        series = {
            arm: [
                (total + (each.initial_written if of == "written" else 0)) / _MIB
                for total in accumulate(getattr(cycle, of) for cycle in each.cycles)
            ]
            for arm, each in found.items()
        }
        lines(axes, [float(number + 1) for number in range(count)], series, "cycle", f"MiB {of}")
    figure.savefig(out / "figure11.png", dpi=120)
    if OURS.name in found:
        for of in ("read", "written"):
            ratio = getattr(found[_CURRENT], of) / max(1, getattr(found[OURS.name], of))
            report.ratio(f"cold_{of}.{_DRILLED}", ratio, f"bytes {of}, current practice / ours, cold page cache")


FIGURES: dict[str, Callable[[Report, Runs, Path], None]] = {
    "6a": _totals,
    "6b": _by_cycle,
    "6c": _labelling,
    "7": _curves,
    "8": _switches,
    "9": _models,
    "10": _budgets,
    "11": _resources,
}
"""By number."""
