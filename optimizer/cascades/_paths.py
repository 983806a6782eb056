"""Candidate thresholds of a cascade, from all rows to the oracle to ever more rows to the proxies."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from optimizer.cascades._metrics import outcomes
from optimizer.cascades._routes import answers_of, cost_per_row, route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optimizer.cascades._question import Question

__all__ = ["cheapest_path", "levels"]

_LEVELS = 256
_LEVELS_OF_SEVERAL = 16
# All sets of proxies are compared up to this number, and beyond it the sets of the cheapest ones.
_EXHAUSTIVE = 5


def levels(confidence: NDArray[np.float64], most: int = _LEVELS) -> NDArray[np.float64]:
    """Return thresholds that cover ever more rows: distinct confidences, in descending order, at even ranks.

    Examples
    --------
    >>> levels(np.array([0.5, 0.9, 0.9, 0.7, -np.inf])).tolist()
    [0.9, 0.7, 0.5]
    """
    distinct = np.sort(confidence[np.isfinite(confidence)])[::-1]
    if len(distinct) > most:
        distinct = distinct[np.linspace(0, len(distinct) - 1, most).round().astype(int)]
    return -np.unique(-distinct)


def cheapest_path(
    question: Question,
    answers: NDArray[np.int64],
    confidence: NDArray[np.float64],
    oracle: NDArray[np.int64],
    costs: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return thresholds to test one after the other, for the set of proxies that a pilot sample shows to be cheapest.

    For each set, a greedy search lowers one threshold at a time: the one that saves most cost per additional loss.

    Parameters
    ----------
    question : Question
        Metric, target and positive class.
    answers, confidence : array of shape (proxies, rows)
        Answers of the proxies in ascending order of cost.
    oracle : array of int64 of shape (rows,)
        Answers of the oracle.
    costs : array of shape (proxies + 1,)
        Cost of a row for each proxy and, last, the oracle.

    Returns
    -------
    array of shape (configurations, proxies)
        Thresholds; infinity for proxies that are not used.
    """
    best, lowest = np.zeros((0, len(answers))), np.inf
    for members in _sets(len(answers)):
        path, reached = _greedy(question, answers, confidence, oracle, costs, members)
        if reached < lowest:
            best, lowest = path, reached
    return best


def _sets(count: int) -> Iterator[tuple[int, ...]]:
    if count > _EXHAUSTIVE:
        yield from (tuple(range(size)) for size in range(1, count + 1))
        return
    for size in range(1, count + 1):
        yield from combinations(range(count), size)


def _greedy(
    question: Question,
    answers: NDArray[np.int64],
    confidence: NDArray[np.float64],
    oracle: NDArray[np.int64],
    costs: NDArray[np.float64],
    members: tuple[int, ...],
) -> tuple[NDArray[np.float64], float]:
    """Return the path of a set of proxies, and the lowest cost on it that keeps the target in the pilot sample."""
    grid = {member: levels(confidence[member], _LEVELS_OF_SEVERAL) for member in members}
    thresholds = np.full(len(answers), np.inf)
    places = dict.fromkeys(members, -1)
    path: list[NDArray[np.float64]] = []
    lowest = np.inf

    def judge(candidate: NDArray[np.float64]) -> tuple[float, int, float]:
        routes = route(confidence, candidate)
        results = outcomes(
            question.metric, routes < len(answers), answers_of(routes, answers), oracle, question.positive
        )
        losses, gains = int((results > 0).sum()), int((results < 0).sum())
        excess = question.target * losses - (1 - question.target) * gains
        return cost_per_row(routes, candidate, costs), losses, excess

    cost, losses, _ = judge(thresholds)
    while True:
        moves = []
        for member, place in places.items():
            # A proxy begins at any level, because its first rows may not pay for its run on all rows.
            reach = range(len(grid[member])) if place < 0 else range(place + 1, min(place + 2, len(grid[member])))
            for following in reach:
                candidate = thresholds.copy()
                candidate[member] = grid[member][following]
                next_cost, next_losses, excess = judge(candidate)
                ratio = (cost - next_cost) / (max(next_losses - losses, 0) + 0.5)
                moves.append((ratio, member, following, next_cost, next_losses, excess))
        moves = [move for move in moves if move[0] > 0]
        if not moves:
            break
        _, member, following, cost, losses, excess = max(moves)
        # Between the levels of a first jump, the path has the levels that it leaves out.
        for place in range(max(places[member] + 1, 0), following + 1):
            thresholds = thresholds.copy()
            thresholds[member] = grid[member][place]
            path.append(thresholds)
        places[member] = following
        if excess <= 0:
            lowest = min(lowest, cost)
    return np.array(path).reshape(-1, len(answers)), lowest
