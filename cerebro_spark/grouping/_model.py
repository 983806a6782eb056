"""GroupedModel: Spark ML Transformer that routes each row to the model of its group."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.ml import Model
from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasPredictionCol, HasProbabilityCol, HasRawPredictionCol
from pyspark.ml.util import DefaultParamsWriter, MLReadable, MLWritable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cerebro_spark.data import choose_features
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.grouping._keys import key_types, keys
from cerebro_spark.grouping._summary import plot_groups, summarize
from cerebro_spark.grouping._tables import best_rows, readable
from cerebro_spark.tune import TunedModel
from optimizer.grouping import GROUP_COST
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import UNBOUND, StageReader, accessors, as_vector, at_least, check_absent, map_rows, quoted, setter
from udfs.grouping import RoutedPrediction
from udfs.training import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from cerebro_spark.grouping._summary import GroupSummary

__all__ = ["GroupedModel"]

_FACTS, _MODELS, _RESULTS = "groups", "models", "results"


class GroupedModel(Model, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol, MLReadable[Any], MLWritable):
    """Transformer that predicts each row with the model of its group; it does not need the code of the networks.

    Get one from :meth:`GroupedSearch.fit`, or load a saved one. ``predictionCol``, ``rawPredictionCol`` and
    ``probabilityCol`` are those of :class:`TunedModel`. ``modelCol`` (default ``"model"``) names the model that
    answered: ``"state=CA, city=LA"``; ``"state=CA"`` where the city is null, unseen or has no model; ``"global"`` where
    that holds for the state too. All are null if a feature is null or cannot be read, or no model is there.

    The models lie in one Parquet file, which workers read by key; the plan of a query does not contain them. A saved
    model has a copy of the file. A loaded model reads it where it was saved: do not overwrite a pipeline with itself.

    Parameters
    ----------
    modelCol : str
        Column for the name of the model that answered. Default ``"model"``.
    batchSize : int
        Rows per batch. Default 4096.

    Examples
    --------
    >>> GroupedModel().getModelCol()
    'model'
    """

    __module__ = "cerebro_spark"  # the path that saved pipelines store, whichever file defines the class

    modelCol: Param[str] = Param(UNBOUND, "modelCol", "the column for the name of the model that answered")
    batchSize: Param[int] = Param(UNBOUND, "batchSize", "rows per batch", at_least("batchSize", 1))

    def __init__(self, urls: Sequence[str] = (), results: str = "", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._urls = tuple(urls)
        self._results = results
        self._facts = dict(facts or {})
        self._setDefault(
            predictionCol="prediction",
            rawPredictionCol="rawPrediction",
            probabilityCol="probability",
            modelCol="model",
            batchSize=4096,
        )

    @property
    def task(self) -> Task:
        """Meaning of the label and of the networks' outputs."""
        return Task.from_dict(self._facts["task"])

    @property
    def group_by(self) -> tuple[str, ...]:
        """Columns of the keys."""
        return tuple(self._facts["group_by"])

    @property
    def run_id(self) -> str:
        """Name of the run in the store."""
        return str(self._facts["run"])

    @property
    def groups(self) -> DataFrame:
        """Table with a row for each group, those of fewer columns and the global one included.

        It has the key columns (null above the group's level; all null for the global model), ``level``, ``status``
        (``"finished"``, ``"failed"`` or ``"skipped"``), ``reason``, ``rows`` to train on, ``held_out`` rows,
        ``left_out`` (reasons and numbers of rows), the ``params`` of the best configuration, ``scored_on``
        (``"validation"``, or ``"training"`` for a group without held-out rows), the ``metric`` that decided, all
        ``metrics``, the ``error`` of its predictions (share of wrong classes, or root mean squared error), the
        ``baseline_error`` of the majority class or the mean, and the ``seconds`` of training.
        """
        return readable(best_rows(self._table, larger_is_better=self._facts["larger_is_better"]), self._facts)

    @property
    def configurations(self) -> DataFrame:
        """Table as :attr:`groups`, with a row for each group and configuration."""
        return readable(self._table, self._facts)

    @property
    def summary(self) -> GroupSummary:
        """Numbers of groups by status, reasons, and the comparison with the baseline."""
        return summarize(self.groups, tuple(self._facts["notes"]))

    @property
    def seconds_per_row(self) -> float | None:
        """Mean seconds to train a row for an epoch, for :meth:`GroupedSearch.plan`; ``None`` if nothing was trained.

        As in the plan, rows that are held out count too, and each group as 100 rows more.
        """
        cost = F.col("rows") + F.col("held_out") + F.lit(GROUP_COST)
        sums = self._table.where("seconds is not null").agg(
            F.sum("seconds").alias("seconds"), F.sum(cost).alias("cost")
        )
        row = sums.first()
        if row is None or not row["cost"]:
            return None
        return float(row["seconds"] / row["cost"] / self._facts["epochs"])

    def explain(self) -> str:
        """Describe the groups: how many have a model, why others have none, and where a network beats the baseline."""
        return self.summary.explain()

    def plot(self) -> Figure:
        """Draw the error of each group's model over that of its baseline."""
        return plot_groups(self.groups)

    @property
    def _table(self) -> DataFrame:
        return SparkSession.active().read.parquet(self._results)

    setPredictionCol = setter(HasPredictionCol.predictionCol, "the column for predictions")
    setRawPredictionCol = setter(HasRawPredictionCol.rawPredictionCol, "the column for the network's outputs")
    setProbabilityCol = setter(HasProbabilityCol.probabilityCol, 'the column of probabilities; "" for none')
    getModelCol, setModelCol = accessors(modelCol, "the column for the name of the model that answered")
    getBatchSize, setBatchSize = accessors(batchSize, "the rows per batch")

    def write(self) -> _Writer:
        """Return a writer."""
        return _Writer(self)

    @classmethod
    def read(cls) -> _Reader:
        """Return a reader."""
        return _Reader(cls)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        columns = TunedModel(b"", self._facts)
        inputs, task = columns.inputs, self.task
        raw, prediction, model = self.getRawPredictionCol(), self.getPredictionCol(), self.getModelCol()
        probability = self.getProbabilityCol() if task.has_probabilities else ""
        vectors = [raw, *([probability] if probability else [])]
        check_absent(dataset, [*vectors, prediction, model], "set the Params of the output columns, or drop it")
        key_types(dataset, self.group_by)
        sources = choose_features(dataset, inputs)
        names = tuple(f"cerebro_spark_key_{level}" for level, _ in enumerate(self.group_by, 1))
        function = RoutedPrediction(
            self._urls,
            self._facts["framework"],
            self.group_by,
            names,
            inputs,
            tuple(source.name for source in sources if source.kind == "image"),
            raw,
            model,
            self.getBatchSize(),
        )
        rows = RowMap(function, tuple(dataset.columns), RowPolicy("null"))
        reads = dict(zip(names, keys(self.group_by), strict=True))
        scored = map_rows(
            dataset, rows, reads=reads | {source.name: source.encoded for source in sources}, sends="either"
        )
        scores = F.col(quoted(raw))
        arrays = {raw: columns._scores(scores)}  # noqa: SLF001
        if probability:
            arrays[probability] = columns._probabilities(scores)  # noqa: SLF001
        predicted = scored.withColumns(
            {name: F.when(scores.isNotNull(), column) for name, column in arrays.items()}
            | {prediction: F.when(scores.isNotNull(), columns._predicted(scores))}  # noqa: SLF001
        )
        return predicted.withColumns({name: as_vector(name) for name in vectors}).select(
            *(quoted(name) for name in dataset.columns), *map(quoted, (*vectors, prediction, model))
        )


