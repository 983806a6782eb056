"""Execution of a cascade over Arrow batches, and of single members over a sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from optimizer.cascades import UNKNOWN, proxy_answers
from udfs.arrow import NewColumns
from udfs.cascades._members import OpenMember

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from udfs.cascades._members import Member

__all__ = ["CascadeScoring", "SampleScoring", "column_names"]

_WARM_UP_ROWS = 8


def column_names(members: tuple[Member, ...]) -> tuple[str, ...]:
    """Return a name for each column that each member reads: members may use one name for different columns."""
    return tuple(f"{place}.{name}" for place, member in enumerate(members) for name in member.function.reads)


def _batches_of(members: tuple[Member, ...], batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the columns of each member under their names."""
    parts, start = [], 0
    for member in members:
        names = list(member.function.reads)
        columns = batch.columns[start : start + len(names)]
        parts.append(pa.RecordBatch.from_arrays(columns, names=names))
        start += len(names)
    return parts


@dataclass(frozen=True, slots=True)
class CascadeScoring:
    """Answers of a cascade for a batch of rows. A :class:`udfs.arrow.BatchFunction`.

    Each member runs on the rows that no earlier member answers with confidence; the last one answers the rest. A row
    that the last member cannot read is bad. Members open when they first have a row.
    """

    members: tuple[Member, ...]  # the oracle is last
    thresholds: tuple[float, ...]  # one for each member but the last
    metric: str
    positive: int
    labels: tuple[str | float, ...]  # of the oracle's classes
    columns: tuple[str, str, str]  # prediction, probabilities (empty for none), model that answered
    batch_size: int = 256
    reuse: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of all members, in their order."""
        return column_names(self.members)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Prediction, probabilities and model that answered."""
        texts = any(isinstance(label, str) for label in self.labels)
        prediction, probability, model = self.columns
        fields = [pa.field(prediction, pa.string() if texts else pa.float64())]
        if probability:
            fields.append(pa.field(probability, pa.list_(pa.float64())))
        return (*fields, pa.field(model, pa.string()))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Return a function of batches; models open later."""
        opened = [OpenMember(member, len(self.labels), self.reuse, threads) for member in self.members]
        return partial(self._run, opened)

    def _run(self, opened: list[OpenMember], batch: pa.RecordBatch) -> NewColumns:
        rows, last = batch.num_rows, len(opened) - 1
        answers = np.full(rows, UNKNOWN)
        scores = np.full((rows, len(self.labels)), np.nan)
        models: list[str | None] = [None] * rows
        reasons: list[str | None] = [None] * rows
        details: list[str | None] = [None] * rows
        left = np.arange(rows)
        for place, (member, part) in enumerate(zip(opened, _batches_of(self.members, batch), strict=True)):
            if not len(left):
                break
            result = member.scores(part if len(left) == rows else part.take(pa.array(left)))
            metric = "accuracy" if place == last else self.metric
            classes, confidence = proxy_answers(result.values, metric, self.positive)
            least = -np.inf if place == last else self.thresholds[place]
            sure = (classes != UNKNOWN) & (confidence >= least)
            answers[left[sure]] = classes[sure]
            scores[left[sure]] = result.values[sure]
            for row in left[sure]:
                models[row] = self.members[place].name
            if place == last:
                for row in np.flatnonzero(~sure):
                    reasons[left[row]], details[left[row]] = result.reasons[row] or "no answer", result.details[row]
            left = left[~sure]
        return NewColumns(self._arrays(answers, scores, models), reasons, details)

    def _arrays(
        self, answers: NDArray[np.int64], scores: NDArray[np.float64], models: list[str | None]
    ) -> list[pa.Array]:
        fields = self.adds
        predictions = [None if place < 0 else self.labels[place] for place in answers.tolist()]
        arrays = [pa.array(predictions, fields[0].type)]
        if self.columns[1]:
            rows = [None if place < 0 else row for place, row in zip(answers.tolist(), scores.tolist(), strict=True)]
            arrays.append(pa.array(rows, fields[1].type))
        return [*arrays, pa.array(models, pa.string())]


@dataclass(frozen=True, slots=True)
class SampleScoring:
    """Answer, confidence and time of members for each row of a sample. A :class:`udfs.arrow.BatchFunction`.

    For member ``k`` it adds ``answer_k`` (a place among the oracle's classes, ``UNKNOWN`` without an answer),
    ``confidence_k``, and ``seconds_k``, the time of a row of the batch.
    """

    members: tuple[Member, ...]
    width: int  # number of classes; 0 if it is not known
    metric: str
    positive: int
    batch_size: int = 256
    reuse: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of all members, in their order."""
        return column_names(self.members)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Three columns for each member, and the number of its classes."""
        kinds = {"answer": pa.int64(), "confidence": pa.float64(), "seconds": pa.float64(), "classes": pa.int64()}
        return tuple(
            pa.field(f"{name}_{place}", kind) for place in range(len(self.members)) for name, kind in kinds.items()
        )

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Return a function of batches that measures its members."""
        opened = [OpenMember(member, self.width, self.reuse, threads) for member in self.members]
        return partial(self._run, opened, [])

    def _run(self, opened: list[OpenMember], begun: list[bool], batch: pa.RecordBatch) -> NewColumns:
        arrays: list[pa.Array] = []
        for member, part in zip(opened, _batches_of(self.members, batch), strict=True):
            first = part.slice(0, _WARM_UP_ROWS)
            if not begun:
                member.time_row(first)  # opens the model
            result = member.scores(part)
            seconds = member.time_row(first) if np.isnan(result.seconds) else result.seconds
            answers, confidence = proxy_answers(result.values, self.metric, self.positive)
            rows = batch.num_rows
            arrays += [pa.array(answers), pa.array(confidence), pa.array(np.full(rows, seconds))]
            arrays.append(pa.array(np.full(rows, result.values.shape[1], np.int64)))
        begun.append(True)
        return NewColumns(arrays, [None] * batch.num_rows)
