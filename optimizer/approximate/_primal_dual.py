"""Online primal-dual scheduling: prices of energy, money and memory that follow their use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.approximate._scheduler import Request, State
    from optimizer.approximate._variant import Option

__all__ = ["PrimalDualPolicy"]

# Step of the memory's price per request, as a share.
_STEP = 0.05
_GAP_MEMORY = 0.9


class PrimalDualPolicy:
    """Policy that weighs accuracy against prices, and needs no forecast of the requests.

    *Packing* (Buchbinder and Naor, *Online primal-dual algorithms for covering and packing*): the price of a budget
    grows exponentially with the share that is spent, from 0 to the largest accuracy per joule or dollar of any option,
    at which nothing is worth it. An option is worth its accuracy less its energy, money and memory at these prices.

    *Paging*: the price of memory rises while the options that tasks want exceed it, and falls otherwise. A better
    option is rented before it is bought, as skis are: requests are served by what is loaded, or in the cloud, until
    the lost accuracy adds up to the price of the load's energy. :class:`ModelCache` evicts as a landlord does.
    """

    landlord = True

    def __init__(self) -> None:
        self._energy: Callable[[float], float] | None = None

    def _start(self, state: State) -> None:
        options = [option for task in state.options for option in task]
        self._energy = _price([(option.accuracy, option.joules) for option in options])
        self._money = _price([(option.accuracy, option.dollars) for option in options])
        count = len(state.options)
        self._memory = 1 / max(1, state.budget.memory_bytes) / state.budget.seconds
        self._gap: list[float] = [0.0] * count
        self._last: list[float | None] = [None] * count
        self._wanted = [0] * count
        self._regret: dict[Option, float] = {}

    def choose(self, request: Request, state: State) -> Option | None:
        """Choose the option with the largest worth, and load it only after its rent."""
        if self._energy is None:
            self._start(state)
        assert self._energy is not None
        budget, task = state.budget, request.task
        energy = self._energy(1 - state.joules / budget.joules) if budget.joules else 0.0
        money = self._money(1 - state.dollars / budget.dollars) if budget.dollars else 0.0
        rent = self._memory * self._observe_gap(request)
        best, present = None, None
        top, here = 0.0, 0.0
        for option in state.options[task]:
            worth = option.accuracy - energy * option.joules - money * option.dollars - rent * option.memory_bytes
            if worth <= here or not state.admits(option, request):
                continue
            if worth > top:
                best, top = option, worth
            if state.is_resident(option):
                present, here = option, worth
        self._wanted[task] = best.memory_bytes if best else 0
        if budget.memory_bytes:
            excess = sum(self._wanted) / budget.memory_bytes - 1
            self._memory *= math.exp(_STEP * max(-1.0, min(1.0, excess)))
        if best is None or best is present:
            return present
        regret = self._regret.get(best, 0.0) + top - here
        if regret < energy * best.load_joules:
            self._regret[best] = regret
            return present
        self._regret.pop(best, None)
        return best

    def prefetch(self, request: Request, served: Option | None, state: State) -> Option | None:
        """Load nothing in the background."""
        del request, served, state
        return None

    def _observe_gap(self, request: Request) -> float:
        """Return the mean time between the requests of a task, recent ones first."""
        task, last = request.task, self._last[request.task]
        if last is not None:
            gap = request.now - last
            self._gap[task] = gap if not self._gap[task] else _GAP_MEMORY * self._gap[task] + (1 - _GAP_MEMORY) * gap
        self._last[task] = request.now
        return self._gap[task]


def _price(pairs: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """Return the price of a budget as a function of its spent share, from pairs of accuracy and cost."""
    ratios = [accuracy / cost for accuracy, cost in pairs if cost > 0]
    if not ratios:
        return lambda _: 0.0
    high = max(ratios)
    spread = high / min(ratios)
    growth = math.log1p(spread)
    return lambda spent: high / spread * math.expm1(growth * spent)
