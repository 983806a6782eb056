"""Baselines: policies that use a single variant for each task."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.approximate._scheduler import Request, State
    from optimizer.approximate._variant import Option

__all__ = ["FixedVariant", "knee", "largest"]


def largest(options: Sequence[Option]) -> Option:
    """Return the most accurate option, the smallest of equals."""
    return max(options, key=lambda option: (option.accuracy, -option.memory_bytes))


def knee(options: Sequence[Option]) -> Option:
    """Return the knee of the curve of accuracy over the logarithm of memory (Figure 4.2).

    It is the point that is farthest above the line from the smallest to the most accurate option.
    """
    sizes = [math.log(max(1, option.memory_bytes)) for option in options]
    low, high = min(sizes), max(sizes[place] for place, option in enumerate(options) if option == largest(options))
    worst = min(option.accuracy for option in options)
    rise = max(option.accuracy for option in options) - worst
    if high <= low or not rise:
        return largest(options)
    return max(
        zip(options, sizes, strict=True),
        key=lambda pair: (pair[0].accuracy - worst) / rise - (pair[1] - low) / (high - low),
    )[0]


class FixedVariant:
    """Policy with a single variant for each task, paged by least recent use (section 4.4.2).

    Parameters
    ----------
    pick : callable
        Picks from the options of a task on the device; :func:`largest` is Original, :func:`knee` is Best.
    cloud_first : bool
        Whether a request runs in the cloud while there are a link and money. Default False.
    """

    landlord = False

    def __init__(self, pick: Callable[[Sequence[Option]], Option], *, cloud_first: bool = False) -> None:
        self._pick = pick
        self._cloud_first = cloud_first
        self._picked: list[list[Option]] | None = None

    def choose(self, request: Request, state: State) -> Option | None:
        """Choose the variant of the task, or None if the state does not admit it."""
        if self._picked is None:
            self._picked = [self._order(options) for options in state.options]
        return next((option for option in self._picked[request.task] if state.admits(option, request)), None)

    def prefetch(self, request: Request, served: Option | None, state: State) -> Option | None:
        """Load nothing in the background."""
        del request, served, state
        return None

    def _order(self, options: Sequence[Option]) -> list[Option]:
        device = [option for option in options if option.place == "device"]
        cloud = [option for option in options if option.place == "cloud"]
        order = [self._pick(device)] if device else []
        if self._cloud_first and cloud:
            same = [option for option in cloud if order and option.variant == order[0].variant]
            order.insert(0, same[0] if same else largest(cloud))
        return order
