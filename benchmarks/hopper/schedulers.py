"""The schedulers of model hopper parallelism against each other: Figure 3.6, and the time that a decision takes.

``python -m benchmarks.hopper.schedulers`` simulates epochs of 16 and 256 configurations on 8 and 16 workers. In the
homogeneous setting every unit takes as long as every other. In the heterogeneous one configurations cost the FLOPs of
a CNN drawn from Table A.1, and workers are GPUs drawn from the four of Section 3.5.4; there the slowest GPU decides
alone, so a third setting, "alike", has such configurations on workers that are alike; a fourth, "replicated", is the
heterogeneous one with three workers a partition. A seed draws the workload and seeds the scheduler. The policies run in
the online scheduler that a live run has too, knowing the unit times, or, as "learned", knowing nothing beforehand.
Makespans are over the lower bound max(longest configuration, busiest worker), which with replicas is a relaxation, and
over the randomized one of the same workload. It needs one core and less than five minutes. ``--drill-down`` gives what
simulation tells of Figures 3.8 to 3.11 instead, in a few seconds: speed-up, lost workers, and bytes over the network.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from benchmarks.harness.charts import panels
from benchmarks.harness.report import Report, load_average
from benchmarks.hopper._figures import drill_down
from benchmarks.hopper.schedules import HopWorkload, rearrange, schedule_milp, simulate
from optimizer.hopper import POLICIES, Hopper, Unit, UnitTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.hopper.schedules import Schedule

# Table A.1, as it is printed, in millions: 35 CNNs with a mean of 5,942 and a standard deviation of 5,670.
_MFLOPS = (
    *(727, 724, 837, 360, 727, 2000, 3000, 2000, 2000, 2000, 16000, 16000, 20000, 2000, 2000, 4000, 4000, 8000),
    *(11000, 4000, 8000, 16000, 6000, 4000, 8000, 11000, 4000, 8000, 21000, 2000, 3000, 8000, 3000, 4000, 579),
)
# Titan Xp, K80, GTX 1080, P100, in TFLOPS a second.
_CAPACITIES = (12.1, 5.6, 11.3, 18.7)
_KINDS = ("homogeneous", "heterogeneous", "alike")
_REPLICATED = "replicated"
_COPIES = 3
_SIZES = ((16, 8), (16, 16), (256, 8), (256, 16))
_LEARNED, _REARRANGED, _MILP = "learned", "rearrangement", "MILP"
_METHODS = (*POLICIES, _LEARNED, _REARRANGED, _MILP)


@dataclass(frozen=True)
class Options:
    """Parse the command line."""

    seeds: int
    milp_seconds: float
    milp_seeds: int
    solver: Literal["highs", "cbc"]
    decisions: int
    figure: Path | None
    drill_down: bool
    json: bool


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="workloads of each setting")
    parser.add_argument("--milp-seconds", type=float, default=20, help="for the solver, a workload; 0 leaves it out")
    parser.add_argument("--milp-seeds", type=int, default=1, help="on how many of the workloads of 16 configurations")
    parser.add_argument("--solver", choices=["highs", "cbc"], default="highs")
    parser.add_argument("--decisions", type=int, default=3000, help="how many are timed at 1,000 x 100")
    parser.add_argument("--figure", type=Path, help="draw the makespans into this file")
    parser.add_argument("--drill-down", action="store_true", help="Figures 3.8 to 3.11 in place of 3.6")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    given = vars(parser.parse_args(arguments))
    for name in ("seeds", "decisions"):
        if given[name] < 1:
            parser.error(f"--{name} {given[name]}: at least 1")
    return Options(**given)


def workload(kind: str, configs: int, workers: int, seed: int) -> HopWorkload:
    """A setting of Figure 3.6.

    Parameters
    ----------
    kind : {"homogeneous", "heterogeneous", "alike", "replicated"}
    configs, workers, seed : int

    Returns
    -------
    HopWorkload
        Heterogeneous seconds are those of a unit of 10,000 records, forwards.
    """
    if kind == "homogeneous":
        return HopWorkload(np.ones((configs, workers)))
    rng = np.random.default_rng(seed)
    # 10,000 records of 1e6 FLOPs by 1e12 FLOPs a second.
    costs = rng.choice(_MFLOPS, configs)
    capacities = np.full(workers, _CAPACITIES[0]) if kind == "alike" else rng.choice(_CAPACITIES, workers)
    held = _held(workers, _COPIES if kind == _REPLICATED else 1)
    return HopWorkload(np.outer(costs, 0.01 / capacities), availability=held)


def _held(workers: int, copies: int) -> dict[int, list[str]]:
    return {place: [f"w{(place + copy) % workers}" for copy in range(copies)] for place in range(workers)}


@dataclass
class Runs:
    """Results of one method in one setting, one number per seed."""

    over_bound: list[float] = field(default_factory=list)
    over_randomized: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def row(self, setting: str, method: str) -> tuple[str, ...]:
        """A line of the table."""

        def spread(numbers: list[float]) -> str:
            return f"{statistics.mean(numbers):.4f} ({min(numbers):.4f} to {max(numbers):.4f})"

        took = statistics.mean(self.seconds)
        said = dict.fromkeys(self.said)
        note = "; ".join(f"{one}: {self.said.count(one)} of {len(self.said)}" for one in said if one)
        return setting, method, spread(self.over_bound), spread(self.over_randomized), f"{took:.3f} s", note


def _methods(options: Options, kind: str, configs: int, seed: int) -> dict[str, Callable[[HopWorkload], Schedule]]:
    """Return the methods, with the randomized one, the reference, first."""
    names = sorted(POLICIES, key=lambda policy: policy != "randomized")
    found: dict[str, Callable[[HopWorkload], Schedule]] = {
        policy: partial(simulate, policy=policy, seed=seed) for policy in names
    }
    found[_LEARNED] = lambda work: simulate(work, seed=seed, times=UnitTimes())
    if kind != _REPLICATED:
        found[_REARRANGED] = rearrange
    in_figure = kind in _KINDS[:2] and configs == min(_SIZES)[0]
    if in_figure and seed < options.milp_seeds and options.milp_seconds > 0:
        found[_MILP] = partial(schedule_milp, seconds=options.milp_seconds, solver=options.solver)
    return found


def _setting(options: Options, kind: str, configs: int, workers: int) -> dict[str, Runs]:
    runs = {method: Runs() for method in _METHODS}
    for seed in range(options.seeds):
        work = workload(kind, configs, workers, seed)
        randomized = 0.0
        for method, schedule in _methods(options, kind, configs, seed).items():
            started = time.perf_counter()
            found = schedule(work)
            runs[method].seconds.append(time.perf_counter() - started)
            found.check(work.availability, work.configs)
            randomized = randomized or found.makespan
            runs[method].over_bound.append(found.ratio)
            runs[method].over_randomized.append(found.makespan / randomized)
            said = ""
            if method == _REARRANGED:
                said = "on the circle" if found.method == "vector rearrangement" else "list schedule"
            elif method == _MILP:
                own = "the solver's own" if found.method.startswith("MILP") else "list schedule, not bettered"
                said = f"{own}, {'optimal' if found.optimal else 'not proven'}"
            runs[method].said.append(said)
    return {method: one for method, one in runs.items() if one.seconds}


def _decisions(options: Options, policy: str, replicas: int) -> list[float]:
    """Seconds from the end of a unit until its worker has another, at 1,000 configurations x 100 workers."""
    configs, workers = 1000, 100
    rng = np.random.default_rng(0)
    names = [f"w{worker}" for worker in range(workers)]
    seconds = np.outer(rng.choice(_MFLOPS, configs), 0.01 / rng.choice(_CAPACITIES, workers))
    row = {f"c{config}": config for config in range(configs)}
    hopper = Hopper(list(row), _held(workers, replicas), policy=policy)
    events: list[tuple[float, Unit, float]] = []
    now = 0.0
    took: list[float] = []
    finished: tuple[Unit, float] | None = None
    while len(took) < options.decisions:
        started = time.perf_counter()
        if finished is not None:
            hopper.finish(*finished)
        assigned = [(worker, hopper.next_unit(worker)) for worker in hopper.idle_workers]
        if finished is not None:
            took.append(time.perf_counter() - started)
        for worker, next_unit in assigned:
            if next_unit is not None:
                duration = float(seconds[row[next_unit.config], names.index(worker)])
                heapq.heappush(events, (now + duration, next_unit, duration))
        now, unit, unit_seconds = heapq.heappop(events)
        finished = (unit, unit_seconds)
    return took


def _draw(path: Path, found: dict[str, dict[str, Runs]]) -> None:
    figure, axes = panels("Makespan over the lower bound (Figure 3.6)", len(_KINDS), height=3.6)
    methods = [method for method in _METHODS if method != _MILP]
    width = 0.8 / len(methods)
    for one, kind in zip(axes, _KINDS, strict=True):
        settings = [name for name in found if name.startswith(kind)]
        for number, method in enumerate(methods):
            runs = [found[name][method].over_bound for name in settings]
            means = [statistics.mean(ratios) for ratios in runs]
            # From the least to the most of the seeds.
            spread = [
                [mean - min(ratios) for mean, ratios in zip(means, runs, strict=True)],
                [max(ratios) - mean for mean, ratios in zip(means, runs, strict=True)],
            ]
            left = [place + (number - (len(methods) - 1) / 2) * width for place in range(len(settings))]
            one.bar(left, means, width, yerr=spread, color=f"C{number}", label=method, error_kw={"linewidth": 0.8})
        one.set_xticks(range(len(settings)), [name.partition(" ")[2] for name in settings])
        one.set_title(kind, fontsize="medium")
        one.set_ylim(0.95, 1.25)
    axes[-1].legend(frameon=False, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every setting, time decisions, print."""
    options = _options(arguments)
    if options.drill_down:
        figures = Report(
            "Drill-down of the model hopper (Figures 3.8 to 3.11): simulated and computed, nothing trained"
        )
        drill_down(figures)
        figures.show(as_json=options.json)
        return
    started, load = time.perf_counter(), load_average()
    report = Report(
        f"Schedulers of model hopper parallelism (Figure 3.6): {options.seeds} workloads a setting, simulated; "
        f"MILP by {options.solver}, {options.milp_seconds:g} s, on {options.milp_seeds} of those with 16 configurations"
    )
    found: dict[str, dict[str, Runs]] = {}
    for kind in (*_KINDS, _REPLICATED):
        for configs, workers in _SIZES if kind in _KINDS else _SIZES[-1:]:
            runs = found[f"{kind} {configs} x {workers}"] = _setting(options, kind, configs, workers)
            mean = statistics.mean(runs[POLICIES[0]].over_bound)
            learned = statistics.mean(runs[_LEARNED].over_bound)
            aim = "; at most 1.01" if configs == max(_SIZES)[0] and kind in _KINDS else ""
            place = f"{kind}_{configs}_{workers}"
            report.ratio(f"mean_over_lower_bound.{place}", mean, f"makespan of the default, times known{aim}")
            report.ratio(f"learned_over_lower_bound.{place}", learned, f"makespan of the default, times learned{aim}")
    rows = [runs.row(name, method) for name, all_runs in found.items() for method, runs in all_runs.items()]
    columns = ("setting", "scheduler", "over the lower bound", "over randomized", "took", "")
    report.table("Makespans: mean (least to most)", columns, rows)
    rows = []
    for policy in POLICIES:
        for replicas in (1, _COPIES):
            took = [1000 * one for one in _decisions(options, policy, replicas)]
            middle, late = statistics.median(took), float(np.quantile(took, 0.99))
            spread = (f"{middle:.3f}", f"{statistics.mean(took):.3f}", f"{late:.3f}")
            rows.append((policy, str(replicas), *spread, f"{len(took)} decisions"))
            if policy == POLICIES[0]:
                name = "decision_ms_1000x100" + (f"_{replicas}_replicas" if replicas > 1 else "")
                report.ratio(name, middle, "median milliseconds of a decision of the default; below 1")
    columns = ("policy", "workers a partition", "median ms", "mean", "99th percentile", "")
    report.table("A unit's end reported until its worker has the next: 1,000 x 100, times learned", columns, rows)
    report.note(
        "Smaller is better throughout. The MILP is bounded by the list schedule, which it returns where it finds none "
        "better; vector rearrangement returns it where its circle is too short."
    )
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    if options.figure is not None:
        _draw(options.figure, found)
        report.note(f"Drawn into {options.figure}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
