"""Test by betting that a metric reaches its target."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["fewest_rows", "log_evidence", "reaches_target", "reaches_target_on_all"]

# Bets are quantiles of the arcsine law, which has most mass near an error rate of zero.
_BETS = 64
_MOST_ROWS = 1 << 40


def log_evidence(losses: NDArray[np.int64], gains: NDArray[np.int64], target: float) -> NDArray[np.float64]:
    """Return the logarithm of the capital of a bettor against the claim that the metric is below its target.

    The capital is a mixture of the likelihood ratios of error rates ``p < 1 - target`` to the rate ``1 - target``. It
    is a non-negative supermartingale that begins at 1 if the claim holds. By Ville's inequality it then ever exceeds
    ``1 / delta`` with a probability of at most ``delta``, whenever the sampling stops. The bets do not depend on the
    rows, so a row that becomes a loss always lowers the capital.

    Parameters
    ----------
    losses, gains : array of int64
        Numbers of rows that lower and raise the metric.
    target : float
        Target of the metric, between 0 and 1.

    Returns
    -------
    array of float64
        Logarithm of the capital, of the shape of the counts.

    References
    ----------
    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS-B 2024, sections 4 and 5;
    Zeighami et al., Cut Costs, Not Accuracy: LLM-Powered Data Processing with Guarantees, SIGMOD 2026.

    Examples
    --------
    >>> log_evidence(np.array([0, 5]), np.array([300, 295]), 0.98).round(1).tolist()
    [5.0, -1.0]
    """
    rate = 1 - target
    share = ((np.arange(_BETS) + 0.5) / _BETS) ** 2  # p / (1 - target)
    lost, gained = np.log(share), np.log((1 - rate * share) / target)
    capitals = np.asarray(losses)[..., None] * lost + np.asarray(gains)[..., None] * gained
    highest = capitals.max(axis=-1, keepdims=True)
    evidence: NDArray[np.float64] = highest[..., 0] + np.log(np.exp(capitals - highest).mean(axis=-1))
    return evidence


def reaches_target(results: NDArray[np.int8], target: float, delta: float) -> bool:
    """Return whether rows show, with an error probability of at most ``delta``, that the metric reaches its target.

    Parameters
    ----------
    results : array of int8 of shape (rows,)
        Losses, gains and others by :func:`optimizer.cascades.outcomes`, in the order in which the rows were drawn.
    target, delta : float
        Target of the metric, and the probability of a wrong conclusion.

    Examples
    --------
    >>> reaches_target(np.full(250, -1, np.int8), 0.98, 0.05), reaches_target(np.full(100, -1, np.int8), 0.98, 0.05)
    (True, False)
    """
    # The capital grows with each gain, so it is highest just before a loss or at the end.
    lost = results > 0
    places = np.concatenate([np.flatnonzero(lost), [len(results)]])
    gains = np.concatenate([[0], np.cumsum(results < 0)])[places]
    return bool((log_evidence(np.arange(len(places)), gains, target) >= -math.log(delta)).any())


def reaches_target_on_all(losses: int, gains: int, target: float, delta: float) -> bool:
    """Return whether a number of rows that was fixed in advance shows that the metric reaches its target.

    The exact binomial test takes fewer rows than :func:`reaches_target`, whose bettor may stop at any time.

    Parameters
    ----------
    losses, gains : int
        Numbers of rows that lower and raise the metric.
    target, delta : float
        Target of the metric, and the probability of a wrong conclusion.

    Examples
    --------
    >>> reaches_target_on_all(0, 149, 0.98, 0.05), reaches_target_on_all(0, 148, 0.98, 0.05)
    (True, False)
    """
    counts, rate = np.arange(losses + 1), 1 - target
    steps = np.log(np.maximum(losses + gains - counts[:-1], 1) / (counts[:-1] + 1)) + math.log(rate / target)
    logs = (losses + gains) * math.log(target) + np.concatenate([[0.0], np.cumsum(steps)])
    return bool(gains and np.exp(logs).sum() <= delta)


def fewest_rows(target: float, delta: float) -> int:
    """Return the number of gains without a loss that show that the metric reaches its target.

    Examples
    --------
    >>> fewest_rows(0.98, 0.05), fewest_rows(0.9, 0.05)
    (188, 36)
    """
    low, high = 0, 1
    while high < _MOST_ROWS and log_evidence(np.int64(0), np.int64(high), target) < -math.log(delta):  # type: ignore[arg-type]
        low, high = high, 2 * high
    while low + 1 < high:
        middle = (low + high) // 2
        enough = log_evidence(np.int64(0), np.int64(middle), target) >= -math.log(delta)  # type: ignore[arg-type]
        low, high = (low, middle) if enough else (middle, high)
    return high
