"""Threshold rules of SUPG, as a peer: confidence bounds by a normal approximation on a uniform sample.

Kang, Gan, Bailis, Hashimoto, Zaharia, Approximate Selection with Guarantees using Proxies, VLDB 2020, algorithms 2
(recall) and 3 (precision). Accuracy follows the rule of precision: the share of right answers above a threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.cascades import Question

__all__ = ["supg_threshold"]

_STEP = 100


def supg_threshold(
    question: Question, answers: NDArray[np.int64], confidence: NDArray[np.float64], oracle: NDArray[np.int64]
) -> float:
    """Return the least confidence of the proxy's answers; infinity if the rule gives none.

    Parameters
    ----------
    question : Question
        Metric, target and delta.
    answers, confidence, oracle : array of shape (rows,)
        Answers of one proxy, its confidence, and the oracle's answers on a uniform sample.
    """
    if question.metric == "recall":
        return _recall(question, confidence, oracle == question.positive)
    return _precision(question, confidence, answers == oracle)


def _precision(question: Question, confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Return the lowest of every hundredth confidence above which enough answers are right."""
    order = np.argsort(-confidence, kind="stable")
    candidates = range(_STEP, len(order) + 1, _STEP)
    lowest = np.inf
    for count in candidates:
        low = _bound(right[order[:count]], question.delta / len(candidates), -1)
        if low >= question.target:
            lowest = float(confidence[order[count - 1]])
    return lowest


def _recall(question: Question, confidence: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the confidence in the negative class above which few enough positives lie."""
    if not positive.any():
        return np.inf
    scores = -confidence  # grows with the probability of a positive
    threshold = _sample_recall(scores, positive, question.target)
    above, below = positive & (scores >= threshold), positive & (scores < threshold)
    high = _bound(above, question.delta / 2, 1)
    low = max(_bound(below, question.delta / 2, -1), 0.0)
    raised = _sample_recall(scores, positive, min(high / (high + low) if high + low else 1.0, 1.0))
    # Rows at the threshold are positives: the proxy answers rows of higher confidence.
    return float(np.nextafter(-raised, np.inf))


def _sample_recall(scores: NDArray[np.float64], positive: NDArray[np.bool_], target: float) -> float:
    """Return the highest threshold above which the sample has the target share of positives."""
    descending = np.sort(scores[positive])[::-1]
    return float(descending[max(int(np.ceil(target * len(descending))) - 1, 0)])


def _bound(values: NDArray[np.bool_], delta: float, sign: int) -> float:
    return float(values.mean() + sign * values.std() / np.sqrt(len(values)) * np.sqrt(2 * np.log(1 / delta)))
