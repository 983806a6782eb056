"""Shapley values: what a group adds to the score, on average over all orders in which groups are added."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._groups import group_masks
from udfs.attribution._scoring import checked_seed, positive
from udfs.attribution._subsets import Subsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scoring import ScoreFunction

__all__ = ["Shapley", "shapley"]


@dataclass(frozen=True, slots=True)
class Shapley:
    """Shapley values of groups, made by :func:`shapley`.

    Attributes
    ----------
    weights : array of float64, of shape (groups,)
        In the order of the groups' numbers; their sum is the whole input's score minus the baseline's.
    error : float
        The largest standard error of a weight; 0 where all subsets were asked for.
    values : tuple of array of float64
        For each input, in its shape, the weight of each element's group; NaN where it has none.
    whole : float
        Score of the whole input.
    evaluations : int
        Inputs that the score was asked for.
    """

    weights: NDArray[np.float64]
    error: float
    values: tuple[NDArray[np.float64], ...]
    whole: float
    evaluations: int


def shapley(
    score: ScoreFunction,
    inputs: Sequence[NDArray[Any]],
    baselines: Sequence[NDArray[Any]],
    groups: Sequence[NDArray[np.integer]],
    *,
    orders: int = 20,
    seed: int = 0,
    batch_size: int = 32,
) -> Shapley:
    """Add the groups to the baseline in random orders, and average what each adds to the score.

    Lundberg and Lee, *A unified approach to interpreting model predictions*, NIPS 2017, theorem 1; sampled as by
    Castro, Gomez and Tejada, *Polynomial calculation of the Shapley value based on sampling*, 2009, each order also
    backwards. All subsets are asked for where there are no more of them, and the values are exact.

    Parameters
    ----------
    score : callable
        See :data:`ScoreFunction`.
    inputs, baselines, groups
        As for :func:`lime`.
    orders : int
        Even, at least 4. Default 20: each takes as many inputs as there are groups.
    seed : int
    batch_size : int
        Inputs at a time. Default 32.

    Raises
    ------
    InvalidArgumentError
        An odd number of orders, or a score that is not a finite number.

    Examples
    --------
    >>> def pairs(batches):
    ...     return batches[0][:, 0] * batches[0][:, 1] + batches[0][:, 2]
    >>> shapley(pairs, [np.array([2.0, 3.0, 4.0])], [np.zeros(3)], [np.arange(3)]).weights.tolist()
    [3.0, 3.0, 4.0]
    """
    masks, size, seed = group_masks(groups), positive("batch_size", batch_size), checked_seed(seed)
    if positive("orders", orders) % 2 or orders < 4:  # two pairs have a standard error
        raise InvalidArgumentError(f"orders={orders}: an even number from 4 on, for each is taken backwards too")
    subsets, count = Subsets(inputs, baselines, groups, masks), len(masks)
    if 2**count <= 2 + orders * (count - 1):
        there = (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(np.bool_)
        scores = subsets.scores(score, there, size)
        weights, error, whole = _exact(there, scores), 0.0, scores[-1]
    else:
        forward = np.argsort(np.random.default_rng(seed).random((orders // 2, count)), axis=1)
        walks = np.concatenate([forward, forward[:, ::-1]])
        ranks = np.argsort(walks, axis=1)
        there = np.concatenate([ranks < step for step in range(1, count)])
        ends = np.array([np.zeros(count), np.ones(count)], np.bool_)
        scores = subsets.scores(score, np.concatenate([ends, there]), size)
        (weights, error), whole = _sampled(scores, walks), scores[1]
    return Shapley(weights, error, subsets.values(weights), float(whole), len(scores))


def _exact(there: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weigh what each group adds to each subset by the share of orders in which they meet."""
    count, number = there.shape[1], there.sum(axis=1)
    weights = np.zeros(count)
    for group in range(count):
        without = np.flatnonzero(~there[:, group])
        share = np.array([1 / (count * comb(count - 1, int(members))) for members in number[without]])
        weights[group] = share @ (scores[without + (1 << group)] - scores[without])
    return weights


def _sampled(scores: NDArray[np.float64], walks: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Average what each group adds where its turn comes; a pair of opposite walks is one sample."""
    orders, count = walks.shape
    along = np.empty((orders, count + 1))
    along[:, 0], along[:, -1] = scores[0], scores[1]
    along[:, 1:-1] = scores[2:].reshape(count - 1, orders).T
    added = np.empty((orders, count))
    np.put_along_axis(added, walks, np.diff(along, axis=1), axis=1)
    pairs = (added[: orders // 2] + added[orders // 2 :]) / 2
    error = float((pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))).max())
    return pairs.mean(axis=0), error
