"""Scores of candidates and ensembles on the two parts of the held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cerebro_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from numpy.typing import NDArray

    from udfs.ensembles import Combination, ShardPrediction, ShardPredictions
    from udfs.training import LossFacts, Task

__all__ = ["CandidateScores", "Candidates"]

# Blocks of rows over which a metric varies, for the elimination of candidates.
_BLOCKS = 10

_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates of an ensemble with their outputs for both parts of the held-out rows.

    ``names`` has the trial id and the epoch of each. Candidates that cannot predict are in ``errors``, with the reason,
    and the others in ``tasks`` and ``outputs``. ``labels``, ``weights`` and ``outputs`` have an entry for each part.
    """

    names: Sequence[tuple[str, int]]
    tasks: Mapping[int, Task]
    errors: Mapping[int, str]
    outputs: Mapping[int, tuple[NDArray[np.float32], NDArray[np.float32]]]
    labels: tuple[NDArray[Any], NDArray[Any]]
    weights: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]

    @classmethod
    def from_predictions(cls, job: ShardPredictions, predictions: Sequence[ShardPrediction]) -> Self:
        """Put the predictions of all shards together, in the order of the shards.

        Raises
        ------
        InvalidArgumentError
            One of the two parts has no rows.
        """
        names = [(each.trial_id, epoch) for each in job.candidates for epoch in each.states]
        by_place = {(each.candidate, each.partition): each for each in predictions}
        shards = sorted({partition for _, partition in by_place})
        known = [by_place[-1, shard].arrays for shard in shards]
        part = np.concatenate([arrays["part"] for arrays in known])
        if len(set(part.tolist())) < 2:
            raise InvalidArgumentError(
                f"the held-out rows must fill two parts, got {len(part)} rows. Hold out more rows with test_fraction="
            )
        tasks, errors, outputs = {}, {}, {}
        for number in range(len(names)):
            each = [by_place[number, shard] for shard in shards]
            failed = [prediction.error for prediction in each if prediction.error]
            array = np.empty(0) if failed else np.concatenate([prediction.arrays["outputs"] for prediction in each])
            if failed or not np.isfinite(array).all():
                errors[number] = failed[0] if failed else "its outputs are not finite"
                continue
            task = each[0].task
            assert task is not None  # those without an error have it
            tasks[number], outputs[number] = task, (array[part == 0], array[part == 1])
        labels = np.concatenate([arrays["labels"] for arrays in known])
        weights = np.concatenate([arrays["weights"] for arrays in known]) if "weights" in known[0] else None
        return cls(
            names,
            tasks,
            errors,
            outputs,
            (labels[part == 0], labels[part == 1]),
            (None, None) if weights is None else (weights[part == 0], weights[part == 1]),
        )

    @property
    def usable(self) -> list[int]:
        """Numbers of the candidates that can predict."""
        return list(self.tasks)


class CandidateScores:
    """Scores of candidates, alone and together.

    Parameters
    ----------
    candidates : Candidates
        Candidates with their outputs.
    combination : Combination
        Combination of their outputs.
    metric : str
        Metric of the scores.
    choices : int
        Number of choices of the ensemble.
    facts : LossFacts, optional
        Properties of the loss, which may ignore rows.
    """

    def __init__(
        self,
        candidates: Candidates,
        combination: Combination,
        metric: str,
        choices: int,
        facts: LossFacts | None = None,
    ) -> None:
        self._candidates = candidates
        self._combination = combination
        self._metric = metric
        self._facts = facts
        self._scores = {
            number: tuple(combination.scores(task, outputs, choices) for outputs in candidates.outputs[number])
            for number, task in candidates.tasks.items()
        }
        # Weighted sum of the scores of the choices so far, which all next choices share.
        self._so_far: tuple[tuple[int, ...], int, NDArray[np.float64]] | None = None

    @cached_property
    def weights(self) -> dict[int, float]:
        """Weight of a choice of each candidate: its score alone with ``vote="weighted"``, and 1 otherwise."""
        if self._combination.vote != "weighted":
            return dict.fromkeys(self._scores, 1.0)
        values = {number: self.alone(number, 0) for number in self._scores}
        if not self._combination.larger_is_better(self._metric):
            values = {number: 1.0 / max(value, _TINY) for number, value in values.items()}
        return {number: value if np.isfinite(value) and value > 0 else _TINY for number, value in values.items()}

    def alone(self, candidate: int, part: int) -> float:
        """Compute the score of a candidate on a part: 0 chooses the members, 1 reports."""
        return self._value(self._metric, self._scores[candidate][part], part)

    def ensemble(self, chosen: tuple[int, ...], part: int = 0) -> float:
        """Compute the score of the ensemble of some choices, repeats included."""
        *before, last = chosen
        key = tuple(before)
        if self._so_far is None or self._so_far[:2] != (key, part):
            empty = np.zeros_like(self._scores[last][part])
            total = sum((self.weights[number] * self._scores[number][part] for number in key), empty)
            self._so_far = (key, part, total)
        total = self._so_far[2] + self.weights[last] * self._scores[last][part]
        return self._value(self._metric, total / sum(self.weights[number] for number in chosen), part)

    def by_block(self, metric: str) -> NDArray[np.float64]:
        """Compute a metric of each usable candidate over blocks of the part that chooses.

        Returns
        -------
        array of float64, shape (candidates, blocks)
            Values in the order of :attr:`Candidates.usable`.
        """
        rows = len(self._candidates.labels[0])
        # Rows next to each other stay together: windows of series have most of their rows in common.
        numbers = np.arange(rows) * min(_BLOCKS, rows) // max(rows, 1)
        return np.array(
            [
                [self._value(metric, self._scores[number][0], 0, numbers == block) for block in np.unique(numbers)]
                for number in self._candidates.usable
            ]
        )

    def _value(
        self, metric: str, scores: NDArray[np.float64], part: int, rows: NDArray[np.bool_] | None = None
    ) -> float:
        labels, weights = self._candidates.labels[part], self._candidates.weights[part]
        if rows is not None:
            scores, labels = scores[rows], labels[rows]
            weights = None if weights is None else weights[rows]
        return self._combination.evaluate(metric, scores, labels, weights, self._facts)
