"""Routes of rows through a cascade, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["answers_of", "cost_per_row", "route", "shares"]


def route(confidence: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the model that answers each row: the first proxy that is confident, else the oracle.

    Parameters
    ----------
    confidence : array of shape (proxies, rows)
        Confidence of each proxy, in the order in which they run.
    thresholds : array of shape (proxies,)
        Least confidence of an answer; infinity for a proxy that is not used.

    Returns
    -------
    array of int64 of shape (rows,)
        Place of the proxy, or the number of proxies for the oracle.

    Examples
    --------
    >>> route(np.array([[0.9, 0.6, 0.6], [0.5, 0.8, 0.5]]), np.array([0.9, 0.7])).tolist()
    [0, 1, 2]
    """
    routes = np.full(confidence.shape[1], len(thresholds), np.int64)
    for place in reversed(range(len(thresholds))):
        routes[confidence[place] >= thresholds[place]] = place
    return routes


def answers_of(routes: NDArray[np.int64], answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class that the proxy on each row's route answers, of ``answers`` of shape (proxies, rows)."""
    places = np.minimum(routes, len(answers) - 1)
    chosen: NDArray[np.int64] = np.take_along_axis(answers, places[None], axis=0)[0]
    return chosen


def shares(routes: NDArray[np.int64], models: int) -> NDArray[np.float64]:
    """Return the share of rows that each of the models answers; zeros without rows."""
    return np.bincount(routes, minlength=models) / max(len(routes), 1)


def cost_per_row(routes: NDArray[np.int64], thresholds: NDArray[np.float64], costs: NDArray[np.float64]) -> float:
    """Return the mean cost of a row: each used proxy runs on all rows that no earlier one answers.

    Parameters
    ----------
    routes : array of int64 of shape (rows,)
        Model that answers each row.
    thresholds : array of shape (proxies,)
        Thresholds of the routes.
    costs : array of shape (proxies + 1,)
        Cost of a row for each proxy and, last, the oracle.

    Examples
    --------
    >>> cost_per_row(np.array([0, 0, 0, 1]), np.array([0.9]), np.array([1.0, 10.0]))
    3.5
    """
    answered = shares(routes, len(costs))
    reached = answered[::-1].cumsum()[::-1]
    used = np.concatenate([np.isfinite(thresholds), [True]])
    return float((reached * costs)[used].sum())
