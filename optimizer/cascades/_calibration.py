"""Choice of thresholds from a sample that asks the oracle for as few rows as it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.cascades._evidence import fewest_rows, log_evidence, reaches_target, reaches_target_on_all
from optimizer.cascades._metrics import UNKNOWN, needs_oracle, outcomes
from optimizer.cascades._paths import cheapest_path, levels
from optimizer.cascades._routes import answers_of, cost_per_row, route

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optimizer.cascades._question import Question

__all__ = ["NO_ANSWER", "Calibration", "calibrate"]

NO_ANSWER = -2
"""Class of a row that the oracle cannot answer: agreement for accuracy, left out for precision and recall."""

# Multiples of the fewest rows of a conclusion after which a test that looks lost ends.
_PATIENCE = 4
# Share of the oracle's cost that is too small for more questions.
_SMALL = 0.02

# Rows of the pilot sample that several proxies need: a share of the sample, within these bounds.
_PILOT_SHARE, _PILOT_LEAST, _PILOT_MOST = 0.25, 40, 1000


@dataclass(frozen=True, slots=True)
class Calibration:
    """Thresholds of a cascade, and the sample that they come from.

    Parameters
    ----------
    thresholds : array of shape (proxies,)
        Least confidence of each proxy; infinity for a proxy that is not used.
    oracle : array of int64 of shape (rows,)
        Answers of the oracle, ``UNKNOWN`` for rows that it was not asked.
    estimate : float
        Metric on the rows of the test at these thresholds; 1 if the oracle answers all rows.
    reason : str
        Reason why the oracle answers all rows; empty if proxies answer some.
    """

    thresholds: NDArray[np.float64]
    oracle: NDArray[np.int64]
    estimate: float
    reason: str


def calibrate(
    question: Question,
    answers: NDArray[np.int64],
    confidence: NDArray[np.float64],
    ask: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    costs: Callable[[], NDArray[np.float64]],
    *,
    most: int | None = None,
    seed: int = 0,
) -> Calibration:
    """Choose the thresholds of least cost that reach a target with a probability of at least ``1 - delta``.

    The statement is about the population that the rows are drawn from, for any number of rows. Thresholds are tested
    from the highest to the lowest until one fails. For one proxy all rows are used: the loss of each row only grows as
    the threshold falls, so the tests of thresholds taken from the same rows err together with a probability of at most
    ``delta``. For several proxies a pilot sample gives the thresholds to test, in a fixed sequence, on the other rows.
    The oracle is asked in rounds, only for rows that the tests need.

    Parameters
    ----------
    question : Question
        Metric, target and delta.
    answers, confidence : array of shape (proxies, rows)
        Answers of the proxies on the sample, in ascending order of cost, as
        :func:`~optimizer.cascades.proxy_answers` returns them.
    ask : callable
        Returns the classes that the oracle answers for some rows, given by their places; ``NO_ANSWER`` without one.
    costs : callable
        Returns the cost of a row for each proxy and, last, the oracle. Called after the first rows were asked.
    most : int, optional
        Rows that the oracle may be asked. Default: all.
    seed : int
        Seed of the order in which rows are drawn. Default 0.

    Returns
    -------
    Calibration
        Thresholds; infinity for all proxies if none reaches the target at a lower cost than the oracle.

    References
    ----------
    Angelopoulos, Bates, Candès, Jordan, Lei, Learn then Test, section 2: fixed-sequence tests; Zeighami et al., Cut
    Costs, Not Accuracy, SIGMOD 2026: samples drawn adaptively per threshold.

    Examples
    --------
    >>> from optimizer.cascades import Question
    >>> draw = np.random.default_rng(0)
    >>> truth, confidence = draw.integers(2, size=2000), draw.uniform(0.5, 1.0, (1, 2000))
    >>> answers = np.where(draw.uniform(size=2000) < confidence[0] ** 0.2, truth, 1 - truth)[None]
    >>> found = calibrate(Question(0.95), answers, confidence, lambda rows: truth[rows], lambda: np.array([1.0, 9.0]))
    >>> bool(0.5 < found.thresholds[0] < 0.9), found.reason
    (True, '')
    """
    proxies, rows = answers.shape
    order = np.random.default_rng(seed).permutation(rows)
    order = order[(confidence[:, order] > -np.inf).any(axis=0)]
    sample = _Sample(ask, np.full(rows, UNKNOWN), most)
    refused = _too_few(question, len(order)) if len(order) else "the proxies answer no row of the sample"
    if refused or not proxies:
        return Calibration(np.full(proxies, np.inf), sample.oracle, 1.0, refused or "there are no proxies")
    if proxies == 1:
        path = levels(confidence[0])[:, None]
    else:
        pilot = order[: int(np.clip(_PILOT_SHARE * len(order), _PILOT_LEAST, _PILOT_MOST))]
        order = order[len(pilot) :]
        sample.label(pilot)
        pilot = pilot[sample.oracle[pilot] >= 0]
        labelled = answers[:, pilot], confidence[:, pilot], sample.oracle[pilot]
        path = cheapest_path(question, *labelled, costs())
        path = path[_safest(question, path, *labelled, len(order)) :]
    test = _SequenceTest(question, answers, confidence, sample, order)
    passed = test.run(path, costs)
    if not passed or not (sample.oracle >= 0).any():
        return Calibration(np.full(proxies, np.inf), sample.oracle, 1.0, _failure(question, sample, len(order)))
    prices = costs()
    priced = [cost_per_row(route(confidence, path[place]), path[place], prices) for place in passed]
    cheapest = passed[int(np.argmin(priced))]
    if min(priced) >= prices[-1]:
        reason = "the thresholds that reach the target save no cost"
        return Calibration(np.full(proxies, np.inf), sample.oracle, 1.0, reason)
    return Calibration(path[cheapest], sample.oracle, test.estimate(path[cheapest]), "")


class _Sample:
    """Answers of the oracle on the rows of a sample, asked when they are first needed."""

    def __init__(
        self, ask: Callable[[NDArray[np.int64]], NDArray[np.int64]], oracle: NDArray[np.int64], most: int | None
    ) -> None:
        self.oracle = oracle
        self._ask, self.left = ask, len(oracle) if most is None else most

    def label(self, rows: NDArray[np.int64]) -> bool:
        """Ask for those of some rows that are unknown; return whether all of them are known now."""
        unknown = rows[self.oracle[rows] == UNKNOWN]
        within = unknown[: self.left]
        if len(within):
            self.oracle[within] = self._ask(within)
            self.left -= len(within)
        return len(within) == len(unknown)


class _SequenceTest:
    """Test of configurations in a fixed sequence, on ever more rows of a sample in random order."""

    def __init__(
        self,
        question: Question,
        answers: NDArray[np.int64],
        confidence: NDArray[np.float64],
        sample: _Sample,
        order: NDArray[np.int64],
    ) -> None:
        self._question, self._answers, self._confidence = question, answers, confidence
        self._sample, self._order = sample, order

    def run(self, path: NDArray[np.float64], costs: Callable[[], NDArray[np.float64]]) -> list[int]:
        """Return the places of the configurations that pass before the sequence ends."""
        question, order = self._question, self._order
        passed: list[int] = []
        place, ahead = 0, 1
        rows = min(2 * fewest_rows(question.target, question.delta), len(order))
        if question.metric == "recall":
            # Only positives count, and any row may be one: a fixed number of rows makes the sharpest test. Rounds
            # with a fifth of delta for early conclusions ask for 2 % fewer rows of drawn worlds, and the oracle then
            # answers 2 % more of all rows.
            order = self._order = order[: self._sample.left]
            rows = len(order)
        while place < len(path):
            # Several configurations are asked for at once, because each round is a job.
            until = min(place + ahead, len(path))
            prefix = order[:rows]
            if not self._label(path[place:until], prefix):
                until = place + 1
                if not self._is_known(path[place], prefix):  # the oracle may not be asked more
                    break
            while place < until and self._passes(path[place], prefix):
                passed.append(place)
                place += 1
            if place == until:
                ahead *= 2
                continue
            hopeless = self._is_hopeless(path[place], prefix)
            if passed and rows < len(order) and self._is_near(path[passed[-1]], path[place:], costs()):
                break
            if rows < len(order) and not hopeless:
                rows, ahead = min(2 * rows, len(order)), 1
            elif question.metric == "precision" and len(path[0]) == 1 and not (hopeless and passed):
                # A high threshold of a single proxy may have too few rows, or many of its confident mistakes.
                place += max(len(path) // _PATIENCE**2, 1) if hopeless else 1
            else:
                break
        return passed

    def _label(self, path: NDArray[np.float64], rows: NDArray[np.int64]) -> bool:
        """Ask for the rows that some configurations need; return whether all of them are known now."""
        needed = [needs_oracle(self._question.metric, self._covered(each, rows)) for each in path]
        return self._sample.label(rows[np.any(needed, axis=0)])

    def estimate(self, thresholds: NDArray[np.float64]) -> float:
        """Return the metric on all rows whose answers are known."""
        prefix = self._order[self._is_known_row(thresholds, self._order)]
        results = self._results(thresholds, prefix)
        losses, gains = int((results > 0).sum()), int((results < 0).sum())
        if self._question.metric == "accuracy":
            # Rows of the oracle count as far as their share goes, and those that were asked are rows of the proxies.
            everything = self._covered(thresholds, self._order)
            covered = self._covered(thresholds, prefix)
            wrong = losses / max(int(covered.sum()), 1)
            return 1 - wrong * float(everything.mean())
        return gains / max(losses + gains, 1)

    def _covered(self, thresholds: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        covered: NDArray[np.bool_] = route(self._confidence[:, rows], thresholds) < len(thresholds)
        return covered

    def _is_known_row(self, thresholds: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        needed = needs_oracle(self._question.metric, self._covered(thresholds, rows))
        known: NDArray[np.bool_] = ~needed | (self._sample.oracle[rows] != UNKNOWN)
        return known

    def _is_known(self, thresholds: NDArray[np.float64], rows: NDArray[np.int64]) -> bool:
        return bool(self._is_known_row(thresholds, rows).all())

    def _results(self, thresholds: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.int8]:
        question, oracle = self._question, self._sample.oracle
        if question.metric != "accuracy":
            rows = rows[oracle[rows] != NO_ANSWER]
        routes = route(self._confidence[:, rows], thresholds)
        answers = answers_of(routes, self._answers[:, rows])
        # A row without an answer of the oracle contradicts nothing. Such rows are known only where proxies answer, so
        # leaving them out would compare two populations.
        known = np.where(oracle[rows] == NO_ANSWER, answers, oracle[rows])
        return outcomes(question.metric, routes < len(thresholds), answers, known, question.positive)

    def _passes(self, thresholds: NDArray[np.float64], rows: NDArray[np.int64]) -> bool:
        results, question = self._results(thresholds, rows), self._question
        if question.metric == "recall":
            losses, gains = int((results > 0).sum()), int((results < 0).sum())
            return reaches_target_on_all(losses, gains, question.target, question.delta)
        return reaches_target(results, question.target, question.delta)

    def _is_near(self, thresholds: NDArray[np.float64], path: NDArray[np.float64], costs: NDArray[np.float64]) -> bool:
        """Return whether the rest of the path saves so little that more questions are not worth it."""
        prices = [
            cost_per_row(route(self._confidence, each), each, costs)
            for each in (thresholds, *path[:: len(path) // 8 + 1])
        ]
        return bool(prices[0] - min(prices) <= _SMALL * costs[-1])

    def _is_hopeless(self, thresholds: NDArray[np.float64], rows: NDArray[np.int64]) -> bool:
        """Return whether the rows lie clearly below the target, so that more of them would be asked in vain."""
        results, target = self._results(thresholds, rows), self._question.target
        if int((results != 0).sum()) < _PATIENCE * fewest_rows(target, self._question.delta):
            return False
        excess = np.where(results > 0, target, np.where(results < 0, target - 1, 0.0))
        return bool(excess.sum() > 2 * np.sqrt((excess**2).sum()))


def _safest(
    question: Question,
    path: NDArray[np.float64],
    answers: NDArray[np.int64],
    confidence: NDArray[np.float64],
    oracle: NDArray[np.int64],
    rows: int,
) -> int:
    """Return the place of the configuration that a pilot sample shows to be the most likely to pass on other rows."""
    counts = []
    for thresholds in path:
        routes = route(confidence, thresholds)
        covered = routes < len(thresholds)
        # Rows of the oracle are not asked in the test.
        known = np.where(needs_oracle(question.metric, covered), oracle, UNKNOWN)
        results = outcomes(question.metric, covered, answers_of(routes, answers), known, question.positive)
        counts.append((int((results > 0).sum()), int((results < 0).sum())))
    if not counts:
        return 0
    losses, gains = np.array(counts).T * (rows / max(len(oracle), 1))
    return int(np.argmax(log_evidence(losses, gains, question.target)))


def _least(question: Question) -> int:
    """Return the rows without a loss that a conclusion takes."""
    if question.metric == "recall":
        return math.ceil(math.log(question.delta) / math.log(question.target))
    return fewest_rows(question.target, question.delta)


def _too_few(question: Question, rows: int) -> str:
    """Explain that a sample is too small for any conclusion; empty if it is not."""
    least = _least(question)
    if rows >= least:
        return ""
    return (
        f"the sample has {rows:,} rows, and a target of {question.target:g} at delta {question.delta:g} takes at least "
        f"{least:,}"
    )


def _failure(question: Question, sample: _Sample, rows: int) -> str:
    """Explain why no thresholds reach the target."""
    known = sample.oracle[sample.oracle >= 0]
    if not len(known):
        return f"the oracle answers none of the {int((sample.oracle == NO_ANSWER).sum()):,} rows that it was asked"
    if question.metric != "accuracy":
        positives = int((known == question.positive).sum())
        least = _least(question)
        if positives < least:
            return (
                f"the oracle finds {positives:,} positive rows in the sample, and a {question.metric} of "
                f"{question.target:g} at delta {question.delta:g} takes at least {least:,}"
            )
    if len(np.unique(known)) <= 1:
        return "the oracle answers one class for all rows that it was asked"
    return f"no threshold reaches the target on {rows:,} rows of the sample"
