"""Metrics of a cascade relative to its oracle, as losses and gains per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["METRICS", "UNKNOWN", "Metric", "needs_oracle", "outcomes", "proxy_answers"]

Metric = Literal["accuracy", "precision", "recall"]
METRICS: tuple[str, ...] = get_args(Metric)

UNKNOWN = -1
"""Class of a row that a model has not answered."""


def proxy_answers(
    scores: NDArray[np.float64], metric: str, positive: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the class that a proxy answers for each row, and its confidence in it.

    For precision a proxy answers only ``positive``, for recall only the other class: the oracle answers all other rows,
    so these are the only answers that can lower the metric.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Probabilities of the classes; rows of NaN if the model has no answer.
    metric : {"accuracy", "precision", "recall"}
        Metric with a target.
    positive : int
        Class that precision and recall count; ignored for accuracy.

    Returns
    -------
    (array of int64, array of float64)
        Class and confidence, of shape (rows,): ``UNKNOWN`` and minus infinity without an answer.

    Examples
    --------
    >>> answers, confidence = proxy_answers(np.array([[0.75, 0.25]]), "recall", positive=1)
    >>> answers.tolist(), confidence.tolist()
    ([0], [0.75])
    """
    if not scores.shape[1]:  # no row has scores
        return np.full(len(scores), UNKNOWN), np.full(len(scores), -np.inf)
    answered = np.asarray(~np.isnan(scores).any(axis=1))
    filled = np.where(answered[:, None], scores, 0.0)
    if metric == "accuracy":
        answers = filled.argmax(axis=1) if len(filled) else np.zeros(0, np.int64)
    else:
        answers = np.full(len(filled), positive if metric == "precision" else 1 - positive)
    confidence = np.take_along_axis(filled, answers[:, None], axis=1)[:, 0]
    return np.where(answered, answers, UNKNOWN), np.where(answered, confidence, -np.inf)


def needs_oracle(metric: str, covered: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the rows whose oracle answer the metric needs: those that proxies answer, and for recall all rows."""
    return np.ones_like(covered) if metric == "recall" else covered


def outcomes(
    metric: str,
    covered: NDArray[np.bool_],
    answers: NDArray[np.int64],
    oracle: NDArray[np.int64],
    positive: int,
) -> NDArray[np.int8]:
    """Return 1 for each row that lowers the metric, -1 for each that raises it, and 0 for the others.

    The metric is at least ``target`` if and only if the mean of ``target * loss - (1 - target) * gain`` is at most 0.
    A lower threshold never turns a loss into a gain.

    Parameters
    ----------
    metric : {"accuracy", "precision", "recall"}
        Metric with a target.
    covered : array of bool of shape (rows,)
        Rows that a proxy answers.
    answers, oracle : array of int64 of shape (rows,)
        Classes of the proxy and of the oracle, ``UNKNOWN`` where the oracle was not asked.
    positive : int
        Class that precision and recall count.

    Examples
    --------
    >>> covered, answers = np.array([True, True, False]), np.array([1, 1, 0])
    >>> outcomes("accuracy", covered, answers, np.array([1, 0, UNKNOWN]), 1).tolist()
    [-1, 1, -1]
    """
    if metric == "accuracy":
        return np.where(covered & (answers != oracle), 1, -1).astype(np.int8)
    is_positive = oracle == positive
    if metric == "precision":
        return np.where(is_positive, -1, np.where(covered, 1, 0)).astype(np.int8)
    return np.where(is_positive, np.where(covered, 1, -1), 0).astype(np.int8)
