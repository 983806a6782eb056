"""The seeds' searches in simulated time: models that hop against a configuration per task."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.procedures.simulation import simulate
from optimizer.hopper import POLICIES
from optimizer.procedures import (
    ASHA,
    PBT,
    EpochResult,
    Hyperband,
    Listed,
    MedianRule,
    Patience,
    RandomSampler,
    RandomSearch,
)
from optimizer.space import Space, choice, log_uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness.report import Report
    from benchmarks.procedures._course import Simulation
    from optimizer.procedures import Procedure, Trial

__all__ = ["figures"]

_WORKERS = 8
# Table 3.6. Table A.1 has 2 GFLOPs for ResNet18 and 4 for ResNet34; a unit of the first one is the unit of time.
_COST = {"ResNet18": 1.0, "ResNet34": 2.0}
_SPACE = Space(
    {
        "model": choice(list(_COST)),
        "lr": log_uniform(1e-5, 1e-1),
        "decay": log_uniform(1e-5, 1e-1),
        "batch": choice([16, 32, 64, 128, 256]),
    }
)
# So long that task parallelism starts about as many configurations as in the seeds (67).
_ASHA_SECONDS = 240.0


def _loss(trial: Trial, epoch: int) -> float:
    """A curve that falls to a floor; the floor depends on the distance from good hyperparameters."""
    away = abs(np.log10(trial.params["lr"]) + 3) / 4 + abs(np.log10(trial.params["decay"]) + 4) / 8
    own = len(trial.curve) - trial.finished + epoch
    return float(0.3 + 0.4 * away + 0.5 / (1 + own))


def _unit(trial: Trial) -> float:
    return _COST[trial.params["model"]]


def _searches(seed: int) -> dict[str, Callable[[], Procedure]]:
    draws = lambda: RandomSampler(_SPACE, seed)  # noqa: E731 - of each search its own
    p = _WORKERS
    return {
        "Hyperband, R = 25": lambda: Hyperband(draws(), max_epochs=25),
        "Hyperband, R = 27": lambda: Hyperband(draws(), max_epochs=27),
        "Hyperband, R = 81": lambda: Hyperband(draws(), max_epochs=81),
        "HyperOpt, |S| = p": lambda: RandomSearch(_SPACE, configurations=32, epochs=10, concurrency=p, seed=seed),
        "HyperOpt, |S| = 2p": lambda: RandomSearch(_SPACE, configurations=32, epochs=10, concurrency=2 * p, seed=seed),
        "ASHA, |S| = p": lambda: ASHA(draws(), max_epochs=9, rungs="additive", concurrency=p),
        "ASHA, |S| = 2p": lambda: ASHA(draws(), max_epochs=9, rungs="additive", concurrency=2 * p),
        _PROMOTED: lambda: ASHA(draws(), max_epochs=9, rungs="additive", concurrency=2 * p),
        "PBT, 2p members": lambda: PBT(_SPACE, population=2 * p, epochs=10, seed=seed),
        "grid of 16 (A.14)": lambda: RandomSearch(_SPACE, configurations=16, epochs=10, seed=seed),
    }


# Promoted configurations first: otherwise new ones keep the last rung waiting until time is over.
_PROMOTED = "ASHA, |S| = 2p, longest remaining"

_WAYS: dict[str, dict[str, Any]] = {
    "rolling": {},
    "together": {"rounds": "together"},
    "tasks": {"parallelism": "tasks"},
}


def _rival(name: str) -> str:
    # A task-parallel system trains as many configurations at the same time as it has workers.
    return (
        name.removesuffix(", longest remaining").replace("2p", "p") if name.startswith(("HyperOpt", "ASHA")) else name
    )


def figures(report: Report, seeds: int) -> None:
    """Simulate the searches of Section 3.6.3 and Appendix A.4 and add their table and ratios."""
    found: dict[tuple[str, str], list[Simulation]] = {}
    for seed in range(seeds):
        searches = _searches(seed)
        for name in searches:
            for way, how in _WAYS.items():
                make = searches[_rival(name) if way == "tasks" else name]
                limit = _ASHA_SECONDS if name.startswith("ASHA") else None
                policy = "longest-remaining-elsewhere" if name == _PROMOTED else POLICIES[0]
                course = simulate(make(), _loss, _unit, _WORKERS, max_seconds=limit, policy=policy, **how)
                found.setdefault((name, way), []).append(course)
    rows, rolls = [], []
    for name in _searches(0):
        asha = name.startswith("ASHA")
        value: dict[str, float] = {}
        for way in _WAYS:
            courses = found[name, way]
            value[way] = statistics.mean(len(each.ledger) if asha else each.makespan for each in courses)
        if not asha:
            rolls.append(value["rolling"] / value["together"])
        idle = statistics.mean(each.idle for each in found[name, "rolling"])
        unit = "configurations in the same time" if asha else "seconds"
        rows.append(
            (
                name,
                *(f"{value[way]:.1f}" for way in _WAYS),
                f"{value['rolling'] / value['tasks']:.3f}",
                f"{value['rolling'] / value['together']:.3f}",
                f"{idle:.1%}",
                unit,
            )
        )
        if name in _NAMED:
            key, meaning, target = _NAMED[name]
            report.ratio(key, value["rolling"] / value["tasks"], meaning, target)
    columns = ("search", "rolling", "together", "task-parallel", "rolling / tasks", "rolling / together", "idle", "")
    report.table(f"Simulated, {_WORKERS} workers, Table 3.6, means of {seeds} seeds", columns, rows)
    report.ratio(
        "rolling_over_together",
        statistics.geometric_mean(rolls),
        "time without and with a barrier, geometric mean; at most",
        0.97,
    )
    _rungs(report, found)
    _straggler(report, seeds)
    _decision(report)


_NAMED = {
    "Hyperband, R = 25": (
        "hyperband_vs_task_parallel",
        "Figure A.11: time, hopping / tasks; seeds 43.5/42.1; at most",
        1.04,
    ),
    "HyperOpt, |S| = p": ("hyperopt_p_vs_task_parallel", "Figure 3.12: time, hopping / tasks; seeds 31.8/25.9", None),
    "HyperOpt, |S| = 2p": ("hyperopt_vs_task_parallel", "the same with 2p at a time; at most", 1.05),
    "ASHA, |S| = p": (
        "asha_p_configs_vs_task_parallel",
        "Figure 3.13: configurations, hopping / tasks; seeds 83/67",
        None,
    ),
    "ASHA, |S| = 2p": ("asha_least_far_along_configs_vs_task_parallel", "the same with 2p at a time", None),
    _PROMOTED: ("asha_configs_vs_task_parallel", "the same, promoted ones first; at least", 1.0),
}


def _rungs(report: Report, found: dict[tuple[str, str], list[Simulation]]) -> None:
    """Figures A.12 and A.13: how far ASHA's configurations came, and the best loss at each rung."""
    rows = []
    for shown, name, way in (
        ("hopping", "ASHA, |S| = 2p", "rolling"),
        ("hopping, longest remaining", _PROMOTED, "rolling"),
        ("tasks", _PROMOTED, "tasks"),
    ):
        trials = [trial for course in found[name, way] for trial in course.ledger]
        courses = len(found[name, way])
        for epochs in (1, 4, 13):
            reached = [trial for trial in trials if trial.finished >= epochs]
            best = min((-trial.scores[epochs - 1] for trial in reached), default=float("nan"))
            share = len(reached) / len(trials)
            rows.append(
                (f"{shown}, {epochs} epochs", f"{len(reached) / courses:.1f}", f"{share:.0%}", f"{best:.3f}", "")
            )
    columns = ("ASHA", "configurations", "of all", "best loss there", "")
    report.table("Figures A.12 and A.13, means of the same runs", columns, rows)


