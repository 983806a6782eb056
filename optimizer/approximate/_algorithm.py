"""Algorithm 4.1, the scheduler of MCDNN, with its omissions corrected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optimizer.approximate._division import ROUNDING, Share, divide
from optimizer.arguments import real

if TYPE_CHECKING:
    from optimizer.approximate._scheduler import Request, State
    from optimizer.approximate._variant import Option

__all__ = ["BudgetedPolicy"]

# A plan lives for this share of the period; frequencies forget over the longer share.
_PLAN_SHARE = 1 / 300
_FREQUENCY_SHARE = 1 / 10
_SHORTEST_SHARE = 1e-4
# Before its rate is known, a task counts for so many requests in the period; its first ones run the cheapest option.
_FIRST_GUESS = 30
_FIRST_REQUESTS = 2


class BudgetedPolicy:
    """Algorithm 4.1: the most accurate variant whose cost is within the budget per request of its task.

    The budget per request is :func:`request_budgets`. Where the printed algorithm differs, it spends energy that it
    does not count, and thrashes:

    * Requests to the cloud and splits are charged for sending.
    * The memory is divided among all tasks that are in use (:func:`plan_memory`), so that their variants stay loaded.
      As printed, each task takes the variant that its energy allows, and the least recently used one leaves.
    * A load is charged to the budget also on a miss, where the printed time since the last load is infinite.
    * Frequencies are those of all tasks in use, decayed over a tenth of the period. As printed, they are measured since
      the last load, and a task that is not loaded is missing from the sum.
    * A task whose budget is below its cheapest variant saves it, and is served at every second or third request.

    Hits run what is loaded, and a better variant is loaded in the background if its energy pays: discounted for loads
    at the rate of the past, or saved by cheaper runs.

    Parameters
    ----------
    plan_seconds : float, optional
        Longest life of a division of the memory. Default: 1/300 of the period.
    """

    landlord = True

    def __init__(self, plan_seconds: float | None = None) -> None:
        self._plan_seconds = None if plan_seconds is None else real("plan_seconds", plan_seconds, 0, above=True)
        self._started = False

    def _start(self, state: State, now: float) -> None:
        count, period = len(state.options), state.budget.seconds
        self._started, self._first = True, now
        self._life = self._plan_seconds or period * _PLAN_SHARE
        self._decay = period * _FREQUENCY_SHARE
        self._shortest = period * _SHORTEST_SHARE
        self._period = period
        self._counts = [0.0] * count
        self._requests = [0] * count
        self._seen = [now] * count
        self._loaded_at = [-math.inf] * count
        self._saved = [0.0] * count
        self._planned_at, self._planned_for = -math.inf, False
        self._shares: dict[int, Share] = {}

    def choose(self, request: Request, state: State) -> Option | None:
        """Choose the planned option, a resident one, or the best that can still be loaded."""
        if not self._started:
            self._start(state, request.now)
        task, now = request.task, request.now
        new = not self._requests[task]
        self._requests[task] += 1
        self._counts[task] = self._decayed(task, now) + 1
        self._seen[task] = now
        if new or now - self._planned_at > self._life or request.connected != self._planned_for:
            self._divide(state, request)
        share = self._shares[task]
        budget, planned = share.joules, share.planned
        if planned is not None and state.is_resident(planned) and state.admits(planned, request):
            return planned
        hits = [
            option
            for option in state.options[task]
            if option in state.cache and (planned or option.joules <= budget) and state.admits(option, request)
        ]
        if hits:
            return max(hits, key=lambda option: (option.joules <= budget, option.accuracy))
        # A task in the cloud has no share of the memory, and comes here only if the cloud is too slow or too dear.
        ceiling = planned.memory_bytes if planned and planned.memory_bytes else state.budget.memory_bytes
        for option in share.affordable:
            charge = option.load_joules if not state.is_resident(option) else 0.0
            if planned is None:
                # It does not stay in memory, so that each request pays for its load.
                allowed = budget - charge
            else:
                # The cheapest option is not discounted: there is nothing to wait for.
                allowed = budget if option is share.least else budget * (1 - charge / max(state.joules, charge, 1e-300))
            if option.memory_bytes <= ceiling and option.joules <= allowed * ROUNDING and state.admits(option, request):
                return self._record(option, request, state)
        return self._from_savings(request, state)

    def prefetch(self, request: Request, served: Option | None, state: State) -> Option | None:
        """Load the planned option after a hit on another one, or a miss that could not wait, if its energy pays."""
        task, share = request.task, self._shares[request.task]
        planned = share.planned
        if planned is None or planned is served or not planned.memory_bytes or planned in state.cache:
            return None
        remaining = max(self._period - request.now, self._shortest)
        since = max(request.now - self._loaded_at[task], self._shortest)
        reloads = planned.load_joules * max(1.0, remaining / since)
        allowed = share.joules * (1 - reloads / max(state.joules, 1e-300))
        saving = served.joules - planned.joules if served else 0.0
        saved = self._frequency(task, request.now) * remaining * saving
        if planned.joules <= allowed or saved > planned.load_joules:
            self._loaded_at[task] = request.now
            return planned
        return None

    def _record(self, option: Option, request: Request, state: State) -> Option:
        if not state.is_resident(option):
            self._loaded_at[request.task] = request.now
        return option

    def _from_savings(self, request: Request, state: State) -> Option | None:
        """Serve a task whose budget is below each variant from what its earlier requests left."""
        task = request.task
        self._saved[task] += self._shares[task].joules
        for option in sorted(state.options[task], key=lambda each: each.joules):
            charge = 0.0 if state.is_resident(option) else option.load_joules
            if option.joules + charge <= self._saved[task] and state.admits(option, request):
                self._saved[task] -= option.joules + charge
                return self._record(option, request, state)
        return None

    def _decayed(self, task: int, now: float) -> float:
        return self._counts[task] * math.exp((self._seen[task] - now) / self._decay)

    def _frequency(self, task: int, now: float) -> float:
        """Estimate the requests per second, without bias at the start of the period."""
        elapsed = max(now - self._first, self._period / _FIRST_GUESS / self._requests[task] ** 2)
        return self._decayed(task, now) / (self._decay * -math.expm1(-elapsed / self._decay))

    def _divide(self, state: State, request: Request) -> None:
        """Divide energy, money and memory among the tasks in use."""
        now = request.now
        remaining = max(self._period - now, self._shortest)
        active = [task for task, count in enumerate(self._requests) if count]
        shares = divide(
            [
                [option for option in state.options[task] if request.connected or not option.needs_link]
                for task in active
            ],
            # A task that expects less than a request in the remaining time counts for one.
            [max(self._frequency(task, now), 1 / remaining) for task in active],
            remaining,
            state,
            [self._requests[task] <= _FIRST_REQUESTS for task in active],
        )
        self._shares = dict(zip(active, shares, strict=True))
        state.cache.protected = frozenset(share.planned for share in shares if share.planned)
        self._planned_at, self._planned_for = now, request.connected
