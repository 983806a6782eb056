"""Division of energy, money and memory among the tasks in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.approximate._memory_plan import plan_memory
from optimizer.approximate._request_budgets import request_budgets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.approximate._scheduler import State
    from optimizer.approximate._variant import Option

__all__ = ["ROUNDING", "Share", "divide"]

ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Share:
    """Resources of a task.

    Attributes
    ----------
    joules : float
        Budget per request.
    planned : Option or None
        Option that stays in memory, or runs in the cloud; None if there is no memory for any.
    least : Option or None
        Option whose price is the floor of the budget; None if no option can be reached.
    affordable : tuple of Option
        Options within the budgets per request, the most accurate first.
    """

    joules: float
    planned: Option | None
    least: Option | None
    affordable: tuple[Option, ...]


def divide(
    options: Sequence[Sequence[Option]],
    rates: Sequence[float],
    seconds: float,
    state: State,
    is_new: Sequence[bool],
) -> list[Share]:
    """Divide the remaining budgets and the memory.

    Each task gets at least the price of its cheapest option. Tasks for which the memory has no room get the price of a
    smaller option instead, at the expense of the others, until there is room for all or no smaller option.

    Parameters
    ----------
    options : sequence of sequence of Option
        Options that each task can reach, perhaps none.
    rates : sequence of float
        Requests per second of each task.
    seconds : float
        Remaining time.
    state : State
        Remaining budgets and resident options.
    is_new : sequence of bool
        Whether a task is so new that it runs its cheapest option.

    Returns
    -------
    list of Share
        Share of each task.
    """
    energy, money = max(state.joules, 0.0), max(state.dollars, 0.0)
    least = [
        min(
            task,
            key=lambda option: option.joules / (energy or 1e-300) + option.dollars / (money or 1e-300),
            default=None,
        )
        for task in options
    ]
    while True:
        joules = request_budgets(energy, seconds, rates, [option.joules if option else 0.0 for option in least])
        dollars = request_budgets(money, seconds, rates, [option.dollars if option else 0.0 for option in least])
        for task, first in enumerate(least):
            if first and is_new[task]:
                joules[task], dollars[task] = max(joules[task], first.joules), max(dollars[task], first.dollars)
        affordable = [
            [
                option
                for option in options[task]
                if (option is first or not is_new[task])
                and option.dollars <= dollars[task] * ROUNDING
                and option.joules + _load_share(option, first, rates[task] * seconds, state) <= joules[task] * ROUNDING
            ]
            for task, first in enumerate(least)
        ]
        planned = plan_memory(affordable, rates, state.budget.memory_bytes)
        smaller = _smaller(options, affordable, planned, least, state.budget.memory_bytes)
        if not smaller:
            return [
                Share(float(joules[task]), planned[task], least[task], tuple(sorted(each, key=lambda o: -o.accuracy)))
                for task, each in enumerate(affordable)
            ]
        least = [smaller.get(task, option) for task, option in enumerate(least)]


def _smaller(
    options: Sequence[Sequence[Option]],
    affordable: Sequence[Sequence[Option]],
    planned: Sequence[Option | None],
    least: Sequence[Option | None],
    capacity: int,
) -> dict[int, Option]:
    """Choose smaller options for the tasks that the memory leaves out."""
    left_out = [task for task, option in enumerate(planned) if option is None and affordable[task]]
    free = capacity - sum(option.memory_bytes for option in planned if option)
    smaller = {}
    for task in left_out:
        present = least[task]
        room = min(free // len(left_out), present.memory_bytes - 1) if present else -1
        fits = [option for option in options[task] if option.memory_bytes <= room]
        if fits:
            smaller[task] = min(fits, key=lambda option: option.joules)
    return smaller


def _load_share(option: Option, least: Option | None, requests: float, state: State) -> float:
    """Return the energy of a load, divided among the expected requests; that of the floor is paid anyway."""
    if option is least or state.is_resident(option):
        return 0.0
    return option.load_joules / max(requests, 1.0)
