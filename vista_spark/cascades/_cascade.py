"""``Cascade``: cheap models answer what they are sure of, and an oracle the rest, with a guarantee."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import functions as F

from optimizer.cascades import Calibration, Certificate, Question, calibrate, route, shares
from udfs.driver import validate_arguments
from vista_spark.cascades._members import aligned, as_member, bind
from vista_spark.cascades._model import CascadeModel
from vista_spark.cascades._params import CascadeColumns, CascadeTarget
from vista_spark.cascades._persistence import MembersReader, MembersWriter
from vista_spark.cascades._sample import MeasuredSample, TimedOracle
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from udfs.cascades import ClassScores

__all__ = ["Cascade"]

_ORACLE = "oracle"
_BINARY = 2


@validate_arguments
class Cascade(Estimator[CascadeModel], CascadeColumns, CascadeTarget, MLReadable[Any], MLWritable):
    """Answer rows by cheap proxies where they are sure, and by an oracle elsewhere, with a guarantee.

    ``fit`` runs the proxies on a sample, asks the oracle about as few rows as it needs, and chooses the proxies and
    their least confidence so that the metric relative to the oracle is at least `target` with a probability of
    ``1 - delta``, for a sample of any size. The guarantee is about the population that the sample was drawn from at
    random. If no thresholds reach the target, the oracle answers all rows, and a warning says why.

    Parameters
    ----------
    oracle : model
        Model whose answers count as right. One of: a :class:`vista_spark.CNNFeaturizer` or ``TextFeaturizer`` with
        one layer of class scores; a ``PipelineModel`` of a featurizer and a classifier of its features; a fitted model
        that :func:`vista_spark.compile_pipeline` accepts, or a :class:`vista_spark.TensorPipeline` of one; a scorer
        of :meth:`vista_spark.serving.Server.scorer`, for any function; a :class:`udfs.arrow.BatchFunction` that adds
        class scores; or the name of a column with class probabilities. Scores that are no probabilities are passed
        through a softmax.
    proxies : sequence of models
        Cheaper models, in any order. They know classes of the oracle only.
    target : float
        Least value of the metric, above 0 and below 1. Default 0.98.
    metric : {"accuracy", "precision", "recall"}
        Metric relative to the oracle. For precision, proxies answer only the positive class; for recall, only the
        other one. Default ``"accuracy"``.
    delta : float
        Probability that the target is missed. Default 0.05.
    positive : str, float or bool, optional
        Class that precision and recall count, of two. Default: the last one of the oracle.
    costs : list of float, optional
        Costs of a row for each proxy, in the order of `proxies`, and the oracle. Default: seconds that are measured on
        the sample, with decoding.
    maxOracleCalls : int, optional
        Rows of the sample that the oracle is asked, at most. Default: all.
    predictionCol, probabilityCol, answeredByCol : str
        Columns for the class, the class probabilities (a vector; ``""`` for none) of the model that answered, and its
        name: ``"oracle"``, ``"proxy 1"``, ... Defaults ``"prediction"``, ``"probability"``, ``"answered_by"``.
    batchSize : int
        Rows that go through the models together. Default 256; tables are faster with thousands.
    errors : {"null", "drop", "raise"}
        Policy for a row that the oracle would have to answer and cannot read: nulls, with the reason in `errorCol`
        (default); no row; or a failed job.
    errorCol : str
        Column for the reason of a bad row, with ``errors="null"``. Default ``"cascade_error"``.
    reuse : str, optional
        Path or URI of a store. Answers of all models are kept there by the content of the rows, and the same models
        answer the same rows in later queries from it.
    seed : int
        Seed of the order in which rows of the sample are drawn. Default 0.

    Raises
    ------
    vista_spark.errors.ColumnError
        On fit: a column that a model reads is missing, or of the wrong type.
    vista_spark.errors.InvalidArgumentError
        On fit: a model has no class scores, or a proxy knows a class that the oracle does not know.
    vista_spark.errors.EmptyInputError
        On fit: the sample is empty.

    References
    ----------
    Shen, thesis, chapter 4 (MCDNN); Zeighami, Shankar, Parameswaran, Cut Costs, Not Accuracy (BARGAIN), SIGMOD 2026.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vista_spark import Cascade
    >>> table = load_iris(as_frame=True).frame
    >>> table.columns = ["sepal_length", "sepal_width", "petal_length", "petal_width", "species"]
    >>> X, y = table.iloc[:, :4], table["species"]
    >>> forest, linear = RandomForestClassifier(500).fit(X, y), LogisticRegression(max_iter=500).fit(X, y)
    >>> Cascade(oracle=forest, proxies=[linear], target=0.9).getMetric()
    'accuracy'
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _input_kwargs: dict[str, Any]  # of keyword_only

    @keyword_only
    def __init__(
        self,
        *,
        oracle: Any = None,
        proxies: Sequence[Any] | None = None,
        target: float | None = None,
        metric: str | None = None,
        delta: float | None = None,
        positive: str | float | bool | None = None,
        costs: Sequence[float] | None = None,
        maxOracleCalls: int | None = None,
        predictionCol: str | None = None,
        probabilityCol: str | None = None,
        answeredByCol: str | None = None,
        batchSize: int | None = None,
        errors: str | None = None,
        errorCol: str | None = None,
        reuse: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._oracle: Any = None
        self._proxies: tuple[Any, ...] = ()
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, *, oracle: Any = None, proxies: Sequence[Any] | None = None, **params: Any) -> Self:
        """Set any of the constructor's parameters; parameters that are ``None`` are unchanged."""
        if oracle is not None:
            self.setOracle(oracle)
        if proxies is not None:
            self.setProxies(proxies)
        return self._set(**{name: value for name, value in params.items() if value is not None})

    def setOracle(self, value: Any) -> Self:
        """Set the oracle."""
        self._oracle = as_member("oracle", value)
        return self

    def getOracle(self) -> Any:
        """Return the oracle, compiled if it is a fitted model of tables; ``None`` if it is not set."""
        return self._oracle

    def setProxies(self, value: Sequence[Any]) -> Self:
        """Set the proxies."""
        self._proxies = tuple(as_member(f"proxies[{place}]", proxy) for place, proxy in enumerate(value))
        return self

    def getProxies(self) -> tuple[Any, ...]:
        """Return the proxies, compiled if they are fitted models of tables."""
        return self._proxies

    def write(self) -> MembersWriter:
        """Return a writer of the Params and the models."""
        return MembersWriter(self, {}, [*self._proxies, self._oracle])

    @classmethod
    def read(cls) -> MembersReader:
        """Return a reader of what :meth:`write` wrote."""
        return MembersReader(cls)

    @classmethod
    def _loaded(cls, facts: dict[str, Any], members: list[Any]) -> Cascade:
        del facts
        return cls(oracle=members[-1], proxies=members[:-1])

    def _fit(self, dataset: DataFrame) -> CascadeModel:
        if self._oracle is None or not self._proxies:
            missing = "oracle" if self._oracle is None else "proxies"
            raise InvalidArgumentError(f"{missing} must be set, got none. Call set{missing.capitalize()}.")
        names = [f"proxy {place + 1}" for place in range(len(self._proxies))] + [_ORACLE]
        models = [*self._proxies, self._oracle]
        bound = [bind(name, model, dataset) for name, model in zip(names, models, strict=True)]
        labels = self._labels(bound, dataset)
        question, costs = self._question(labels), self.getCosts()
        if costs is not None and len(costs) != len(models):
            raise InvalidArgumentError(
                f"costs must have a number for each of {len(self._proxies)} proxies and the oracle, got {costs}."
            )
        members = aligned(names, bound, labels)
        options = {
            "width": len(labels),
            "metric": question.metric,
            "positive": question.positive,
            "batch_size": self.getBatchSize(),
            "reuse": self.getReuse() or "",
        }
        with MeasuredSample(dataset, bound, options) as sample:
            answers, confidence, seconds = sample.run_proxies(members[:-1])
            labels = labels or tuple(float(place) for place in range(sample.width))
            prices = np.array(costs[:-1] if costs else seconds)
            order = np.argsort(prices, kind="stable")
            timed = TimedOracle(sample, members[-1])
            result = calibrate(
                question,
                answers[order],
                confidence[order],
                timed,
                lambda: np.array([*prices[order], costs[-1] if costs else timed.seconds]),
                most=self.getMaxOracleCalls(),
                seed=self.getSeed(),
            )
            if not timed.times:
                # The certificate has the time of the oracle, even if the sample is too small for any conclusion.
                timed(np.arange(min(len(answers[0]), self.getBatchSize(), self.getMaxOracleCalls() or len(answers[0]))))
        measured = [*prices[order], costs[-1] if costs else timed.seconds]
        places = [*order.tolist(), len(models) - 1]
        certificate = _certificate(
            question, [names[place] for place in places], result, confidence[order], measured, timed.calls
        )
        if result.reason:
            warnings.warn(f"the oracle answers all rows: {result.reason}", stacklevel=3)
        model = CascadeModel([models[place] for place in places], certificate, labels)
        return self._copyValues(model._resetUid(self.uid))  # noqa: SLF001 - as Spark ML's own estimators

    def _labels(self, bound: Sequence[ClassScores], dataset: DataFrame) -> tuple[Any, ...]:
        """Return the classes of the oracle; none if neither it nor a proxy knows them before it runs."""
        oracle = bound[-1]
        if oracle.labels is not None:
            return oracle.labels
        width = oracle.width
        if not width and isinstance(self._oracle, str):
            sizes = dataset.select(F.size(oracle.reads[self._oracle]).alias("width")).where("width > 0")
            width = next((row["width"] for row in sizes.take(1)), 0)
        width = width or next((each.width for each in bound if each.width), 0)
        return tuple(float(place) for place in range(width))

    def _question(self, labels: tuple[Any, ...]) -> Question:
        metric, positive = self.getMetric(), self.getPositive()
        place = 1
        if metric != "accuracy":
            if len(labels) not in (0, _BINARY):
                raise InvalidArgumentError(
                    f"metric must be 'accuracy' for an oracle of {len(labels)} classes, got {metric!r}."
                )
            known = labels or (0.0, 1.0)
            if positive is not None and positive not in known:
                raise InvalidArgumentError(
                    f"positive must be a class of the oracle, {known[0]!r} or {known[1]!r}, got {positive!r}."
                )
            place = 1 if positive is None else known.index(positive)
        return Question(self.getTarget(), self.getDelta(), metric, place)


def _certificate(
    question: Question,
    names: Sequence[str],
    result: Calibration,
    confidence: NDArray[np.float64],
    seconds: Sequence[float],
    calls: int,
) -> Certificate:
    answered = shares(route(confidence, result.thresholds), len(names))
    return Certificate(
        question.metric,
        question.target,
        question.delta,
        1.0 if result.reason else question.target,
        result.estimate,
        tuple(names),
        (*(float(least) if np.isfinite(least) else None for least in result.thresholds), None),
        tuple(answered.tolist()),
        tuple(map(float, seconds)),
        confidence.shape[1],
        calls,
        result.reason,
        question.positive,
    )
