"""Budget per request of each task (Algorithm 4.1, line 18)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.arguments import real
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["request_budgets"]


def request_budgets(
    budget: float, seconds: float, frequencies: ArrayLike, floors: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Divide a budget among the requests of all tasks: e_i = e f_i / (T sum of f_j^2).

    The expected requests of all tasks together get exactly the budget: the sum of e_i f_i T is e. As printed, frequent
    tasks get so much more per request that rare ones cannot pay for any variant. With ``floors`` each task gets at
    least the price of its cheapest option, and the rest is divided as printed. If the budget does not cover the floors,
    the tasks with the lowest ones come first.

    Parameters
    ----------
    budget : float
        Remaining energy or money: e.
    seconds : float
        Remaining time: T.
    frequencies : array_like of float, shape (tasks,)
        Requests per second of each task, above 0.
    floors : array_like of float, optional
        Price of the cheapest option of each task, one value or one for each task. Default 0, the printed formula.

    Returns
    -------
    array of float, shape (tasks,)
        Budget per request of each task.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.

    Examples
    --------
    >>> request_budgets(60_000, 36_000, [0.5, 0.25]).round(3).tolist()
    [2.667, 1.333]
    >>> request_budgets(60_000, 36_000, [0.5, 0.25], floors=2).round(3).tolist()
    [2.333, 2.0]
    """
    real("budget", budget, 0)
    real("seconds", seconds, 0, above=True)
    rates = np.asarray(frequencies, np.float64)
    if rates.ndim != 1 or not len(rates) or not (np.isfinite(rates) & (rates > 0)).all():
        raise InvalidArgumentError(f"frequencies must be at least one number above 0, got {frequencies!r}.")
    least = np.broadcast_to(np.asarray(floors, np.float64), rates.shape)
    if not (np.isfinite(least) & (least >= 0)).all():
        raise InvalidArgumentError(f"floors must be finite numbers of at least 0, got {floors!r}.")
    counts = rates * seconds
    needs = least * counts
    if needs.sum() > budget:
        order = np.argsort(least, kind="stable")
        before = np.cumsum(needs[order]) - needs[order]
        shares = np.empty_like(needs)
        shares[order] = np.clip(budget - before, 0, needs[order])
        return np.divide(shares, counts)
    # The level k of max(floor_i, k f_i) is found from the tasks that it lifts, those with the lowest floor_i / f_i.
    order = np.argsort(least / rates, kind="stable")
    lifted = np.cumsum((rates * counts)[order])
    levels = (budget - (needs.sum() - np.cumsum(needs[order]))) / lifted
    starts = (least / rates)[order]
    level = levels[np.flatnonzero(levels >= starts)[-1]]
    budgets: NDArray[np.float64] = np.maximum(least, level * rates)
    return budgets
