"""Simulation of online policies over a trace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from optimizer.approximate._algorithm import BudgetedPolicy
from optimizer.approximate._fixed import FixedVariant, knee, largest
from optimizer.approximate._primal_dual import PrimalDualPolicy
from optimizer.approximate._scheduler import Policy, replay
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.approximate._problem import Problem
    from optimizer.approximate._schedule import Schedule

__all__ = ["POLICIES", "simulate"]

POLICIES: Mapping[str, Callable[[], Policy]] = {
    "mcdnn": BudgetedPolicy,
    "primal-dual": PrimalDualPolicy,
    "original": partial(FixedVariant, largest),
    "best": partial(FixedVariant, knee),
    "server-first": partial(FixedVariant, knee, cloud_first=True),
}


def simulate(problem: Problem, policy: str | Policy = "mcdnn") -> Schedule:
    """Serve the trace of a problem online: each request is decided before the next one is known.

    Parameters
    ----------
    problem : Problem
        Problem to solve.
    policy : str or Policy
        Name in ``POLICIES``, or a new policy. Default ``"mcdnn"``, the corrected Algorithm 4.1.

        * ``"primal-dual"``: prices of energy, money and memory; needs no forecast.
        * ``"original"``: the most accurate variant of each task, on the device only.
        * ``"best"``: the variant at the knee of accuracy over memory, on the device only.
        * ``"server-first"``: the same variant, in the cloud while there are a link and money.

    Returns
    -------
    Schedule
        Schedule that keeps all budgets.

    Raises
    ------
    InvalidArgumentError
        The name is unknown.

    Examples
    --------
    >>> from optimizer.approximate import Budget, Problem, Task, Trace, Variant
    >>> scene = Task("scene", (Variant("full", 0.9, 500, 5, 2), Variant("small", 0.8, 100, 1, 0.5)))
    >>> problem = Problem((scene,), Budget(9, 600, seconds=10), Trace(range(10), [0] * 10))
    >>> simulate(problem).served, simulate(problem, "original").served
    (1.0, 0.2)
    """
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise InvalidArgumentError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}.")
        return replay(problem, POLICIES[policy](), policy)
    return replay(problem, policy, type(policy).__name__)
