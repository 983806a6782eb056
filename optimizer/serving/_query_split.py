"""Query analysis: split of a deadline into budgets of its models (section 3.4.2)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from optimizer.arguments import one_of, real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.serving._errors import InfeasibleError
from optimizer.serving._session import Session
from optimizer.serving._step_functions import after, beside, model_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving._query import Query
    from optimizer.serving._step_functions import Steps

__all__ = ["QuerySplit", "backends_for", "resplit", "split"]

_BY = ("node", "stage")
_METHODS = ("auto", "program", "brute", "anneal")
# Largest number of combinations for brute force.
_FEW = 200_000
_MOVES = 6_000


@dataclass(frozen=True, slots=True)
class QuerySplit:
    """Budgets of a query's models. Made by :func:`optimizer.serving.split`.

    ``budgets`` are milliseconds of each model, at most the query's deadline along every path of calls, for a model or
    for all models of a stage (``by``). ``backends`` is the number that all models keep busy, ``batches`` how many fit
    into a budget.
    """

    query: Query
    budgets: Mapping[str, float] = field(hash=False)
    backends: float
    by: str
    method: str
    batches: float = 2.0

    def sessions(self) -> tuple[Session, ...]:
        """Return a session per model, named ``query/model``, without models that are never called."""
        rates = self.query.rates
        return tuple(
            Session(f"{self.query.name}/{name}", profile, self.budgets[name], rates[name])
            for name, profile in self.query.models.items()
            if rates[name] > 0
        )

    @property
    def reserves(self) -> dict[str, float]:
        """Milliseconds that each model leaves to its successors: the budgets along its longest path."""
        reserves: dict[str, float] = {}
        for name in reversed(self.query.order):
            reserves[name] = max(
                (reserves[called] + self.budgets[called] for called in self.query.called_by(name)), default=0.0
            )
        return reserves

    def explain(self) -> str:
        """Describe each model's budget, rate, share of the backends, and calls."""
        rates = self.query.rates
        busy = f"{self.backends:.2f} backends busy ({self.method}, a budget a {self.by})"
        lines = [f"query {self.query.name}: {self.query.slo_ms:g} ms, {self.query.rate:g} requests/s, {busy}"]
        for name in self.query.order:
            steps = model_steps(name, self.query.models[name], rates[name], self.batches)
            budget = self.budgets[name]
            alphas = "".join(
                f", {self.query.calls[caller, name]:.3g} x {caller}" for caller in self.query.callers(name)
            )
            lines.append(f"  {name}: {budget:.1f} ms, {rates[name]:.4g}/s, {steps.at(budget):.2f} backends{alphas}")
        return "\n".join(lines)


def split(
    query: Query,
    *,
    by: Literal["node", "stage"] = "node",
    method: Literal["auto", "program", "brute", "anneal"] = "auto",
    batches: float = 2.0,
    seed: int = 0,
) -> QuerySplit:
    """Split a query's deadline so that its models keep the fewest backends busy.

    Parameters
    ----------
    query : Query
        The query.
    by : {"node", "stage"}
        Unit of a budget: each model (default), or all models of a depth, as in the thesis.
    method : {"auto", "program", "brute", "anneal"}
        ``"program"`` is a dynamic program over the steps of the profiles, exact for stages and for trees of models.
        ``"brute"`` tries all combinations, ``"anneal"`` samples them. ``"auto"`` (default) is the program if it is
        exact, else brute force for few combinations, else annealing.
    batches : float
        Batches that fit into a budget: 2 (default), as a request may just miss one. With 1, budgets are batch times, as
        in Table 3.3.
    seed : int
        Seed of the annealing. Default 0.

    Returns
    -------
    QuerySplit
        The split. The rest of the deadline is distributed over the budgets in proportion.

    Raises
    ------
    InfeasibleError
        The deadline is shorter than the smallest budgets along some path.
    InvalidArgumentError
        An argument is not valid, or ``method="program"`` by node for a query that is not a tree.

    Examples
    --------
    >>> from optimizer.serving import BatchingProfile, Query
    >>> ssd, car = BatchingProfile.from_line(20, 30, 16), BatchingProfile.from_line(2, 8, 32)
    >>> query = Query("traffic", {"ssd": ssd, "car": car}, {("ssd", "car"): 2.5}, slo_ms=400, rate=20)
    >>> print(split(query).explain())
    query traffic: 400 ms, 20 requests/s, 0.62 backends busy (program, a budget a node)
      ssd: 300.0 ms, 20/s, 0.50 backends
      car: 100.0 ms, 50/s, 0.12 backends, 2.5 x ssd
    """
    one_of("by", by, _BY)
    one_of("method", method, _METHODS)
    real("batches", batches, 0, above=True)
    whole("seed", seed, 0)
    rates = query.rates
    models = {name: model_steps(name, query.models[name], rates[name], batches) for name in query.order}
    _check_deadline(query, models, by)
    exact = by == "stage" or query.is_tree
    if method == "program" and not exact:
        shared = next(name for name in query.order if len(query.callers(name)) > 1)
        raise InvalidArgumentError(
            f"method must not be 'program' by node for a query that is not a tree, got 'program', and {shared!r} has "
            "several callers. Use by='stage' or another method."
        )
    if method == "program" or (method == "auto" and exact):
        chosen, done = _program(query, models, by), "program"
    else:
        chosen, done = _combined(query, models, by, method, seed)
    cost = sum(models[name].at(chosen[name]) for name in query.order)
    return QuerySplit(query, _spread(query, chosen, by), cost, by, done, batches)


