"""Algorithm 4.1 as the thesis prints it, for comparison with the corrected ``"mcdnn"`` policy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.approximate import Option, Request, State

__all__ = ["PrintedPolicy"]


class PrintedPolicy:
    """Lines 1 to 33 of Algorithm 4.1, without splits.

    The budget per request of line 18 sums the squared frequencies of the cache only, discounts a load by the time since
    the last one, infinite for a model that is not in a cache, and is compared with the energy of a run on the device,
    or with the money of a run in the cloud. Variants are chosen without regard to memory, and the least recently used
    one leaves. The device and the cloud have a cache each; that of the cloud is not limited.
    """

    landlord = False

    def __init__(self) -> None:
        # Of each task in a cache: its option, the time of its load, and the requests since.
        self._cached: dict[int, tuple[Option, float, int]] = {}

    def choose(self, request: Request, state: State) -> Option | None:
        """Run what is cached, or else what the budgets allow (lines 2 to 8)."""
        task = request.task
        if (entry := self._cached.get(task)) and not state.is_resident(entry[0]):
            # It was evicted.
            del self._cached[task]
        if entry := self._cached.get(task):
            self._cached[task] = entry[0], entry[1], entry[2] + 1
            option: Option | None = entry[0]
        else:
            option = self._best(request, state)
            if option is not None:
                self._cached[task] = option, request.now, 1
        return option if option is not None and state.admits(option, request) else None

    def prefetch(self, request: Request, served: Option | None, state: State) -> Option | None:
        """Update the cache after a hit (lines 4 and 9 to 15)."""
        task = request.task
        if served is None or self._cached[task][1] == request.now:
            return None
        best = self._best(request, state)
        if best is None or best is self._cached[task][0]:
            return None
        self._cached[task] = best, request.now, 1
        return best if best.memory_bytes else None

    def _best(self, request: Request, state: State) -> Option | None:
        """Return the most accurate option within the budgets per request (lines 10 to 13)."""
        device, cloud = (
            self._budget(request, state, budget, place)
            for budget, place in ((state.joules, "device"), (state.dollars, "cloud"))
        )
        within = [
            option
            for option in state.options[request.task]
            if (option.place == "device" and option.joules <= device)
            or (option.place == "cloud" and request.connected and option.dollars <= cloud)
        ]
        if request.task not in self._cached:
            within = [option for option in within if option.load_seconds + option.seconds <= request.deadline]
        return max(within, key=lambda option: (option.accuracy, -option.memory_bytes), default=None)

    def _budget(self, request: Request, state: State, remaining: float, place: str) -> float:
        """Compute line 18."""
        now = request.now
        horizon = max(state.budget.seconds - now, 1e-9)

        def frequency(loaded: float, count: int) -> float:
            return count / max(now - loaded, 1.0)

        squares = sum(
            frequency(loaded, count) ** 2
            for option, loaded, count in self._cached.values()
            if option.place == place and state.is_resident(option)
        )
        if not squares:
            return math.inf
        entry = self._cached.get(request.task)
        if entry is None:
            # It has no frequency of its own since its last load; that of the cache's mean model is the fairest guess.
            cached = [frequency(loaded, count) for _, loaded, count in self._cached.values()]
            return remaining * (sum(cached) / len(cached)) / (horizon * squares)
        option, loaded, count = entry
        reload = option.load_joules * horizon / max(now - loaded, 1.0) if place == "device" else 0.0
        return max(0.0, remaining - reload) * frequency(loaded, count) / (horizon * squares)
