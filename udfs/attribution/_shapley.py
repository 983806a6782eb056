"""Shapley values: mean contribution of a group to the score over all orders in which groups are added."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scored_inputs import Importance, check_positive, check_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.attribution._grouped_inputs import GroupedInputs

__all__ = ["shapley"]


def shapley(grouped: GroupedInputs, *, orders: int = 20, seed: int = 0) -> Importance:
    """Add the groups to the baseline in random orders and average the contribution of each to the score.

    Lundberg and Lee, *A unified approach to interpreting model predictions*, NIPS 2017, theorem 1; sampled as by
    Castro, Gomez and Tejada, *Polynomial calculation of the Shapley value based on sampling*, 2009, each order also
    reversed. Where the number of all subsets is no larger, all are scored and the values are exact.

    Parameters
    ----------
    orders : int
        Number of orders, even and at least 4; each scores as many records as there are groups. Default 20.
    seed : int
        Seed of the orders. Default 0.

    Returns
    -------
    Importance
        Shapley values, whose sum is the score of the whole input minus the baseline's. ``measures["error"]`` is the
        largest standard error, and 0 where the values are exact.

    Raises
    ------
    InvalidArgumentError
        The number of orders is odd or below 4.

    Examples
    --------
    >>> from udfs.attribution import GroupedInputs, ScoredInputs
    >>> scored = ScoredInputs(lambda rows: rows[0][:, 0] * rows[0][:, 1] + rows[0][:, 2], [np.array([2.0, 3.0, 4.0])])
    >>> shapley(GroupedInputs(scored, [np.zeros(3)], [np.arange(3)])).weights.tolist()
    [3.0, 3.0, 4.0]
    """
    count, seed = grouped.count, check_seed(seed)
    if check_positive("orders", orders) % 2 or orders < 4:
        raise InvalidArgumentError(f"orders must be an even number of at least 4, got {orders}; each is also reversed")
    if 2**count <= 2 + orders * (count - 1):
        kept = (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(np.bool_)
        scores = grouped.scores(kept)
        weights, error, whole = _exact(kept, scores), 0.0, scores[-1]
    else:
        forward = np.argsort(np.random.default_rng(seed).random((orders // 2, count)), axis=1)
        walks = np.concatenate([forward, forward[:, ::-1]])
        ranks = np.argsort(walks, axis=1)
        kept = np.concatenate([ranks < step for step in range(1, count)])
        ends = np.array([np.zeros(count), np.ones(count)], np.bool_)
        scores = grouped.scores(np.concatenate([ends, kept]))
        (weights, error), whole = _sampled(scores, walks), scores[1]
    return Importance(grouped.values(weights), float(whole), len(scores), weights, {"error": error})


def _exact(kept: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight the contribution of each group to each subset by the share of orders in which the two meet."""
    count, number = kept.shape[1], kept.sum(axis=1)
    weights = np.zeros(count)
    for group in range(count):
        without = np.flatnonzero(~kept[:, group])
        share = np.array([1 / (count * comb(count - 1, int(members))) for members in number[without]])
        weights[group] = share @ (scores[without + (1 << group)] - scores[without])
    return weights


def _sampled(scores: NDArray[np.float64], walks: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Average the contribution of each group along the walks; a pair of opposite walks is one sample."""
    orders, count = walks.shape
    along = np.empty((orders, count + 1))
    along[:, 0], along[:, -1] = scores[0], scores[1]
    along[:, 1:-1] = scores[2:].reshape(count - 1, orders).T
    added = np.empty((orders, count))
    np.put_along_axis(added, walks, np.diff(along, axis=1), axis=1)
    pairs = (added[: orders // 2] + added[orders // 2 :]) / 2
    error = float((pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))).max())
    return pairs.mean(axis=0), error
