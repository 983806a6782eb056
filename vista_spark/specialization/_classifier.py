"""``SpecializedClassifier``: cheap models for the classes that a stream shows now, with an oracle behind them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from optimizer.specialization import CompactProfile, Policy
from udfs.driver import check_present, validate_arguments
from udfs.specialization import CompactModel, LearnedParts, LinearHead, parts_to_bytes, train_linear
from vista_spark.cascades import MembersReader, MembersWriter, as_member, bind
from vista_spark.errors import ColumnError, InvalidArgumentError, LabelError
from vista_spark.features import CNNFeaturizer
from vista_spark.specialization._compacts import (
    as_compacts,
    as_featurizer,
    is_featurizer,
    reading,
    warn_if_random,
)
from vista_spark.specialization._measurements import (
    HELD_OUT,
    FeatureRows,
    OracleMeasurement,
    balanced_head,
    measure_compact,
    measure_features,
    measure_oracle,
    split_rows,
)
from vista_spark.specialization._model import SpecializedModel
from vista_spark.specialization._params import SpecializedColumns, SpecializedSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from udfs.cascades import ClassScores
    from vista_spark.features import TextFeaturizer

__all__ = ["SpecializedClassifier"]

_LABELS = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "double", "float")
_SHOWN = 5
_PERFECT = (
    "the oracle is right on all rows it was measured on. If it was fitted on them, compact models seem too inaccurate "
    "in comparison: pass other rows, or mark rows that the oracle has not learned from by validationIndicatorCol."
)


@validate_arguments
class SpecializedClassifier(
    Estimator[SpecializedModel], SpecializedColumns, SpecializedSettings, MLReadable[Any], MLWritable
):
    """Label streams by compact models that are trained, as the stream goes on, for the classes that it shows now.

    An oracle knows all classes. Once few classes dominate the stream, the top of a compact model is specialised to
    them. This expert then answers the frames of these classes alone, and the oracle the others. The stream returns to
    the oracle when the classes change. ``fit`` measures times and accuracies; whether a compact model
    pays follows from them.

    Parameters
    ----------
    oracle : model
        Model whose answers count as right: a fitted model with class scores, as for :class:`vista_spark.Cascade`; or a
        network by name or card, or a featurizer with one layer. ``fit`` trains a linear head on the features of these,
        unless there is one feature for each class.
    compact : model or sequence of models
        Cheaper networks: a :class:`vista_spark.CNNFeaturizer` with one layer, a variant of a catalog, or a network by
        name. Of several, the cheapest that keeps the accuracy is used.
    inputCol : str
        Column of frames, as for :class:`vista_spark.CNNFeaturizer`. Default ``"frame"``.
    labelCol : str
        Column of labels of the training rows. Default ``"label"``.
    groupCol : str, optional
        Column of the stream's name. Default: all frames are of one stream.
    orderCol : str
        Column of the frames' order within their stream: a number or a timestamp. Default ``"t"``.
    outputCol, modelCol, phaseCol, confidenceCol, errorCol : str
        Columns for the answer, of the type of the labels; the model that answered, ``"oracle"`` or the name of an
        expert; the phase, ``"explore"``, ``"train"``, ``"trial"``, ``"specialized"``,
        ``"repeat"`` or ``"late"``; the probability of
        the answer; and the reason of a frame without one. Defaults ``"prediction"``, ``"model"``, ``"phase"``,
        ``"confidence"``, ``"frame_error"``.
    margin : float
        Least difference of the expected accuracy to the oracle's. Default -0.01.
    epsilon : float
        Probability that the oracle checks an answer of an expert; after a wrong one it checks the next two. Default
        0.03.
    window : int, optional
        Answers of the oracle before the first decision. Default: from the number of classes and the accuracy.
    trainingFrames : int, optional
        Frames that the oracle answers while an expert is trained. Default: as many as take the same time.
    method : {"reweight", "retrain"}
        Way in which experts are made: weight the answers of the compact model's classifier by the classes that the
        stream shows (default), which takes no time and needs few training rows; or train its top anew (section 5.2 of
        the thesis).
    skews : list of float
        Weights of the stream's frequencies of classes, against equal ones; with ``"retrain"``, shares of the dominant
        classes in the training set. A higher one answers more frames without the oracle, with more errors. Of all, the
        cheapest that keeps the accuracy is used. Default ``[0.5, 0.8]``.
    trainingTimeout : int
        Seconds after which the training of an expert counts as failed. Default 60.
    experts : int
        Experts that are kept for each stream, for scenes that return. Default 8.
    difference : float, optional
        Largest difference of a frame from the last one that a model answered, in squared grey levels, at which it has
        the same answer without a model; see :meth:`SpecializedModel.choose_difference`. Default: models answer all
        frames.
    batchSize : int
        Frames that a compact model answers together. Default 32.
    classCounts, draws : list of int and int
        Numbers of dominant classes for which accuracies are measured, each for some random sets. Defaults
        ``[1, 2, 5, 10, 20]`` and 5.
    holdout : float
        Share of the rows on which accuracies are measured; a hash of the input chooses them. Default 0.3.
    validationIndicatorCol : str, optional
        Boolean column that marks these rows instead. Mark rows like the frames of the streams: accuracies on pictures
        of another kind mislead the choice of a model.
    oracleRows, maxRows : int
        Rows on which a given oracle is measured, and training rows, at most. Defaults 200 and 20,000.
    seed : int
        Seed of the checks and of the measured sets. Default 0.

    Raises
    ------
    vista_spark.errors.ColumnError
        On fit: a column is missing, or of the wrong type.
    vista_spark.errors.InvalidArgumentError
        On fit: a model has no class scores, or no features.
    vista_spark.errors.LabelError
        On fit: the rows have fewer than two classes, or one that the oracle does not know.
    vista_spark.errors.EmptyInputError
        On fit: no row has an input that the models can read.

    References
    ----------
    Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 5, Algorithm 5.1.

    Examples
    --------
    >>> from vista_spark import CNNFeaturizer, SpecializedClassifier
    >>> small = CNNFeaturizer(model="mobilenet_v2", layers="pool", imageSize=96)
    >>> SpecializedClassifier(oracle="vgg16", compact=small, groupCol="camera").getOrderCol()
    't'
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _input_kwargs: dict[str, Any]  # of keyword_only

    @keyword_only
    def __init__(
        self,
        *,
        oracle: Any = None,
        compact: Any = None,
        inputCol: str | None = None,
        labelCol: str | None = None,
        groupCol: str | None = None,
        orderCol: str | None = None,
        outputCol: str | None = None,
        modelCol: str | None = None,
        phaseCol: str | None = None,
        confidenceCol: str | None = None,
        errorCol: str | None = None,
        margin: float | None = None,
        epsilon: float | None = None,
        window: int | None = None,
        trainingFrames: int | None = None,
        method: str | None = None,
        skews: Sequence[float] | None = None,
        trainingTimeout: int | None = None,
        experts: int | None = None,
        difference: float | None = None,
        batchSize: int | None = None,
        classCounts: Sequence[int] | None = None,
        draws: int | None = None,
        holdout: float | None = None,
        validationIndicatorCol: str | None = None,
        oracleRows: int | None = None,
        maxRows: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._oracle: Any = None
        self._compacts: tuple[Any, ...] = ()
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, *, oracle: Any = None, compact: Any = None, **params: Any) -> Self:
        """Set any of the constructor's parameters; parameters that are ``None`` are unchanged."""
        if oracle is not None:
            self.setOracle(oracle)
        if compact is not None:
            self.setCompact(compact)
        return self._set(**{name: value for name, value in params.items() if value is not None})

    def setOracle(self, value: Any) -> Self:
        """Set the oracle."""
        is_network = isinstance(value, str) or hasattr(value, "builder")
        self._oracle = as_featurizer("oracle", value) if is_network else as_member("oracle", value)
        return self

    def setCompact(self, value: Any) -> Self:
        """Set the compact models."""
        self._compacts = as_compacts(value)
        return self

    def getOracle(self) -> Any:
        """Return the oracle, as a stage."""
        return self._oracle

    def getCompact(self) -> tuple[Any, ...]:
        """Return the compact models, as stages."""
        return self._compacts

    def write(self) -> MembersWriter:
        """Return a writer of the Params and the models."""
        return MembersWriter(self, {}, [self._oracle, *self._compacts])

    @classmethod
    def read(cls) -> MembersReader:
        """Return a reader of what :meth:`write` wrote."""
        return MembersReader(cls)

    @classmethod
    def _loaded(cls, facts: dict[str, Any], members: list[Any]) -> SpecializedClassifier:
        del facts
        stage = cls()
        stage._oracle, stage._compacts = members[0], tuple(members[1:])
        return stage

    def _fit(self, dataset: DataFrame) -> SpecializedModel:
        if self._oracle is None or not self._compacts:
            missing = "oracle" if self._oracle is None else "compact"
            raise InvalidArgumentError(f"{missing} must be set, got none. Call set{missing.capitalize()}.")
        if dataset.isStreaming:
            raise InvalidArgumentError("train must be a table, got a stream. Fit on a table, and transform the stream.")
        column, label = self.getInputCol(), self.getLabelCol()
        check_present(dataset, [column, label], "train")
        kind = dataset.schema[label].dataType.simpleString()
        if kind not in _LABELS:
            raise ColumnError(f"column {label!r} of train must be a string, a number or a boolean, got {kind}.")
        frame = split_rows(dataset, column, label, self.getHoldout(), self._indicator(dataset)).limit(self.getMaxRows())
        for stage in (self._oracle, *self._compacts):
            warn_if_random(stage)
        names = _names(self._compacts)
        scores = [bind(name, reading(stage, column), frame) for name, stage in zip(names, self._compacts, strict=True)]
        oracle = bind("oracle", reading(self._oracle, column), frame)
        # Each network runs over the same rows, and a limit may choose others each time.
        frame = frame.persist()
        try:
            measured = [measure_features(frame, each, name) for each, name in zip(scores, names, strict=True)]
            known = sorted({label for each in measured for label in each.labels})
            # Features are no class scores, unless there is exactly one for each class.
            trains_head = is_featurizer(self._oracle) and oracle.width != len(known)
            labels = _labels(known, None if trains_head else oracle)
            head: LinearHead | None = None
            if trains_head:
                oracle_rows = measure_features(frame, oracle, "oracle").split(labels)
                head = train_linear(*oracle_rows.train, len(labels))
                hits = head.scores(oracle_rows.valid.features).argmax(axis=1) == oracle_rows.valid.labels
                quality = OracleMeasurement(float(hits.mean()), oracle_rows.seconds)
            else:
                sample = frame.where(F.col(HELD_OUT)).limit(self.getOracleRows())
                quality = measure_oracle(sample, oracle, oracle.member("oracle", labels), labels)
                if quality.accuracy == 1:
                    warnings.warn(_PERFECT, stacklevel=3)
        finally:
            frame.unpersist()
        rows = [each.split(labels) for each in measured]
        compacts, profiles = self._profiles(names, rows, len(labels))
        policy = Policy(
            classes=len(labels),
            accuracy=quality.accuracy,
            seconds=quality.seconds,
            compacts=profiles,
            window=self.getWindow(),
            margin=self.getMargin(),
            epsilon=self.getEpsilon(),
            experts=self.getExperts(),
            training_frames=self.getTrainingFrames(),
            seed=self.getSeed(),
        )
        joined = tuple(each.joined for each in rows)
        heads = tuple(balanced_head(each, len(labels)) for each in joined)
        parts = LearnedParts(heads, joined if self.getMethod() == "retrain" else (), head)
        model = SpecializedModel(
            self._oracle, self._compacts, policy, compacts, labels, kind, data=parts_to_bytes(parts)
        )
        return self._copyValues(model._resetUid(self.uid))  # noqa: SLF001 - as Spark ML's own estimators

    def _indicator(self, dataset: DataFrame) -> str | None:
        """Return the column that marks held-out rows, if there is one."""
        if not self.isDefined("validationIndicatorCol"):
            return None
        indicator = self.getValidationIndicatorCol()
        check_present(dataset, [indicator], "train")
        kind = dataset.schema[indicator].dataType
        if not isinstance(kind, BooleanType):
            raise ColumnError(f"column {indicator!r} of train must be boolean, got {kind.simpleString()}.")
        return indicator

    def _profiles(
        self, names: Sequence[str], rows: Sequence[FeatureRows], classes: int
    ) -> tuple[list[CompactModel], list[CompactProfile]]:
        """Measure each network with each assumed skew."""
        compacts, profiles = [], []
        for network, (name, each) in enumerate(zip(names, rows, strict=True)):
            head = None if self.getMethod() == "retrain" else balanced_head(each.train, classes)
            for skew in self.getSkews():
                compact = CompactModel(f"{name} at {skew:g}", network, skew)
                sizes, draws, seed = self.getClassCounts(), self.getDraws(), self.getSeed()
                profile = measure_compact(compact.name, each, head, sizes=sizes, draws=draws, skew=skew, seed=seed)
                compacts.append(compact)
                profiles.append(profile)
        return compacts, profiles


