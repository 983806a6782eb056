"""Measurements of fit: features of the training rows, accuracies of experts, and times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from optimizer.specialization import OTHER, CompactProfile, Confusion, ConfusionCurve
from udfs.arrow import RowMap, RowPolicy
from udfs.cascades import SampleScoring
from udfs.driver import map_rows, quoted
from udfs.specialization import (
    Expertise,
    LinearHead,
    ReweightedExpert,
    TimedFeatures,
    TrainingRows,
    train_expert,
    train_linear,
)
from vista_spark.errors import EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from udfs.cascades import ClassScores, Member

__all__ = [
    "HELD_OUT",
    "LABEL",
    "FeatureRows",
    "MeasuredRows",
    "OracleMeasurement",
    "balanced_head",
    "measure_compact",
    "measure_features",
    "measure_oracle",
    "split_rows",
]

LABEL, HELD_OUT = "__label", "__held_out"
_PARTS = 1000


class FeatureRows(NamedTuple):
    """Features and classes of training rows and of rows that are held out, and the seconds of a row."""

    train: TrainingRows
    valid: TrainingRows
    seconds: float

    @property
    def joined(self) -> TrainingRows:
        """Training rows followed by held-out rows, which experts of a stream learn from too."""
        return TrainingRows(
            np.concatenate([self.train.features, self.valid.features]),
            np.concatenate([self.train.labels, self.valid.labels]),
        )


class MeasuredRows(NamedTuple):
    """Features of shape (rows, features) of a network, labels, marks of held-out rows, and the seconds of a row."""

    features: NDArray[np.float32]
    labels: list[Any]
    is_held_out: NDArray[np.bool_]
    seconds: float

    def split(self, labels: Sequence[Any]) -> FeatureRows:
        """Return the training rows and the held-out ones, with the places of their labels as classes.

        Raises
        ------
        InvalidArgumentError
            There are no training rows, or none that are held out.
        """
        places = {label: place for place, label in enumerate(labels)}
        classes = np.array([places[label] for label in self.labels], np.int64)
        train, valid = (
            TrainingRows(self.features[rows], classes[rows]) for rows in (~self.is_held_out, self.is_held_out)
        )
        if not len(train.labels) or not len(valid.labels):
            raise InvalidArgumentError(
                "holdout or validationIndicatorCol must leave rows for training and for measurements, got "
                f"{len(train.labels)} and {len(valid.labels)} rows. Add rows."
            )
        return FeatureRows(train, valid, self.seconds)


class OracleMeasurement(NamedTuple):
    """Accuracy of the oracle on rows that are held out, and the seconds of a row."""

    accuracy: float
    seconds: float


def split_rows(dataset: DataFrame, column: str, label: str, holdout: float, indicator: str | None) -> DataFrame:
    """Return rows with a label and a mark of those that are held out: by a column, or by a hash of the input.

    NaN is no label. A null does not mark a row.
    """
    place = F.pmod(F.xxhash64(F.col(quoted(column))), F.lit(_PARTS))
    mark = F.coalesce(F.col(quoted(indicator)), F.lit(False)) if indicator else place < holdout * _PARTS
    value = F.col(quoted(label))
    is_number = isinstance(dataset.schema[label].dataType, DoubleType | FloatType)
    return dataset.where(value.isNotNull() & ~F.isnan(value) if is_number else value.isNotNull()).select(
        F.col(quoted(column)), value.alias(LABEL), mark.alias(HELD_OUT)
    )


def measure_features(frame: DataFrame, scores: ClassScores, name: str) -> MeasuredRows:
    """Compute the features of rows, and measure the time of a row.

    Raises
    ------
    EmptyInputError
        No row has an input that the network can read.
    """
    function = TimedFeatures(scores.function)
    rows = RowMap(function, (LABEL, HELD_OUT), RowPolicy("null", "__reason"))
    table = map_rows(frame, rows, reads=scores.reads).toArrow()
    reasons = table.column("__reason")
    good = table.filter(reasons.is_null())
    if not good.num_rows:
        first = next(iter(reasons.drop_null().to_pylist()), "no rows with a label")
        raise EmptyInputError(f"rows must have inputs that {name} can read, got none: {first}.")
    features = good.column(function.adds[0].name).combine_chunks().flatten()
    return MeasuredRows(
        features.to_numpy(zero_copy_only=False).astype(np.float32).reshape(good.num_rows, -1),
        good.column(LABEL).to_pylist(),
        good.column(HELD_OUT).to_numpy(),
        float(np.median(good.column(function.seconds).to_numpy())),
    )


def measure_oracle(frame: DataFrame, oracle: ClassScores, member: Member, labels: Sequence[Any]) -> OracleMeasurement:
    """Run the oracle on rows, and return its accuracy and time."""
    scoring = SampleScoring(members=(member,), width=len(labels), metric="accuracy", positive=1, batch_size=32)
    reads = {f"0.{name}": oracle.reads[name] for name in oracle.function.reads}
    table = map_rows(frame, RowMap(scoring, (LABEL,), RowPolicy("null")), reads=reads).toArrow()
    answers = table.column("answer_0").to_numpy()
    known = answers >= 0
    if not known.any():
        raise EmptyInputError("oracle must answer some of the rows, got no answer. Check the inputs.")
    places = {label: place for place, label in enumerate(labels)}
    truths = np.array([places[label] for label in table.column(LABEL).to_pylist()])
    seconds = float(np.median(table.column("seconds_0").to_numpy()))
    return OracleMeasurement(float((answers == truths)[known].mean()), seconds)


def measure_compact(
    name: str,
    rows: FeatureRows,
    head: LinearHead | None,
    *,
    sizes: Sequence[int],
    draws: int,
    skew: float,
    seed: int,
) -> CompactProfile:
    """Make experts for random dominant classes, and measure their answers (section 5.3.2).

    Without a classifier of all classes, `head`, each expert is trained.

    Raises
    ------
    InvalidArgumentError
        The rows have fewer than two classes.
    """
    random = np.random.default_rng(seed)
    known = np.intersect1d(rows.train.labels, rows.valid.labels)
    usable = [size for size in sizes if size < len(known)] or ([1] if len(known) > 1 else [])
    if not usable:
        raise InvalidArgumentError(
            f"rows must have at least two classes among the training and the held-out ones, got {len(known)}. Add "
            "rows, or change holdout."
        )
    confusions, times = [], []
    for size in usable:
        entries = []
        for _ in range(draws):
            dominant = tuple(np.sort(random.choice(known, size, replace=False)).tolist())
            start = time.perf_counter()
            expert: Expertise
            if head is None:
                expert = train_expert(rows.train.features, rows.train.labels, dominant, skew)
            else:
                expert = ReweightedExpert(head, dominant, skew)
            times.append(time.perf_counter() - start)
            entries.append(_confusion(expert.answers(rows.valid.features).labels, rows.valid.labels, dominant))
        confusions.append(Confusion(*np.mean(entries, axis=0).tolist()))
    return CompactProfile(name, rows.seconds, ConfusionCurve(usable, confusions), float(np.median(times)))


def balanced_head(rows: TrainingRows, classes: int) -> LinearHead:
    """Train a classifier of all classes in which each class counts the same."""
    counts = np.bincount(rows.labels, minlength=classes)
    return train_linear(rows.features, rows.labels, classes, (1 / counts[rows.labels]).astype(np.float32))


def _confusion(answers: NDArray[np.int64], truths: NDArray[np.int64], dominant: Sequence[int]) -> Confusion:
    inside = np.isin(truths, dominant)
    others = ~inside
    return Confusion(
        float((answers == truths)[inside].mean()),
        float((answers == OTHER)[inside].mean()),
        float((answers == OTHER)[others].mean()) if others.any() else 1.0,
    )
