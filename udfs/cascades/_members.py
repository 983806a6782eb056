"""Members of a cascade: models whose class scores decide who answers a row."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow import NewColumns, RowError
from udfs.cascades._stored_answers import open_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.arrow import BatchFunction
    from udfs.compiling import PipelineScoring

__all__ = ["Chained", "ColumnScores", "Member", "MemberScores", "OpenMember"]

_NOT_NORMAL = 1e-3


@dataclass(frozen=True, slots=True)
class Member:
    """A model of a cascade: a proxy or the oracle.

    Parameters
    ----------
    name : str
        Name in the certificate and in the column of the model that answered.
    function : BatchFunction
        Adds a column of class scores: a list per row, or the probability of the second of two classes.
    scores : str
        Column of the scores.
    classes : tuple of int, optional
        For each score, the place of its class among those of the oracle. Default: the same order.
    digest : str
        Identity of the model for stored answers; empty if its answers are not stored.
    """

    name: str
    function: BatchFunction
    scores: str
    classes: tuple[int, ...] | None = None
    digest: str = ""


class MemberScores(NamedTuple):
    """Scores of some rows."""

    values: NDArray[np.float64]  # (rows, classes): probabilities; NaN for rows without an answer
    reasons: list[str | None]
    details: list[str | None]
    seconds: float  # per row that was computed, with decoding; NaN if all answers were stored


class OpenMember:
    """A member that is open in this process, with its stored answers.

    Parameters
    ----------
    member : Member
        Member to open.
    width : int
        Number of classes of the oracle; 0 for the width of the member's scores.
    reuse : str
        URI of the store of answers; empty to compute every row.
    threads : int
        Threads that the model may use.
    """

    def __init__(self, member: Member, width: int, reuse: str, threads: int) -> None:
        self._member, self._width, self._threads = member, width, threads
        self._run: Callable[[pa.RecordBatch], NewColumns] | None = None
        self._stored = open_answers(reuse, member.digest) if reuse and member.digest else None

    def scores(self, batch: pa.RecordBatch) -> MemberScores:
        """Return the scores of the rows of a batch, which has the columns that the member reads, by name.

        Raises
        ------
        udfs.arrow.RowError
            The scores have another number of classes than those of the oracle.
        """
        rows = batch.num_rows
        known, keys = ({}, []) if self._stored is None else self._stored.find(batch)
        missing = [row for row in range(rows) if row not in known]
        reasons: list[str | None] = [None] * rows
        details: list[str | None] = [None] * rows
        seconds, computed = float("nan"), np.zeros((0, self._width))
        if missing:
            part = batch if len(missing) == rows else batch.take(pa.array(missing))
            began = time.perf_counter()
            computed, part_reasons, part_details = self._computed(part)
            seconds = (time.perf_counter() - began) / len(missing)
            for row, reason, detail in zip(missing, part_reasons, part_details, strict=True):
                reasons[row], details[row] = reason, detail
            if self._stored is not None:
                self._stored.add([keys[row] for row in missing], computed)
        width = computed.shape[1] if missing else self._width or len(next(iter(known.values()), ()))
        values = np.full((rows, width), np.nan)
        values[missing] = computed
        for row, stored in known.items():
            values[row] = stored
        return MemberScores(values, reasons, details, seconds)

    def time_row(self, batch: pa.RecordBatch) -> float:
        """Return the seconds of a row, computed to no other use: the first call opens the model."""
        began = time.perf_counter()
        self._computed(batch)
        return (time.perf_counter() - began) / len(batch.column(0))

    def _computed(self, batch: pa.RecordBatch) -> tuple[NDArray[np.float64], list[str | None], list[str | None]]:
        function = self._member.function
        if self._run is None:
            self._run = function.open(self._threads)
        parts: list[NDArray[np.float64]] = []
        reasons: list[str | None] = []
        details: list[str | None] = []
        place = [field.name for field in function.adds].index(self._member.scores)
        for start in range(0, batch.num_rows, function.batch_size):
            part = batch.slice(start, function.batch_size)
            new = self._run(part)
            parts.append(self._probabilities(new.columns[place]))
            reasons.extend(new.reasons)
            details.extend(new.details or [None] * part.num_rows)
        width = max(part.shape[1] for part in parts)
        values = np.concatenate([part if part.shape[1] else np.full((len(part), width), np.nan) for part in parts])
        return values, reasons, details

    def _probabilities(self, column: pa.Array) -> NDArray[np.float64]:
        """Convert a column of scores to probabilities of the oracle's classes; NaN for nulls."""
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = column.drop_null()
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            flat = numbers.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
            scores = flat.reshape(len(numbers), -1) if len(numbers) else np.zeros((0, 0))
        else:
            second = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
            outside = second[(second < 0) | (second > 1)]
            if len(outside):
                raise RowError(
                    "number outside of [0, 1]",
                    f"{self._member.name} must be probabilities of the second class, from 0 to 1, got {outside[0]:g}. "
                    "Pass an array of the scores of all classes, or a model",
                )
            scores = np.stack([1 - second, second], axis=1)
        scores = _normalised(scores)
        classes = self._member.classes
        width = self._width or scores.shape[1]
        if len(scores) and scores.shape[1] != (width if classes is None else len(classes)):
            raise RowError(
                "another number of classes",
                f"{self._member.name} must have scores of the {width} classes of the cascade, got {scores.shape[1]}",
            )
        values = np.full((len(valid), width), np.nan)
        if len(scores):
            spread = np.zeros((len(scores), width))
            spread[:, slice(None) if classes is None else list(classes)] = scores
            values[valid] = spread
        return values