def backends_for(query: Query, budgets: Mapping[str, float], *, batches: float = 2.0) -> float:
    """Return the number of backends that a query keeps busy with given budgets; infinite if one is too short.

    Budgets are milliseconds of each model; ``batches`` are as for :func:`split`.

    Examples
    --------
    Table 3.4 with alpha = 10: Y needs 500 requests a second of each backend, X 200.

    >>> from optimizer.serving import BatchingProfile, Query
    >>> x = BatchingProfile({1: 5, 16: 80, 25: 100, 36: 120})
    >>> y = BatchingProfile({1: 5, 24: 80, 40: 100, 60: 120})
    >>> query = Query("example", {"X": x, "Y": y}, {("X", "Y"): 10}, slo_ms=200, rate=1)
    >>> round(1 / backends_for(query, {"X": 80, "Y": 120}, batches=1), 1)
    40.0
    """
    rates = query.rates
    return sum(model_steps(name, query.models[name], rates[name], batches).at(budgets[name]) for name in query.order)


def resplit(old: QuerySplit, query: Query, *, tolerance: float = 0.05, seed: int = 0) -> QuerySplit:
    """Split again if the calls have drifted so far that it pays.

    The old budgets stay, for the current query, while they need at most ``tolerance`` (a share) more backends.
    """
    real("tolerance", tolerance, 0)
    new = split(query, by="node" if old.by == "node" else "stage", batches=old.batches, seed=seed)
    same = set(old.budgets) == set(query.models) and old.query.slo_ms <= query.slo_ms
    today = backends_for(query, old.budgets, batches=old.batches) if same else math.inf
    if today > new.backends * (1 + tolerance):
        return new
    return QuerySplit(query, old.budgets, today, old.by, old.method, old.batches)


def _check_deadline(query: Query, models: Mapping[str, Steps], by: str) -> None:
    least = {name: float(models[name].budgets[0]) for name in query.order}
    if by == "stage":
        # All models of a stage have the budget of its slowest one, also on paths without it.
        least = {name: max(least[member] for member in stage) for stage in query.stages for name in stage}
    longest = _longest(query, least)
    if longest > query.slo_ms * (1 + 1e-12):
        needs = ", ".join(f"{name} {budget:g}" for name, budget in least.items())
        raise InfeasibleError(
            f"slo_ms of query {query.name!r} must be at least {longest:g}, the smallest budgets along its longest path "
            f"({needs}), got {query.slo_ms:g}."
        )


def _longest(query: Query, budgets: Mapping[str, float]) -> float:
    """Add budgets along the longest path of calls."""
    ends: dict[str, float] = {}
    for name in query.order:
        ends[name] = budgets[name] + max((ends[caller] for caller in query.callers(name)), default=0.0)
    return max(ends.values())


