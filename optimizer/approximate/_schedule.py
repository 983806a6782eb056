"""Schedules: the option that serves each request, and the loads and evictions between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.notebook import ExplainedInNotebooks
from optimizer.sizes import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optimizer.approximate._problem import Problem

__all__ = ["MemoryEvent", "Schedule"]

# Relative rounding error of sums that differ only in their order.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """A load or an eviction.

    Attributes
    ----------
    request : int
        Place of the request before which it happens.
    option : int
        Place of the option in ``problem.options``.
    load : bool
        True for a load, False for an eviction.
    waited : bool
        Whether the request waits for the load; False for loads in the background and for evictions.
    """

    request: int
    option: int
    load: bool
    waited: bool = False


@dataclass(frozen=True, eq=False)
class Schedule(ExplainedInNotebooks):
    """Choices for all requests of a problem. Made by :func:`best_schedule` and :func:`simulate`.

    Attributes
    ----------
    problem : Problem
        Problem that it solves.
    choices : array of int, shape (requests,)
        Place in ``problem.options`` of the option that serves each request, -1 for a request that is not served.
    events : tuple of MemoryEvent
        Loads and evictions in their order.
    method : str
        Name of the policy or the solver.
    optimal : bool
        Whether no other schedule has a larger sum of accuracies. Default False.
    """

    problem: Problem
    choices: NDArray[np.int64]
    events: tuple[MemoryEvent, ...]
    method: str
    optimal: bool = False

    def _sums(self, measure: str) -> float:
        """Sum a measure over the served requests."""
        values = np.array([getattr(option, measure) for option in self.problem.options])
        return float(values[self.choices[self.choices >= 0]].sum())

    @property
    def served(self) -> float:
        """Share of the requests that are served."""
        return float(np.mean(self.choices >= 0))

    @property
    def total_accuracy(self) -> float:
        """Sum of the accuracies over the served requests, the objective of equation 4.1."""
        return self._sums("accuracy")

    @property
    def mean_accuracy(self) -> float:
        """Mean accuracy of the served requests, 0 without any."""
        return self.total_accuracy / max(1, int(np.sum(self.choices >= 0)))

    @property
    def load_joules(self) -> float:
        """Energy of all loads."""
        return sum(self.problem.options[event.option].load_joules for event in self.events if event.load)

    @property
    def joules(self) -> float:
        """Energy of all runs, transfers and loads: the left side of equation 4.2."""
        return self._sums("joules") + self.load_joules

    @property
    def dollars(self) -> float:
        """Money for the cloud: the left side of equation 4.3."""
        return self._sums("dollars")

    @property
    def loads(self) -> int:
        """Number of loads."""
        return sum(event.load for event in self.events)

    @property
    def peak_memory(self) -> int:
        """Largest number of bytes in the device's memory."""
        resident = peak = 0
        for event in self.events:
            resident += self.problem.options[event.option].memory_bytes * (1 if event.load else -1)
            peak = max(peak, resident)
        return peak

    def violations(self) -> list[str]:
        """Replay the schedule and list what it violates; empty for each schedule of this package."""
        problem, budget = self.problem, self.problem.budget
        wrong = []
        resident: set[int] = set()
        place = 0
        # A load in the background may follow the last request.
        for request, choice in enumerate([*self.choices.tolist(), -1]):
            waits = False
            while place < len(self.events) and self.events[place].request <= request:
                event = self.events[place]
                if event.load == (event.option in resident):
                    wrong.append(f"request {request}: {problem.options[event.option]} is loaded or evicted twice")
                (resident.add if event.load else resident.discard)(event.option)
                waits = waits or (event.waited and event.option == choice)
                memory = sum(problem.options[page].memory_bytes for page in resident)
                if memory > budget.memory_bytes:
                    wrong.append(f"request {request}: {size(memory)} of {size(budget.memory_bytes)}")
                place += 1
            if choice >= 0:
                wrong += self._wrong_choice(request, choice, waits=waits, is_resident=choice in resident)
        if self.joules > budget.joules * _ROUNDING:
            wrong.append(f"{self.joules:g} of {budget.joules:g} J")
        if self.dollars > budget.dollars * _ROUNDING:
            wrong.append(f"{self.dollars:g} of {budget.dollars:g} dollars")
        return wrong

    def _wrong_choice(self, request: int, choice: int, *, waits: bool, is_resident: bool) -> Iterator[str]:
        """Yield what the option of a request violates."""
        trace, option = self.problem.trace, self.problem.options[choice]
        task = self.problem.tasks[trace.tasks[request]].name
        if option.task != task:
            yield f"request {request}: {option} is not for {task}"
        if option.memory_bytes and not is_resident:
            yield f"request {request}: {option} is not in memory"
        seconds = option.seconds + (option.load_seconds if waits else 0)
        if seconds > trace.deadlines[request] * _ROUNDING:
            yield f"request {request}: {seconds:g} of {trace.deadlines[request]:g} seconds"
        if option.needs_link and not trace.connected[request]:
            yield f"request {request}: {option} without a link"

    def explain(self) -> str:
        """Describe the use of the budgets, and for each task the variants that serve it."""
        problem, budget = self.problem, self.problem.budget
        verdict = "; no schedule has a larger sum of accuracies" if self.optimal else ""
        lines = [
            f"{self.served:.1%} of {len(self.choices):,} requests served, mean accuracy {self.mean_accuracy:.3f}",
            f"method: {self.method}{verdict}",
            f"energy: {self.joules:,.4g} of {budget.joules:,.4g} J, {self.load_joules:,.4g} J for {self.loads:,} loads",
            f"cloud: ${self.dollars:,.4g} of ${budget.dollars:,.4g}",
            f"memory: at most {size(self.peak_memory)} of {size(budget.memory_bytes)}",
        ]
        for number, task in enumerate(problem.tasks):
            choices = self.choices[problem.trace.tasks == number]
            counts = Counter(problem.options[choice] for choice in choices if choice >= 0)
            shares = [f"{option} {count / len(choices):.0%}" for option, count in counts.most_common(4)]
            if lost := len(choices) - counts.total():
                shares.append(f"not served {lost / len(choices):.0%}")
            lines.append(f"  {task.name}: {len(choices):,} requests; {', '.join(shares) or 'none'}")
        return "\n".join([*lines, *(f"violated: {wrong}" for wrong in self.violations()[:5])])
