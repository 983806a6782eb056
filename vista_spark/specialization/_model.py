"""``SpecializedModel``: labels of streams, in batches and in Structured Streaming."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from pyspark.ml import Model
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import functions as F
from pyspark.sql import is_remote
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType

from optimizer.arguments import whole
from optimizer.cascades import Question
from optimizer.specialization import CompactProfile, Confusion, ConfusionCurve, Policy
from udfs.cascades import ClassScores
from udfs.driver import check_present, quoted
from udfs.inference import files_of_this_process
from udfs.specialization import (
    STREAM,
    TIME,
    CompactModel,
    LabelColumns,
    LinearScores,
    SpecializationSpec,
    parts_from_bytes,
)
from udfs.video import DifferenceDetector
from vista_spark.cascades import MembersReader, MembersWriter, bind
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.sessions import ship_weights
from vista_spark.specialization._compacts import reading
from vista_spark.specialization._difference import check_comparable, choose_from_pairs, frame_pairs
from vista_spark.specialization._label_frames import label_frames
from vista_spark.specialization._order import order_of, stream_of
from vista_spark.specialization._params import SpecializedColumns
from vista_spark.specialization._timeline import measure_timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from vista_spark.specialization._timeline import SpecializationTimeline

__all__ = ["SpecializedModel"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class SpecializedModel(Model, SpecializedColumns, MLReadable[Any], MLWritable):
    """Model of a :class:`vista_spark.SpecializedClassifier`: adds the answer, the model, the phase and the confidence.

    Frames of a stream are labelled in their order. Frames with the same order and the same content are duplicates, and
    have the same answer. In Structured Streaming, a frame that arrives after a later frame of its stream was labelled
    is late: the oracle answers it. Answers do not depend on the division of a stream into micro-batches, if its frames
    arrive in order. ``transform`` raises InvalidArgumentError for a stream of Spark Connect, and for one whose state
    store (``spark.sql.streaming.stateStore.providerClass``) is not RocksDB's.

    Parameters
    ----------
    oracle, compacts : stages
        Models.
    policy : Policy
        Settings and measurements.
    models : sequence of CompactModel
        Compact models with the shares of the dominant classes that they assume, in the order of the policy.
    labels : sequence
        Classes.
    kind : str
        Type of the labels, in Spark's notation.
    data : bytes
        Heads and training rows; see :func:`udfs.specialization.parts_to_bytes`.

    Attributes
    ----------
    policy : optimizer.specialization.Policy
        Settings, and the measured times and accuracies.
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    def __init__(
        self,
        oracle: Any,
        compacts: Sequence[Any],
        policy: Policy,
        models: Sequence[CompactModel],
        labels: Sequence[Any],
        kind: str,
        *,
        data: bytes,
    ) -> None:
        super().__init__()
        self._oracle, self._compacts, self._labels, self._kind = oracle, tuple(compacts), tuple(labels), kind
        parts = parts_from_bytes(data)
        self._models, self._data, self._head, self._trains = tuple(models), data, parts.oracle, bool(parts.rows)
        self.policy = policy

    @property
    def labels(self) -> tuple[Any, ...]:
        """Classes, in the order of the oracle's."""
        return self._labels

    def explain(self) -> str:
        """Describe the measured times and accuracies, and the skew from which a compact model pays."""
        policy = self.policy
        lines = [
            f"oracle: {policy.classes} classes, accuracy {policy.accuracy:.3f}, {1e3 * policy.seconds:.2f} ms a frame",
            f"window of {policy.window} frames, a class is dominant from {policy.support(policy.window or 0)} answers",
        ]
        for place, profile in enumerate(policy.compacts):
            lines.append(
                f"{profile.name}: {1e3 * profile.seconds:.2f} ms a frame, specialised in "
                f"{profile.training_seconds:.2f} s"
            )
            for size, (a_in, e, a_out) in zip(profile.curve.classes, profile.curve.confusions, strict=True):
                skews = [skew / 20 for skew in range(1, 21)]
                pays = [skew for skew in skews if policy.is_worthwhile(policy.estimate(place, size, skew))]
                lines.append(
                    f"  {size} dominant classes: a_in {a_in:.3f}, e {e:.3f}, a_out {a_out:.3f}; "
                    + (f"pays from a skew of {pays[0]:.2f}" if pays else "never pays")
                )
        return "\n".join(lines)

    def choose_difference(
        self, frames: DataFrame, *, target: float = 0.98, delta: float = 0.05, pairs: int = 500, seed: int = 0
    ) -> float | None:
        """Choose the value of `difference` by random pairs of frames of the same stream, 1 to 32 frames apart.

        Parameters
        ----------
        frames : DataFrame
            Frames of streams, as for ``transform``.
        target : float
            Least share of frames that have the answer of the oracle. Default 0.98.
        delta : float
            Probability that the share is lower. Default 0.05.
        pairs : int
            Pairs for which the oracle is asked, on average. Default 500.
        seed : int
            Seed of the sample. Default 0.

        Returns
        -------
        float or None
            Largest difference at which the target holds for such pairs; ``None`` if there is none.

        Raises
        ------
        ColumnError
            A column is missing, or of the wrong type.
        InvalidArgumentError
            A number is out of its range, the frames are a stream, or the oracle does not read the frames.
        EmptyInputError
            There are no pairs, or the oracle answers none.

        References
        ----------
        Kang et al., NoScope: Optimizing Neural Network Queries over Video at Scale, VLDB 2017, section 5.1.
        """
        order, group, image = self.getOrderCol(), self.getGroupCol(), self.getInputCol()
        Question(target, delta)
        whole("pairs", pairs, 1)
        if frames.isStreaming:
            raise InvalidArgumentError("frames must be a table, got a stream. Pass a table of earlier frames.")
        check_comparable(frames, image)
        check_present(frames, [order, *([group] if group else [])], "frames")
        oracle = self._bound_oracle(frames)
        if list(oracle.reads) != [image]:
            raise InvalidArgumentError(
                f"the oracle must read the frames, {image!r}, to answer pairs of them, got {', '.join(oracle.reads)}. "
                "Set difference by hand."
            )
        ordered = frames.withColumns({STREAM: stream_of(group), TIME: order_of(frames, order)})
        sample = frame_pairs(ordered, F.col(quoted(image)), pairs, seed)
        member = oracle.member("oracle", self._labels)
        return choose_from_pairs(sample, member, oracle.reads, len(self._labels), target, delta)

    def timeline(
        self, labelled: DataFrame, truthCol: str | None = None, *, width: float | None = None
    ) -> SpecializationTimeline:
        """Count phases, models, cost and accuracy of labelled frames over time.

        Spark counts the frames by interval, phase and model; only the counts come to the driver. For a live chart, call
        it on the table that a streaming query writes.

        Parameters
        ----------
        labelled : DataFrame
            Frames with the columns that the model adds.
        truthCol : str, optional
            Column of true labels; frames with a null do not count in the accuracy. Default: no accuracy.
        width : float, optional
            Length of an interval, in the unit of ``orderCol``; seconds for timestamps. Default: a 120th of the longest
            stream.

        Returns
        -------
        vista_spark.specialization.SpecializationTimeline
            Table and picture.

        Raises
        ------
        vista_spark.errors.ColumnError
            A column is missing.
        vista_spark.errors.InvalidArgumentError
            ``width`` is too small, or ``labelled`` is a stream.
        vista_spark.errors.EmptyInputError
            No frame has an answer and a time.

        Notes
        -----
        Frames in the phases ``explore``, ``train`` and ``late`` cost 1, those of a trial and those that the oracle
        answers in the specialised phase cost 1 and the slowest compact model's share, those of an expert its share, and
        repetitions nothing. The training of an expert counts in the interval of its first answer.
        """
        order, group, answer = self.getOrderCol(), self.getGroupCol(), self.getOutputCol()
        names = [order, group, truthCol, answer, self.getPhaseCol(), self.getModelCol()]
        check_present(labelled, [name for name in names if name], "labelled")
        if labelled.isStreaming:
            raise InvalidArgumentError(
                "labelled must be a table, got a stream. Write the stream to a table, and read the table."
            )
        stream = F.col(quoted(group)) if group else F.lit(None)
        correct = F.col(quoted(answer)) == F.col(quoted(truthCol)) if truthCol else F.lit(None)
        frames = labelled.select(
            stream.cast("string").alias("stream"),
            order_of(labelled, order).alias("t"),
            F.col(quoted(self.getPhaseCol())).alias("phase"),
            F.col(quoted(self.getModelCol())).alias("model"),
            correct.cast("boolean").alias("correct"),
        )
        return measure_timeline(frames, self.policy, width)

    def write(self) -> MembersWriter:
        """Return a writer of the Params, the measurements and the models."""
        facts = {
            "policy": asdict(self.policy),
            "labels": list(self._labels),
            "kind": self._kind,
            "models": [asdict(model) for model in self._models],
        }
        return MembersWriter(self, facts, [self._oracle, *self._compacts], self._data)

    @classmethod
    def read(cls) -> MembersReader:
        """Return a reader of what :meth:`write` wrote."""
        return MembersReader(cls)

    @classmethod
    def _loaded(cls, facts: dict[str, Any], members: list[Any]) -> SpecializedModel:
        return cls(
            members[0],
            members[1:],
            _policy(facts["policy"]),
            [CompactModel(**model) for model in facts["models"]],
            facts["labels"],
            facts["kind"],
            data=facts["data"],
        )

    def spec(self, dataset: DataFrame) -> tuple[SpecializationSpec, dict[str, Column | str]]:
        """Return the specification for workers, and the columns of a DataFrame that the models read.

        Raises
        ------
        ColumnError
            A column that a model reads is missing, or of the wrong type.
        """
        spark, column, difference = dataset.sparkSession, self.getInputCol(), self.getDifference()
        bound = [
            bind(f"compact[{place}]", reading(stage, column), dataset) for place, stage in enumerate(self._compacts)
        ]
        oracle = self._bound_oracle(dataset)
        reads: dict[str, Column | str] = {}
        for each in (oracle, *bound):
            reads.update(each.reads)
        spec = SpecializationSpec(
            oracle=oracle.member("oracle", self._labels),
            networks=tuple(each.function for each in bound),
            compacts=self._models,
            parts=self._shipped_parts(spark),
            policy=self.policy,
            labels=self._labels,
            label_type=to_arrow_type(_data_type(self._kind)),
            columns=LabelColumns(
                self.getOutputCol(), self.getModelCol(), self.getPhaseCol(), self.getConfidenceCol(), self.getErrorCol()
            ),
            trains=self._trains,
            training_timeout=float(self.getTrainingTimeout()),
            batch_size=self.getBatchSize(),
            difference=None if difference is None else DifferenceDetector(difference),
        )
        return spec, reads

    def _bound_oracle(self, dataset: DataFrame) -> ClassScores:
        features = bind("oracle", reading(self._oracle, self.getInputCol()), dataset)
        if self._head is None:
            return features
        return ClassScores(LinearScores(features.function, self._head), features.reads, self._labels)

    def _shipped_parts(self, spark: SparkSession) -> str:
        file = files_of_this_process() / f"{hashlib.sha256(self._data).hexdigest()[:32]}.npz"
        if not file.exists():
            partial = file.with_suffix(".partial")
            partial.write_bytes(self._data)
            partial.replace(file)
        return str(ship_weights(spark, str(file)))

    def _transform(self, dataset: DataFrame) -> DataFrame:
        order, group = self.getOrderCol(), self.getGroupCol()
        check_present(dataset, [order, *([group] if group else [])], "frames")
        if dataset.isStreaming:
            _check_stream(dataset)
        if self.getDifference() is not None:
            check_comparable(dataset, self.getInputCol())
        spec, reads = self.spec(dataset)
        if len(set(spec.columns)) < len(spec.columns):
            raise ColumnError(
                f"outputCol, modelCol, phaseCol, confidenceCol and errorCol must differ, got {', '.join(spec.columns)}."
            )
        return label_frames(dataset, spec, reads, order, group)


def _check_stream(frames: DataFrame) -> None:
    if is_remote():
        raise InvalidArgumentError(
            "frames must be a stream of a classic session, got one of Spark Connect, whose streams do not find the "
            "files of the models. Start the query with spark-submit, or label tables."
        )
    provider = frames.sparkSession.conf.get(_PROVIDER) or ""
    if not provider.endswith("RocksDBStateStoreProvider"):
        raise InvalidArgumentError(
            f"{_PROVIDER} must be RocksDB's for streams, got {provider!r}. "
            f'Call spark.conf.set("{_PROVIDER}", "{_ROCKSDB}") before transform.'
        )


def _data_type(kind: str) -> DataType:
    schema = StructType.fromDDL(f"label {kind}")
    return cast("StructType", schema).fields[0].dataType


def _policy(values: dict[str, Any]) -> Policy:
    compacts = [
        CompactProfile(
            entry["name"],
            entry["seconds"],
            ConfusionCurve(entry["curve"]["classes"], [Confusion(*each) for each in entry["curve"]["confusions"]]),
            entry["training_seconds"],
        )
        for entry in values["compacts"]
    ]
    return Policy(**(values | {"compacts": compacts}))