def _program(query: Query, models: Mapping[str, Steps], by: str) -> dict[str, float]:
    """Add step functions: stages in sequence, or each model after the models that it calls."""
    if by == "stage":
        total, *others = [beside([models[name] for name in stage]) for stage in query.stages]
        for stage in others:
            total = after(total, stage, query.slo_ms)
    else:
        below: dict[str, Steps] = {}
        for name in reversed(query.order):
            called = query.called_by(name)
            below[name] = (
                after(models[name], beside([below[member] for member in called]), query.slo_ms)
                if called
                else models[name]
            )
        total = beside([below[name] for name in query.order if not query.callers(name)])
    step = int(np.searchsorted(total.budgets, query.slo_ms * (1 + 1e-12), side="right")) - 1
    chosen = total.chosen(step)
    groups = query.stages if by == "stage" else [(name,) for name in query.order]
    return {name: max(chosen[member] for member in group) for group in groups for name in group}


def _combined(
    query: Query, models: Mapping[str, Steps], by: str, method: str, seed: int
) -> tuple[dict[str, float], str]:
    """Search the combinations of steps, of stages or of models."""
    groups = list(query.stages) if by == "stage" else [(name,) for name in query.order]
    parts = [beside([models[name] for name in group]) for group in groups]
    count = math.prod(len(part.costs) for part in parts)
    if method == "brute" and count > _FEW:
        raise InvalidArgumentError(
            f"method must be 'anneal' for more than {_FEW:,} combinations, got 'brute' for {count:,}."
        )
    if method == "brute" or (method == "auto" and count <= _FEW):
        steps = _brute(query, groups, parts)
        return _budgets(groups, parts, steps), "brute"
    return _budgets(groups, parts, _anneal(query, groups, parts, seed)), "anneal"


def _budgets(groups: Sequence[tuple[str, ...]], parts: Sequence[Steps], steps: Sequence[int]) -> dict[str, float]:
    return {
        name: float(part.budgets[step])
        for group, part, step in zip(groups, parts, steps, strict=True)
        for name in group
    }


def _brute(query: Query, groups: Sequence[tuple[str, ...]], parts: Sequence[Steps]) -> tuple[int, ...]:
    best, least = tuple(0 for _ in parts), math.inf
    for steps in itertools.product(*(range(len(part.costs)) for part in parts)):
        cost = sum(float(part.costs[step]) for part, step in zip(parts, steps, strict=True))
        if cost < least and _longest(query, _budgets(groups, parts, steps)) <= query.slo_ms * (1 + 1e-12):
            best, least = steps, cost
    return best


def _anneal(query: Query, groups: Sequence[tuple[str, ...]], parts: Sequence[Steps], seed: int) -> list[int]:
    """Sample combinations that are in time: one step up, or one up and another down."""
    rng = np.random.default_rng(seed)
    steps = [0] * len(parts)
    cost = sum(float(part.costs[0]) for part in parts)
    best, least = list(steps), cost
    warmth = cost
    for _ in range(_MOVES):
        warmth *= 0.9985
        moved = list(steps)
        for place in rng.choice(len(parts), min(len(parts), int(rng.integers(1, 3))), replace=False).tolist():
            reach = max(1, len(parts[place].costs) // 4)
            step = moved[place] + int(rng.integers(-reach, reach + 1))
            moved[place] = min(max(step, 0), len(parts[place].costs) - 1)
        if _longest(query, _budgets(groups, parts, moved)) > query.slo_ms * (1 + 1e-12):
            continue
        new = sum(float(part.costs[step]) for part, step in zip(parts, moved, strict=True))
        if new <= cost or rng.random() < math.exp((cost - new) / max(warmth, 1e-12)):
            steps, cost = moved, new
            if cost < least:
                best, least = list(steps), cost
    return best


def _spread(query: Query, chosen: Mapping[str, float], by: str) -> dict[str, float]:
    """Distribute the rest of the deadline over the budgets, in proportion along each path."""
    if by == "stage" or not query.is_tree:
        factor = query.slo_ms / _longest(query, chosen)
        return {name: budget * factor for name, budget in chosen.items()}
    longest: dict[str, float] = {}
    for name in reversed(query.order):
        longest[name] = chosen[name] + max((longest[called] for called in query.called_by(name)), default=0.0)
    budgets: dict[str, float] = {}
    left: dict[str, float] = {}
    for name in query.order:
        callers = query.callers(name)
        has = left[callers[0]] if callers else query.slo_ms
        budgets[name] = chosen[name] * has / longest[name]
        left[name] = has - budgets[name]
    return budgets
