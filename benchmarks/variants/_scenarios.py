"""Scenarios of section 4.4.2: loads, opportunities to run on the device, and a day of a wearable camera."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.variants._as_printed import PrintedPolicy
from benchmarks.variants._catalogs import COMPACT, FULL, SHARED_HEAD, catalog, table_4_1
from optimizer.approximate import Budget, CostCard, Problem, Task, Trace, simulate

if TYPE_CHECKING:
    from optimizer.approximate import Schedule

__all__ = ["DAY", "POLICIES", "QUARTER_BATTERY", "cache_load", "glimpse", "opportunities", "serve", "stationary"]

DAY = 36_000.0
MEMORY = 600_000_000
# 25 % of a battery of 2 Ah: 2.3 J for each of 5 events a minute (section 4.3.1).
QUARTER_BATTERY = 6_900.0
POLICIES = ("mcdnn", "primal-dual", "as printed", "best", "original")


def serve(problem: Problem, policy: str) -> Schedule:
    """Simulate a policy of the product, or Algorithm 4.1 as printed."""
    return simulate(problem, PrintedPolicy() if policy == "as printed" else policy)


def stationary(
    applications: int, requests: int, joules: float, *, dollars: float = 0.0, skew: float = 0.0, seed: int = 0
) -> Problem:
    """Draw independent requests at equal distances over a day, for applications with the catalogs of Table 4.1.

    ``joules`` and ``dollars`` are those of 36,000 requests. ``skew`` is the exponent of Zipf's law.
    """
    base = table_4_1(CostCard())
    tasks = tuple(
        replace(base[number % len(base)], name=f"{base[number % len(base)].name}{number // len(base)}")
        for number in range(applications)
    )
    weights = 1 / np.arange(1, applications + 1) ** skew
    numbers = np.random.default_rng(seed).choice(applications, requests, p=weights / weights.sum())
    share = requests / DAY
    trace = Trace(np.arange(requests) / share, numbers)
    return Problem(tasks, Budget(joules * share, MEMORY, dollars * share), trace)


def cache_load(problem: Problem) -> float:
    """Return the share of requested bytes that the original models miss in the cache, with energy for all requests."""
    rich = Problem(problem.tasks, replace(problem.budget, joules=1e12), problem.trace)
    schedule = simulate(rich, "original")
    sizes = np.array([option.memory_bytes for option in rich.options])
    missed = sum(sizes[event.option] for event in schedule.events if event.load)
    return float(missed / sizes[schedule.choices].sum())


def opportunities(share: float, send_joules: float, requests: int, seed: int = 0) -> Problem:
    """Build the trade-off of Figure 4.12: full models, and for a share of the tasks a specialised or shared one.

    A specialised model is a compact one that is as accurate as the full model while a few classes dominate; a shared
    one is a head on the layers of another model.
    """
    card = CostCard(joules_per_kb_sent=send_joules / 10)
    cheap = (replace(COMPACT["F2"], name="specialised"), SHARED_HEAD)
    tasks = []
    for number in range(10):
        full = FULL["DSLM"[number % 4]]
        networks = [full]
        if number < round(10 * share):
            networks.append(replace(cheap[number % 2], accuracy=full.accuracy))
        tasks.append(Task(f"t{number}", catalog(networks, card, derived=False)))
    scale = requests / DAY
    numbers = np.random.default_rng(seed).integers(0, 10, requests)
    trace = Trace(np.arange(requests) / scale, numbers)
    return Problem(tuple(tasks), Budget(QUARTER_BATTERY * scale, MEMORY, 10.0), trace)


@dataclass(frozen=True, slots=True)
class Day:
    """A day of Glimpse: a problem, and whether face analysis shares its layers."""

    problem: Problem
    sharing: bool


def glimpse(*, sharing: bool, seed: int = 0) -> Day:
    """Build the day of Figure 4.13: faces with four attributes, scenes, and a link that comes and goes.

    The thesis does not print its trace. Here faces come as a Poisson process, once in 8 seconds and in two busy hours
    once in 4, a scene is recognised each 10 seconds, and there is no link in hours 3, 4 and 8.
    """
    card, rng = CostCard(), np.random.default_rng(seed)
    tasks = [task for task in table_4_1(card) if task.name in "DYGRS"]
    if sharing:
        head = replace(SHARED_HEAD, accuracy=0.85)
        extra = {
            task.name: catalog([replace(head, accuracy=max(v.accuracy for v in task.variants))], card, derived=False)
            for task in tasks
        }
        tasks = [Task(task.name, extra[task.name]) if task.name in "YGR" else task for task in tasks]
    places = {task.name: place for place, task in enumerate(tasks)}
    seconds = np.arange(int(DAY))
    hour = seconds // 3600
    faces = seconds[rng.random(len(seconds)) < np.where(np.isin(hour, (2, 6)), 1 / 4, 1 / 8)]
    rows = [(float(second) + 0.1 * at, places[name]) for second in faces for at, name in enumerate("DYGR")]
    rows += [(float(second) + 0.5, places["S"]) for second in seconds[::10]]
    rows.sort()
    arrivals, numbers = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    connected = ~np.isin(arrivals // 3600, (3, 4, 8))
    trace = Trace(arrivals, numbers, connected=connected)
    # $10 a year, and the energy of a quarter of the battery.
    return Day(Problem(tuple(tasks), Budget(QUARTER_BATTERY, MEMORY, 10 / 365, DAY), trace), sharing)