def _straggler(report: Report, seeds: int) -> None:
    """Figures A.8 and A.9: tasks in the order that they come in, and the longest first, against hopping."""
    total = {"as they come": 0.0, "longest first": 0.0, "hopping": 0.0}
    for seed in range(seeds):
        costs = np.random.default_rng(seed).choice([0.36, 0.7, 2, 3, 4, 8, 11, 16, 20], 16)
        orders = {"as they come": costs, "longest first": -np.sort(-costs), "hopping": costs}
        for name, order in orders.items():
            search = Listed([{"cost": float(cost)} for cost in order], epochs=5)
            parallelism = "hopping" if name == "hopping" else "tasks"
            course = simulate(
                search, lambda *_: 1.0, lambda trial: trial.params["cost"], _WORKERS, parallelism=parallelism
            )
            total[name] += course.makespan
    report.ratio(
        "straggler_vs_hopping",
        total["as they come"] / total["hopping"],
        "Figure A.8: tasks as they come / hopping; seeds 27.4/19.7 to A.9",
    )
    report.ratio(
        "best_tasks_vs_hopping",
        total["longest first"] / total["hopping"],
        "Figure A.9: tasks, longest first and times known / hopping",
    )


def _decision(report: Report) -> None:
    """Seconds that a procedure of 1,000 configurations takes to decide on one result."""
    members, calls = 1000, 3000
    search = PBT(
        _SPACE, population=members, epochs=10, generations="rolling", seed=1, stoppers=[Patience(3), MedianRule()]
    )
    search.ask([], idle=members)
    took: list[float] = []
    while len(took) < calls:
        for trial in [trial for trial in search.ledger if trial.live and trial.finished < trial.granted]:
            result = EpochResult(trial.trial_id, trial.finished + 1, {search.metric: _loss(trial, trial.finished + 1)})
            began = time.perf_counter()
            search.ask([result])
            took.append(time.perf_counter() - began)
            if len(took) == calls:
                break
    took.sort()
    report.table(
        f"A decision of rolling PBT with {members:,} members, patience and the median rule; {calls:,} of them",
        ("", "milliseconds", ""),
        [
            ("mean", f"{statistics.mean(took) * 1e3:.2f}", ""),
            ("median", f"{took[calls // 2] * 1e3:.2f}", ""),
            ("99 of 100 take at most", f"{took[calls * 99 // 100] * 1e3:.2f}", ""),
        ],
    )
    report.ratio("decision_ms", statistics.mean(took) * 1e3, "mean milliseconds of a decision; at most", 1.0)
