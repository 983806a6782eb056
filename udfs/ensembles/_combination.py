"""Combination of the outputs of an ensemble's members, and scores of the result."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError
from udfs.metrics import METRICS, fitting_metrics
from udfs.training import LossFacts, Task, TaskSums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["LOG_LOSS", "VOTES", "Combination"]

VOTES = ("mean", "majority", "weighted")
"""Ways to combine the members: means of probabilities or values, one vote each, or means weighted by scores."""

LOG_LOSS = "log_loss"
"""Name of the mean negative logarithm of the probability of the right class."""

_LEAST = 1e-15


@dataclass(frozen=True, slots=True)
class Combination:
    """Combination of the outputs of several networks for the same labels.

    Parameters
    ----------
    task : Task
        Task of the combined outputs: probabilities of classes or labels, or values.
    vote : {"mean", "majority", "weighted"}
        Way to combine the members.
    """

    task: Task
    vote: str

    @classmethod
    def from_tasks(cls, tasks: Sequence[Task], vote: str) -> Combination:
        """Make the combination of members with some tasks.

        Raises
        ------
        InvalidArgumentError
            The members predict different classes, a kind of prediction that has no combination, or margins, which have
            no mean.

        Examples
        --------
        >>> one, two = Task("binary", "0/1", "logits", 1), Task("binary", "class index", "log-probabilities", 2)
        >>> Combination.from_tasks([one, two], "mean").task.describe()
        'binary, labels 0/1, 2 outputs of probabilities'
        """
        one_of("vote", vote, VOTES)
        first = tasks[0]
        if first.kind == "custom" or first.tokens is not None:
            what = "a custom task" if first.kind == "custom" else "classes of tokens"
            raise InvalidArgumentError(
                f"members must predict classes, labels or values of rows, got {what}. State the task of the trainer "
                "with ModelTrainer(task=...), or combine the outputs of the networks yourself"
            )
        for task in tasks:
            if _meaning(task) != _meaning(first):
                raise InvalidArgumentError(
                    f"members must predict the same classes, got {task.describe()!r} and {first.describe()!r}. Search "
                    "them with networks of equal outputs, or make an ensemble of each kind"
                )
            if task.outputs == "margins" and vote != "majority":
                raise InvalidArgumentError(
                    f"vote must be 'majority' for members whose outputs are margins, which have no mean, got {vote!r}."
                )
        if first.kind == "regression":
            if vote == "majority":
                raise InvalidArgumentError("vote must be 'mean' or 'weighted' for values, got 'majority'.")
            return cls(replace(first, outputs="values"), vote)
        return cls(replace(first, outputs="probabilities", num_outputs=_columns(first)), vote)

    @property
    def columns(self) -> int:
        """Number of classes, labels or values."""
        return self.task.num_outputs or 1

    def scores(self, task: Task, outputs: NDArray[Any], choices: int) -> NDArray[np.float64]:
        """Return the scores of a member, whose weighted mean over the members is that of the ensemble.

        Parameters
        ----------
        task : Task
            Task of the member.
        outputs : array, shape (rows, outputs)
            Outputs of the member.
        choices : int
            Most members of the ensemble: equal numbers of votes are decided by the mean probability, which counts less
            than half a vote.

        Returns
        -------
        array of float64, shape (rows, columns)
            Probabilities, values, or votes.
        """
        if task.kind == "regression":
            return task.decision_scores(outputs).reshape(len(outputs), -1)
        chances = task.probabilities(outputs)
        if self.vote != "majority":
            return chances
        return self.votes(task, outputs) + (chances - 0.5) / (2 * choices)

    def votes(self, task: Task, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return the votes of a member: 1 for the predicted class or for each predicted label.

        Returns
        -------
        array of float64, shape (rows, columns)
            Votes; NaN for a row whose outputs are NaN.
        """
        if task.kind == "multilabel":
            votes = (task.decision_scores(outputs) > 0).astype(np.float64)
        else:
            second = task.predictions(outputs) > 0 if task.is_single else task.predictions(outputs)
            votes = np.eye(self.columns)[second.astype(np.int64)]
        votes[np.isnan(outputs).any(axis=1)] = np.nan
        return votes

    def predictions(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict from combined scores, in the encoding of the labels.

        Parameters
        ----------
        scores : array, shape (rows, columns)
            Weighted mean of the members' :meth:`scores`.

        Returns
        -------
        array of float64, shape (rows,) or (rows, columns)
            Class or value of each row; several where rows have several labels or values.
        """
        task = self.task
        if task.kind == "regression":
            return scores if task.is_vector else scores[:, 0]
        positive = scores > task.threshold if task.kind == "multilabel" else scores.argmax(axis=1)
        numbers = positive.astype(np.float64)
        return 2 * numbers - 1 if task.labels == "-1/+1" else numbers

    def evaluate(
        self,
        metric: str,
        scores: NDArray[np.float64],
        labels: NDArray[Any],
        weights: NDArray[np.float32] | None = None,
        facts: LossFacts | None = None,
    ) -> float:
        """Compute a metric of combined scores.

        Parameters
        ----------
        metric : str
            Name of a metric that fits the task, or ``"log_loss"``.
        scores : array, shape (rows, columns)
            Weighted mean of the members' :meth:`scores`.
        labels : array, shape (rows, ...)
            Labels in the encoding of the task.
        weights : array of float32, shape (rows,), optional
            Weights of the rows. By default all rows count alike.
        facts : LossFacts, optional
            Properties of the loss, which may ignore rows. By default no row is ignored.

        Returns
        -------
        float
            Value; NaN where it is not defined on these rows.
        """
        if metric == LOG_LOSS:
            return self._log_loss(scores, labels, weights, None if facts is None else facts.ignored)
        sums = TaskSums([metric], facts or LossFacts("ensemble"), self.task)
        sums.settle(self.task)
        return sums.results(sums.contributions(scores, labels, weights))[metric]

    def check_metric(self, metric: str) -> str:
        """Check the name of a metric.

        Raises
        ------
        InvalidArgumentError
            The metric does not fit the task, or needs probabilities that votes do not have.
        """
        fitting = fitting_metrics(self.task.kind, self.columns)
        if self.task.kind in {"binary", "multiclass"} and self.vote != "majority":
            fitting = (*fitting, LOG_LOSS)
        return one_of("metrics", metric, fitting)

    def default_metric(self, searched: str) -> str:
        """Return the metric of the search, or the nearest that combined outputs have."""
        fitting = fitting_metrics(self.task.kind, self.columns)
        if searched in fitting:
            return searched
        if self.task.kind == "regression":
            return "mse"
        return "accuracy" if self.vote == "majority" or self.task.kind == "multilabel" else LOG_LOSS

    def larger_is_better(self, metric: str) -> bool:
        """Return the direction of a metric."""
        if metric == LOG_LOSS:
            return False
        known = METRICS.get(metric)
        return True if known is None else bool(known.larger_is_better)

    def _log_loss(
        self,
        scores: NDArray[np.float64],
        labels: NDArray[Any],
        weights: NDArray[np.float32] | None,
        ignored: int | None,
    ) -> float:
        truth = self.task.truth(labels).reshape(len(labels)).astype(np.int64)
        rows = np.flatnonzero(truth != ignored)
        if not len(rows):
            return math.nan
        chances = scores[rows, truth[rows]]
        shares = None if weights is None else weights[rows]
        if shares is not None and not shares.any():
            return math.nan
        return float(np.average(-np.log(np.clip(chances, _LEAST, 1.0)), weights=shares))


def _columns(task: Task) -> int | None:
    return 2 if task.is_single else task.num_outputs


def _meaning(task: Task) -> tuple[str, bool, int | None, tuple[str, ...]]:
    """Return what two tasks must have in common to be combined."""
    return task.kind, task.labels == "-1/+1", _columns(task), task.label_columns[:1]