def _normalised(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities as they are, and the softmax of other rows: a network's topmost layer may be either."""
    if not len(scores):
        return scores
    is_normal = (scores >= 0).all(axis=1) & (np.abs(scores.sum(axis=1) - 1) <= _NOT_NORMAL)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.where(is_normal[:, None], scores, powers / powers.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class ColumnScores:
    """Class scores that are in a column already. A :class:`udfs.arrow.BatchFunction`."""

    column: str
    kind: pa.DataType  # list of float64, or float64 for the probability of the second of two classes
    batch_size: int = 8192

    @property
    def reads(self) -> tuple[str, ...]:
        """Column of the scores."""
        return (self.column,)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Copy of the column."""
        return (pa.field("scores", self.kind),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Return a function that copies the column."""
        del threads
        return _copied


def _copied(batch: pa.RecordBatch) -> NewColumns:
    column = batch.column(0)
    return NewColumns([column], [None if valid else "null" for valid in column.is_valid().to_pylist()])


@dataclass(frozen=True, slots=True)
class Chained:
    """A classifier of numbers, and of the features that another function adds. A :class:`udfs.arrow.BatchFunction`.

    A row is bad where a number or its features are null, NaN or infinite.
    """

    features: BatchFunction | None  # adds one column of lists of numbers
    classifier: PipelineScoring  # reads lists: the numbers, then the features
    numbers: tuple[str, ...] = ()  # columns of doubles, or of lists of doubles

    @property
    def batch_size(self) -> int:
        """Rows per run of the features."""
        return self.classifier.batch_size if self.features is None else self.features.batch_size

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that the features are computed from, and those of numbers."""
        return (*(self.features.reads if self.features else ()), *self.numbers)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Columns of the classifier."""
        return self.classifier.adds

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open both models."""
        features = None if self.features is None else self.features.open(threads)
        return partial(self._classify, features, self.classifier.open(threads))

    def _classify(
        self,
        features: Callable[[pa.RecordBatch], NewColumns] | None,
        classify: Callable[[pa.RecordBatch], NewColumns],
        batch: pa.RecordBatch,
    ) -> NewColumns:
        read = batch.num_columns - len(self.numbers)
        names = list(self.reads[:read])
        first = features(pa.RecordBatch.from_arrays(batch.columns[:read], names=names)) if features else None
        table = _joined([*batch.columns[read:], *(first.columns[:1] if first else [])])
        last = classify(pa.RecordBatch.from_arrays([table], names=list(self.classifier.reads)))
        if first is None:
            return last
        reasons: Sequence[str | None] = [
            earlier or later for earlier, later in zip(first.reasons, last.reasons, strict=True)
        ]
        return NewColumns(last.columns, reasons, first.details or last.details)


def _joined(columns: Sequence[pa.Array]) -> pa.ListArray:
    """Put numbers and lists of numbers into one list per row; null where a part is null, NaN or infinite."""
    valid = np.all([column.is_valid().to_numpy(zero_copy_only=False) for column in columns], axis=0)
    parts = [_matrix(column.filter(pa.array(valid))) for column in columns]
    rows = np.concatenate(parts, axis=1)
    finite = np.isfinite(rows).all(axis=1)
    valid[valid], rows = finite, rows[finite]
    ends = np.cumsum(valid * rows.shape[1])
    offsets = pa.array([*np.where(valid, ends - rows.shape[1], None), ends[-1]], pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(rows.reshape(-1)))


def _matrix(column: pa.Array) -> NDArray[np.float64]:
    """Return numbers, or lists of numbers of one length, as rows of an array; NaN for nulls in lists."""
    numbers = column if pa.types.is_floating(column.type) else column.flatten()
    width = len(numbers) // max(len(column), 1)
    if numbers is not column and pc.list_value_length(column).unique().to_pylist() not in ([], [width]):
        raise RowError("another length", "vectors of a column must have one length, got several. Clean the column")
    values: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    return values.reshape(len(column), width)