class _Writer(DefaultParamsWriter):
    """Writer of a model's Params, its facts, and a copy of the packed models, all written by Spark."""

    def save(self, path: str) -> None:
        """Save; over the path that the model was loaded from its files stay, and the Params are written again."""
        model: Any = self.instance
        if not self.shouldOverwrite or not set(self._files(path)).intersection(model._urls):  # noqa: SLF001
            super().save(path)
            return
        if self._files(os.path.join(path, _MODELS)) != sorted(model._urls):  # noqa: PTH118, SLF001
            raise InvalidArgumentError(
                f"path must not contain the files that the model reads, got {path!r}. Save it to another path"
            )
        spark = self.sparkSession
        metadata = self._get_metadata_to_save(model, spark, {_FACTS: model._facts})  # noqa: SLF001
        rows = spark.createDataFrame([(metadata,)], "value string").coalesce(1)
        rows.write.mode("overwrite").text(os.path.join(path, "metadata"))  # noqa: PTH118

    def _files(self, path: str) -> list[str]:
        """List the files in a folder and below, as Spark names them."""
        files = self.sparkSession.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            return sorted(files.load(path).inputFiles())
        except AnalysisException:  # there is no such path
            return []

    def saveImpl(self, path: str) -> None:
        """Save to a path that does not exist yet."""
        model: Any = self.instance
        self.saveMetadata(model, path, self.sparkSession, extraMetadata={_FACTS: model._facts})  # noqa: SLF001
        models = self.sparkSession.read.parquet(*model._urls)  # noqa: SLF001
        models.coalesce(1).write.parquet(os.path.join(path, _MODELS))  # noqa: PTH118 - may be a URI
        model._table.coalesce(1).write.parquet(os.path.join(path, _RESULTS))  # noqa: PTH118, SLF001


class _Reader(StageReader):
    """Reader of what the writer wrote."""

    def load(self, path: str) -> Any:
        """Load from a path."""
        metadata = self._metadata(path)
        files = self.sparkSession.read.parquet(os.path.join(path, _MODELS)).inputFiles()  # noqa: PTH118
        model = GroupedModel(files, os.path.join(path, _RESULTS), metadata[_FACTS])  # noqa: PTH118
        return self._with_params(model, metadata)
