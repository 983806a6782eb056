"""Step functions of backends over budgets, and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.serving._profile import BatchingProfile

__all__ = ["Steps", "after", "beside", "model_steps"]

# Largest number of steps of a sum; more are thinned to the best in each 8,192nd of the deadline.
_MOST = 8192


@dataclass(frozen=True, slots=True)
class Steps:
    """Step function: ``costs[k]`` from ``budgets[k]`` on; budgets rise and costs fall.

    Budgets are milliseconds and costs numbers of backends, both of shape (steps,). ``choices`` are summed functions,
    with the step of each in every step of the sum, whose ``name`` is ``""``.
    """

    budgets: NDArray[np.float64]
    costs: NDArray[np.float64]
    choices: tuple[tuple[Steps, NDArray[np.int64]], ...] = ()
    name: str = ""

    def at(self, budget: float) -> float:
        """Return the cost of a budget; infinite below the first step."""
        step = int(np.searchsorted(self.budgets, budget * (1 + 1e-12), side="right")) - 1
        return float(self.costs[step]) if step >= 0 else float("inf")

    def chosen(self, step: int) -> Mapping[str, float]:
        """Return the smallest budgets of the summed functions in a step, by name."""
        if self.name:
            return {self.name: float(self.budgets[step])}
        budgets: dict[str, float] = {}
        for part, steps in self.choices:
            budgets |= part.chosen(int(steps[step]))
        return budgets


def model_steps(name: str, profile: BatchingProfile, rate: float, batches: float) -> Steps:
    """Return the backends of a model by its budget.

    ``rate`` is requests per second; ``batches`` must fit into a budget.
    """
    sizes = np.arange(1, profile.max_batch + 1)
    fixed = profile.preprocess_ms + profile.postprocess_ms
    return _falling(batches * profile.latencies[1:] + fixed, rate * profile.latencies[1:] / (1000 * sizes), name=name)


def beside(parts: Sequence[Steps]) -> Steps:
    """Add functions of one common budget."""
    if len(parts) == 1:
        return parts[0]
    budgets = np.unique(np.concatenate([part.budgets for part in parts]))
    budgets = budgets[budgets >= max(part.budgets[0] for part in parts)]
    steps = [np.searchsorted(part.budgets, budgets, side="right") - 1 for part in parts]
    costs = np.sum([part.costs[step] for part, step in zip(parts, steps, strict=True)], 0)
    return Steps(budgets, costs, tuple(zip(parts, steps, strict=True)))


def after(first: Steps, second: Steps, limit: float) -> Steps:
    """Add functions whose budgets add up, to a limit."""
    budgets = (first.budgets[:, None] + second.budgets).ravel()
    costs = (first.costs[:, None] + second.costs).ravel()
    left, right = (
        grid.ravel() for grid in np.meshgrid(np.arange(len(first.costs)), np.arange(len(second.costs)), indexing="ij")
    )
    stay = budgets <= limit * (1 + 1e-12)
    budgets, costs, left, right = budgets[stay], costs[stay], left[stay], right[stay]
    order = np.lexsort((costs, budgets))
    better = _first_minima(costs[order])
    order = order[better]
    if len(order) > _MOST:
        # The last of each bucket is its best.
        buckets = np.floor(budgets[order] * (_MOST / limit))
        order = order[np.append(np.diff(buckets) > 0, True)]
    return Steps(budgets[order], costs[order], ((first, left[order]), (second, right[order])))


def _falling(budgets: NDArray[np.float64], costs: NDArray[np.float64], name: str) -> Steps:
    order = np.lexsort((costs, budgets))
    order = order[_first_minima(costs[order])]
    return Steps(budgets[order], costs[order], name=name)


def _first_minima(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark costs below all costs before them."""
    if not len(costs):
        return np.empty(0, bool)
    least = np.minimum.accumulate(costs)
    marked: NDArray[np.bool_] = np.append(True, costs[1:] < least[:-1] * (1 - 1e-12))
    return marked
