"""Drawn populations with known classes, for the guarantee of a cascade: calibrated and miscalibrated proxies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.cascades import (
    Question,
    answers_of,
    calibrate,
    outcomes,
    proxy_answers,
    route,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["World", "draw_world", "metric_of"]

_ROWS = 5_000
_POSITIVES = 30
_COSTS = (1.0, 20.0)


@dataclass(frozen=True, slots=True)
class World:
    """A population, and a sample of it.

    Parameters
    ----------
    question : Question
        Metric, target and delta.
    oracle : array of int64 of shape (rows,)
        Classes of the population.
    answers, confidence : array of shape (proxies, rows)
        Answers of the proxies on the population.
    sample : array of int64
        Rows of the sample, drawn with replacement.
    """

    question: Question
    oracle: NDArray[np.int64]
    answers: NDArray[np.int64]
    confidence: NDArray[np.float64]
    sample: NDArray[np.int64]

    @property
    def has_positives(self) -> bool:
        """True if the sample has 30 rows of the positive class, as normal approximations of its share need."""
        return int((self.oracle[self.sample] == self.question.positive).sum()) >= _POSITIVES

    def calibrate(self) -> tuple[NDArray[np.float64], int]:
        """Return the thresholds of a cascade, and the number of rows that the oracle was asked."""
        sample, costs = self.sample, np.array([*[_COSTS[0]] * len(self.answers), _COSTS[1]])
        costs[:-1] *= 1 + np.arange(len(self.answers))
        result = calibrate(
            self.question,
            self.answers[:, sample],
            self.confidence[:, sample],
            lambda rows: self.oracle[sample[rows]],
            lambda: costs,
        )
        return result.thresholds, int((result.oracle >= 0).sum())

    def misses_target(self, thresholds: NDArray[np.float64]) -> bool:
        """Return whether the metric on the population is below the target."""
        value = metric_of(self.question, thresholds, self.answers, self.confidence, self.oracle)
        return value < self.question.target

    def saved(self, thresholds: NDArray[np.float64]) -> float:
        """Return the share of the population that proxies answer."""
        return float((route(self.confidence, thresholds) < len(thresholds)).mean())


def draw_world(seed: int) -> World:
    """Draw a population: accuracy, precision or recall, one or two proxies, rare positives, any calibration."""
    draw = np.random.default_rng([seed, 46])
    metric = ("accuracy", "precision", "recall")[seed % 3]
    target = float(draw.choice([0.8, 0.9, 0.95, 0.98] if metric == "accuracy" else [0.7, 0.8, 0.9]))
    question = Question(target, 0.05, metric, 1)
    proxies = 2 if draw.uniform() < 0.25 else 1
    classes = int(draw.choice([2, 2, 5])) if metric == "accuracy" else 2
    share = float(draw.choice([0.01, 0.05, 0.3])) if classes == 2 else 1 / classes
    oracle = draw.integers(classes, size=_ROWS) if classes > 2 else (draw.uniform(size=_ROWS) < share).astype(np.int64)
    answers, confidence = [], []
    for _ in range(proxies):
        logits = draw.normal(size=(_ROWS, classes))
        logits[np.arange(_ROWS), oracle] += draw.choice([1.0, 3.0, 5.0])
        if classes == 2:
            logits[:, 1] += np.log(share / (1 - share))
        # Sharpened and flattened scores, and confident mistakes on a part of the rows that looks like any other.
        logits *= draw.choice([0.3, 1.0, 3.0])
        mistaken = draw.uniform(size=_ROWS) < draw.choice([0.0, 0.01, 0.1])
        logits[mistaken] = logits[mistaken][:, draw.permutation(classes)]
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        pair = proxy_answers(scores / scores.sum(axis=1, keepdims=True), metric, 1)
        answers.append(pair[0])
        confidence.append(pair[1])
    sample = draw.integers(_ROWS, size=int(draw.choice([150, 500, 2000, 5000])))
    return World(question, oracle, np.array(answers), np.array(confidence), sample)


def metric_of(
    question: Question,
    thresholds: NDArray[np.float64],
    answers: NDArray[np.int64],
    confidence: NDArray[np.float64],
    oracle: NDArray[np.int64],
) -> float:
    """Return the metric of a cascade on rows whose classes are known; 1 if no row counts."""
    routes = route(confidence, thresholds)
    covered, given = routes < len(thresholds), answers_of(routes, answers)
    results = outcomes(question.metric, covered, given, oracle, question.positive)
    counted = int((results != 0).sum())
    return 1 - int((results > 0).sum()) / counted if counted else 1.0
