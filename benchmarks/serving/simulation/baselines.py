"""Baselines of section 3.6: batch-oblivious plans, and even splits of a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.arguments import real, whole
from optimizer.serving import QuerySplit, ServingPlan, backends_for, lower_bound
from optimizer.serving._backend_pool import Pool
from optimizer.serving._plan import node_plan
from optimizer.serving._planner import check_sessions, whole_backends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.serving import Query, Session

__all__ = ["plan_batch_oblivious", "split_evenly"]

_FULL = 1 + 1e-9


def plan_batch_oblivious(sessions: Sequence[Session], backends: int | None = None) -> ServingPlan:
    """Give each session a share of a backend, its rate over its peak rate, and fill backends with shares.

    What schedulers do that know a model's best throughput and nothing of batches: each session is thought to run its
    best batch however its backend is shared, so that deadlines are missed.

    Parameters
    ----------
    sessions : sequence of Session
    backends : int, optional
        Spread the shares evenly over so many. By default as few as the shares fit into.

    Returns
    -------
    ServingPlan
        :meth:`ServingPlan.violations` says what would be late.

    Raises
    ------
    InvalidArgumentError
        Two sessions of one name, or fewer backends than busy sessions fill.

    Examples
    --------
    Three models whose shares add up to one backend, and whose batches do not fit into one deadline:

    >>> from optimizer.serving import BatchingProfile, Session
    >>> profile = BatchingProfile({1: 31, 4: 50, 8: 75, 16: 100})
    >>> found = plan_batch_oblivious([Session(name, profile, 200, 50) for name in "ABC"])
    >>> len(found.nodes), len(found.violations())
    (1, 3)
    """
    check_sessions(sessions)
    pool = Pool(None)
    kind = pool.kinds[0]
    nodes, rest = whole_backends(sessions, pool)
    left = None if backends is None else whole("backends", backends, len(nodes) + bool(rest)) - len(nodes)
    groups: list[list[Session]] = [[] for _ in range(left or 0)]
    shares = [0.0] * len(groups)
    for session in sorted(rest, key=lambda one: -one.rate / one.peak_rate):
        share = session.rate / session.peak_rate
        fits = [place for place, used in enumerate(shares) if used + share <= _FULL]
        if left is not None:
            fits = [int(np.argmin(shares))]
        if fits:
            place = max(fits, key=shares.__getitem__)
            groups[place].append(session)
            shares[place] += share
        else:
            groups.append([session])
            shares.append(share)
    for group in filter(None, groups):
        batches = [session.profile.best_batch(session.budget_ms / 2) for session in group]
        cycle = sum(float(one.profile.latencies[batch]) for one, batch in zip(group, batches, strict=True))
        nodes.append(node_plan(pool.take(kind), group, cycle, batches))
    return ServingPlan(tuple(nodes), tuple(sessions), lower_bound(sessions), "batch-oblivious", optimal=False)


def split_evenly(query: Query, *, batches: float = 2.0) -> QuerySplit:
    """Assign every stage an equal part of the deadline: the baseline of section 3.6.3.3.

    Parameters
    ----------
    query : Query
    batches : float
        As of :func:`split`.

    Returns
    -------
    QuerySplit
        With infinitely many backends where a model has no batch in its part.
    """
    real("batches", batches, 0, above=True)
    part = query.slo_ms / len(query.stages)
    budgets = dict.fromkeys(query.order, part)
    return QuerySplit(query, budgets, backends_for(query, budgets, batches=batches), "stage", "evenly", batches)