def _labels(known: list[Any], oracle: ClassScores | None) -> tuple[Any, ...]:
    """Return the labels in the order of the oracle's classes; sorted if it is to be trained."""
    if len(known) < 2:
        raise LabelError(f"labels must have at least two classes, got {known}.")
    if oracle is None:
        return tuple(known)
    if oracle.labels is not None:
        strange = [label for label in known if label not in oracle.labels]
        if strange:
            classes = ", ".join(map(repr, oracle.labels[:_SHOWN])) + ", ..." * (len(oracle.labels) > _SHOWN)
            raise LabelError(
                f"labels must be classes of the oracle, {classes}, got {strange[:_SHOWN]}. Set labelCol to the column "
                "that the oracle was fitted on, such as that of a StringIndexer."
            )
        return tuple(oracle.labels)
    if oracle.width not in (0, len(known)):
        raise LabelError(
            f"labels must have the {oracle.width} classes of the oracle, which does not name them, got {len(known)}. "
            "Train on rows of all classes."
        )
    return tuple(known)


def _names(stages: Sequence[CNNFeaturizer | TextFeaturizer]) -> list[str]:
    """Return a unique name for each compact model: that of its network, with the image size or the place if needed."""
    names = [stage.getModel() for stage in stages]
    sizes = [stage.getImageSize() if isinstance(stage, CNNFeaturizer) else None for stage in stages]
    sized = [f"{name} {size} px" if size else name for name, size in zip(names, sizes, strict=True)]
    if len(set(names)) < len(names):
        names = sized if len(set(sized)) == len(sized) else [f"{name} ({n})" for n, name in enumerate(names, 1)]
    return names
