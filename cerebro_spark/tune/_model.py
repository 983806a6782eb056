"""``TunedModel``: Spark ML Transformer of a trained network."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F

from cerebro_spark.data import choose_features
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.sequences import described_rows, window_facts
from optimizer.arguments import one_of
from udfs.arrow import RowMap, RowPolicy
from udfs.cascades import ClassScores, identity_of
from udfs.driver import (
    NetworkModel,
    as_vector,
    check_absent,
    map_rows,
    quoted,
)
from udfs.inference import UNCERTAINTIES, OutputUncertainty, PoolScore, PortableNetwork, Prediction
from udfs.sequences import Windows
from udfs.shards import TensorGroup, load_rows, load_sample
from udfs.sql import SQLModel
from udfs.training import Task, decide_session_task, view_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from udfs.shards import PreparedData
    from udfs.training import Session

__all__ = ["TunedModel"]


class TunedModel(NetworkModel):
    """Transformer that predicts with a network from a search; it does not need the code that built the network.

    Get one from :attr:`Selection.best_model`, or load a saved one. It reads the columns that the network was trained
    on, and knows what its outputs mean by the :class:`Task` of the search. ``predictionCol`` (default
    ``"prediction"``) is a double: the class, in the encoding of the labels (0 and 1, -1 and +1, or the class number),
    or the value of a regression. It is an array if a row has several labels, values or tokens.
    ``rawPredictionCol`` (default ``"rawPrediction"``) holds the outputs as a vector; a single output ``x`` that decides
    between two classes gives ``[-x, x]``, or ``[1 - x, x]`` where it is a probability. ``probabilityCol`` (default
    ``"probability"``) is the vector of the probabilities of classes or labels. There is none if the label is no
    class, the outputs are margins, or the Param is ``""``. So the evaluators of ``pyspark.ml.evaluation`` read
    them.

    A network that reads :class:`Windows` predicts for each window: the result has the columns ``series_by`` of the
    search's :class:`Series`, ``window_start`` and ``window_end`` (times of the first and the last row), the label of
    the window if the rows have labels, and the predictions. Rows that cannot be read cut a series, as in training.

    All predictions are null if a value is null, an image cannot be decoded or a tensor has another size.

    Parameters
    ----------
    batchSize : int
        Rows per run of the network. Default 256.

    Examples
    --------
    >>> TunedModel().getPredictionCol()
    'prediction'
    """

    __module__ = "cerebro_spark"  # the path that saved pipelines store, whichever file defines the class

    @classmethod
    def of(cls, session: Session, prepared: PreparedData) -> TunedModel:
        """Build a model from the current network of a session.

        Raises
        ------
        udfs.inference.NotPortableError
            The network cannot be written without its author's code.
        """
        view = view_of(session)
        rows = load_rows(prepared, "train", 2, view=view)
        network = PortableNetwork.of(session.model, session.read(rows.inputs))
        if not session.sums.is_settled:
            decide_session_task(session, load_sample(prepared, view=view), [group.name for group in prepared.labels])
        facts = {
            "framework": network.framework,
            "task": session.sums.task.to_dict(),
            "inputs": [asdict(group) for group in prepared.viewed(view).inputs],
            "label": prepared.labels[0].name,
        }
        if isinstance(view, Windows) and prepared.series is not None:
            facts["windows"] = window_facts(view, prepared)
        return cls(network.data, facts)

    @property
    def network(self) -> PortableNetwork:
        """Trained network."""
        return PortableNetwork(self._facts["framework"], self._network)

    @property
    def task(self) -> Task:
        """Meaning of the labels and of the network's outputs."""
        return self._task

    @property
    def inputs(self) -> tuple[TensorGroup, ...]:
        """Inputs of the network, with the columns that they are read from."""
        return tuple(map(TensorGroup.from_dict, self._facts["inputs"]))

    @property
    def label_column(self) -> str:
        """Label column that the network was trained on."""
        return str(self._facts["label"])

    def uncertainty(self, dataset: DataFrame, how: str = UNCERTAINTIES[0], *, output: str = "score") -> DataFrame:
        """Add a column that says how uncertain the network is about a row: its label would teach it most.

        Parameters
        ----------
        dataset : DataFrame
            Rows with the feature columns.
        how : {"least_confidence", "margin", "entropy"}
            Measure, see :func:`udfs.inference.uncertainty`. For a tagger, the mean over its tokens; where it reads an
            ``attention_mask``, over those that are no padding.
        output : str
            Column to add, from 0 on; null where the row cannot be read. Default ``"score"``.

        Raises
        ------
        InvalidArgumentError
            No such way, or the label is a value and not a class.
        ColumnError
            A column is missing, or there already.
        """
        self._refuse_windows("uncertainty")
        uncertainty = self.output_uncertainty(how)
        check_absent(dataset, [output], "name another column, or drop it")
        prediction, reads = self._prediction(dataset, output)
        mask = "attention_mask" if "attention_mask" in reads else None
        function = PoolScore(prediction, uncertainty, output, mask=mask)
        rows = RowMap(function, tuple(dataset.columns), RowPolicy("null"))
        return map_rows(dataset, rows, reads=reads, sends="either")

    def output_uncertainty(self, how: str) -> OutputUncertainty:
        """Return the function that :meth:`uncertainty` applies to the network's outputs.

        Parameters
        ----------
        how : {"least_confidence", "margin", "entropy"}
            Measure of uncertainty.

        Raises
        ------
        InvalidArgumentError
            No such way, or the label is a value and not a class.
        """
        one_of("how", how, UNCERTAINTIES)
        task = self._task
        if task.kind not in {"binary", "multiclass"}:
            raise InvalidArgumentError(
                f"the label {self._facts['label']!r} is a value: a network says how sure it is of classes alone. "
                'Adaptation.score ranks such records by how="diversity" or "random"'
            )
        return OutputUncertainty(how, task)

    def sql_model(self) -> SQLModel:
        """Return the function by which SQL and MLflow predict, a batch of columns at a time.

        Raises
        ------
        InvalidArgumentError
            It tags the tokens of a row: a function gives one number.
        """
        self._refuse_windows("sql_model")
        if self._task.is_vector:
            several = "a class for each token" if self._task.tokens is not None else "several numbers"
            raise InvalidArgumentError(
                f"the label {self._facts['label']!r} is {several}, and a function gives one number a row: "
                "use the stage's transform"
            )
        inputs = self.inputs
        columns = tuple(dict.fromkeys(column for group in inputs for column in group.columns))
        images = tuple(column.name for column in columns if column.dtype == "uint8")
        prediction = Prediction(self.network, inputs, images, "raw", self.getBatchSize())
        return SQLModel(prediction, columns, self._task)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        if self.windows is not None:
            dataset = described_rows(dataset, self._facts["windows"])
        scored = self._scored(dataset)
        return scored.drop(*(group.name for group in self.inputs)) if self.windows is not None else scored

    @property
    def windows(self) -> Windows | None:
        """Windows that the network reads; ``None`` if it reads single rows."""
        return Windows.from_dict(self._facts["windows"]["view"]) if "windows" in self._facts else None

    def _refuse_windows(self, call: str) -> None:
        if self.windows is not None:
            raise InvalidArgumentError(
                f"{call} must be called on a model of single rows, got one of {self.windows}. Use transform, which "
                "reads the rows of whole series"
            )

    def class_scores(self, dataset: DataFrame) -> ClassScores:
        """Return the probabilities of the classes of a DataFrame's rows, for ``vista_spark.Cascade``.

        Raises
        ------
        InvalidArgumentError
            The outputs of a row are no probabilities of classes.
        ColumnError
            A column is missing, or of the wrong type.
        """
        self._refuse_windows("class_scores")
        task = self._task
        if task.kind not in {"binary", "multiclass"} or not task.has_probabilities:
            raise InvalidArgumentError(
                f"class_scores must be called on a model with probabilities of classes, got {task}."
            )
        prediction, reads = self._prediction(dataset, "scores", task)
        classes = range(2 if task.is_single else task.num_outputs or 0)
        signs = task.is_single and task.labels == "-1/+1"
        return ClassScores(
            prediction,
            reads,
            labels=((-1.0, 1.0) if signs else tuple(map(float, classes))) or None,
            width=len(classes),
            digest=identity_of(self.network.data, repr((self.inputs, task)).encode()),
        )

    def _prediction(
        self, dataset: DataFrame, output: str, task: Task | None = None
    ) -> tuple[Prediction, dict[str, Column | str]]:
        """Return the function that predicts, and the columns that it reads."""
        sources = choose_features(dataset, self.inputs)
        images = tuple(source.name for source in sources if source.kind == "image")
        prediction = Prediction(self.network, self.inputs, images, output, self.getBatchSize(), task=task)
        return prediction, {source.name: source.encoded for source in sources}

    def _scored(self, dataset: DataFrame) -> DataFrame:
        raw, prediction = self.getRawPredictionCol(), self.getPredictionCol()
        probability = self.getProbabilityCol() if self._task.has_probabilities else ""
        vectors = [raw, *([probability] if probability else [])]
        remedy = "set rawPredictionCol, probabilityCol or predictionCol, or drop it"
        check_absent(dataset, [*vectors, prediction], remedy)
        function, reads = self._prediction(dataset, raw)
        rows = RowMap(function, tuple(dataset.columns), RowPolicy("null"))
        scored = map_rows(dataset, rows, reads=reads, sends="either")
        scores = F.col(quoted(raw))
        # All columns of one call read the old values, so that each of them reads the network's own outputs.
        arrays = {raw: self._scores(scores), **({probability: self._probabilities(scores)} if probability else {})}
        predicted = scored.withColumns(
            {name: F.when(scores.isNotNull(), column) for name, column in arrays.items()}
            | {prediction: F.when(scores.isNotNull(), self._predicted(scores))}
        )
        return predicted.withColumns({name: as_vector(name) for name in vectors})

    @property
    def _task(self) -> Task:
        if "task" in self._facts:
            return Task.from_dict(self._facts["task"])
        return _task_of_kind(self._facts)

    def _scores(self, outputs: Column) -> Column:
        task = self._task
        if not task.is_single:
            return outputs
        first = outputs.getItem(0).cast("double")
        if task.outputs == "log-probabilities":
            first = F.exp(first)
        is_chance = task.outputs in {"probabilities", "log-probabilities"}
        return F.array(1 - first if is_chance else -first, first)

    def _probabilities(self, outputs: Column) -> Column:
        task = self._task
        scores = self._scores(outputs).cast("array<double>")
        if task.outputs == "probabilities" or (task.is_single and task.outputs == "log-probabilities"):
            return scores
        if task.outputs == "log-probabilities":
            return F.transform(scores, F.exp)
        if task.kind == "multilabel":
            return F.transform(scores, _sigmoid)
        if task.is_single:
            chance = _sigmoid(scores.getItem(1))
            return F.array(1 - chance, chance)
        # Less the largest, so that no power is infinite.
        largest = F.array_max(scores)
        powers = F.transform(scores, lambda score: F.exp(score - largest))
        total = F.aggregate(powers, F.lit(0.0), lambda added, power: added + power)
        return F.transform(powers, lambda power: power / total)

    def _predicted(self, scores: Column) -> Column:
        task = self._task
        if task.tokens is not None:
            classes = task.num_outputs or 1
            return F.transform(
                F.sequence(F.lit(0), F.lit(task.tokens - 1)),
                lambda place: _largest(F.slice(scores, place * classes + 1, classes)),
            )
        if task.kind == "multilabel":
            return F.transform(scores, lambda score: self._positive(score.cast("double")))
        if task.is_single:
            return self._positive(scores.getItem(0).cast("double"))
        if task.kind in {"binary", "multiclass"}:
            return _largest(scores).cast("double")
        values = scores.cast("array<double>")
        if task.outputs == "log-values":
            values = F.transform(values, F.exp)
        return values if task.is_vector else values.getItem(0)

    def _positive(self, score: Column) -> Column:
        """Decide between two classes, in the encoding of the labels."""
        positive = (score > F.lit(self._task.threshold)).cast("double")
        return 2 * positive - 1 if self._task.labels == "-1/+1" else positive


def _task_of_kind(facts: Mapping[str, Any]) -> Task:
    """Make the task of a model that was saved by an earlier release, which knew kinds of labels alone."""
    kind = facts["kind"]
    is_chance = bool(facts.get("probabilities", facts["threshold"] > 0))
    form: Literal["probabilities", "logits"] = "probabilities" if is_chance else "logits"
    if kind == "positive":
        return Task("binary", "0/1", form, 1)
    if kind == "classes":
        return Task("multiclass", "class index", form)
    if kind == "tags":
        tokens, classes = facts.get("tokens", (1, 1))
        return Task("multiclass", "class index", form, classes, tokens)
    return Task("custom")


def _sigmoid(score: Column) -> Column:
    return 1 / (1 + F.exp(-score))


def _largest(scores: Column) -> Column:
    """Find the place of the largest."""
    return (F.array_position(scores, F.array_max(scores)) - 1).cast("int")
