"""Transformer of Spark ML that applies a compiled pipeline to a DataFrame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark import keyword_only
from pyspark.ml import Transformer
from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasFeaturesCol, HasInputCols, HasOutputCol, HasPredictionCol, HasProbabilityCol
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from optimizer.compiling import rewrite, saved_backend, saved_strategy
from udfs.arrow import ERROR_POLICIES, RowMap, RowPolicy
from udfs.cascades import ClassScores, identity_of
from udfs.compiling import PipelineScoring, from_bytes, to_bytes
from udfs.driver import (
    UNBOUND,
    NetworkReader,
    NetworkWriter,
    accessors,
    at_least,
    check_absent,
    check_present,
    map_rows,
    one_of,
    optional_accessors,
    setter,
)
from vista_spark.compiling._compiled_pipeline import CompiledPipeline
from vista_spark.compiling._spark_columns import category_column, list_column, matching_columns, number_column
from vista_spark.compiling._transfer import CompiledTransfer
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from optimizer.compiling import Output, Program

__all__ = ["TensorPipeline"]

# The program travels inside the query: Spark Connect takes messages of 128 MiB.
_LARGEST_CONNECT = 120 * 2**20
_NAMED = "column:"


class TensorPipeline(
    Transformer,
    HasFeaturesCol,
    HasInputCols,
    HasOutputCol,
    HasPredictionCol,
    HasProbabilityCol,
    MLReadable[Any],
    MLWritable,
):
    """Add the predictions of a compiled pipeline to a DataFrame (Hummingbird, thesis chapter 5).

    Executors need torch, or onnx and onnxruntime for the backend ``"onnxruntime"``, and no training library.
    Predictions are doubles, or strings if the classes are strings; models of several outputs give a vector of doubles
    or an array of strings. Probabilities and transformed rows are Spark ML vectors, which hold the probabilities of
    several outputs one after the other. ``decision_function``, ``score_samples``, ``predict_log_proba`` and ``apply``
    add no columns.

    Parameters
    ----------
    compiled : CompiledPipeline
        Pipeline that :func:`compile_pipeline` returned.
    featuresCol : str
        Column with all features: a vector, sparse or dense, or an array of numbers. Default ``"features"``. It is not
        read if `inputCols` is set, or if the model has names of columns.
    inputCols : list of str
        Columns of numbers, booleans or texts, in the model's order. Default: the names that the model was fitted with,
        with spaces or with the underscores that LightGBM writes instead.
    predictionCol, probabilityCol, outputCol : str
        Columns of ``predict``, ``predict_proba`` and ``transform``. Defaults ``"prediction"``, ``"probability"`` and
        ``"output"``. An empty name leaves the column out.
    batchSize : int
        Rows per run, at most. Default 8192.
    errors : {"null", "raise", "drop"}
        Policy for rows that the model refuses. Default ``"null"``, which sets their results to null. The other two
        send whole rows to Python.
    errorCol : str, optional
        Column of the reason why a row is refused, with ``errors="null"``. None by default.

    Raises
    ------
    vista_spark.errors.ColumnError
        On transform: a column is missing or holds no numbers, or a column to add exists.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vista_spark.compiling import TensorPipeline, compile_pipeline
    >>> table = load_iris(as_frame=True).frame
    >>> table.columns = ["sepal_length", "sepal_width", "petal_length", "petal_width", "species"]
    >>> model = LogisticRegression(max_iter=500).fit(table.iloc[:, :4], table["species"])
    >>> TensorPipeline(compiled=compile_pipeline(model)).getCompiled().outputs
    ('predict', 'decision_function', 'predict_proba', 'predict_log_proba')
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    batchSize: Param[int] = Param(UNBOUND, "batchSize", "rows per run of the program", at_least("batchSize", 1))
    errors: Param[str] = Param(UNBOUND, "errors", " | ".join(ERROR_POLICIES), one_of("errors", ERROR_POLICIES))
    errorCol: Param[str] = Param(UNBOUND, "errorCol", "column for the reason of a bad row", str)

    _input_kwargs: dict[str, Any]  # of keyword_only

    @keyword_only
    def __init__(
        self,
        *,
        compiled: CompiledPipeline | None = None,
        featuresCol: str | None = None,
        inputCols: list[str] | None = None,
        predictionCol: str | None = None,
        probabilityCol: str | None = None,
        outputCol: str | None = None,
        batchSize: int | None = None,
        errors: str | None = None,
        errorCol: str | None = None,
    ) -> None:
        super().__init__()
        self._compiled: CompiledPipeline | None = None
        self._setDefault(
            featuresCol="features",
            predictionCol="prediction",
            probabilityCol="probability",
            outputCol="output",
            batchSize=8192,
            errors="null",
        )
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, *, compiled: CompiledPipeline | None = None, **params: Any) -> Self:
        """Set any of the constructor's parameters; parameters that are ``None`` are unchanged."""
        if compiled is not None:
            self.setCompiled(compiled)
        return self._set(**{name: value for name, value in params.items() if value is not None})

    def setCompiled(self, value: CompiledPipeline) -> Self:
        """Set the compiled pipeline."""
        compiled: Any = value
        if not isinstance(compiled, CompiledPipeline):
            kind = type(compiled).__name__
            raise TypeError(f"compiled must be a CompiledPipeline, got a {kind}. Call compile_pipeline(model).")
        if isinstance(compiled, CompiledTransfer):
            raise TypeError(
                "compiled must be a pipeline of tables, got a CompiledTransfer, which reads images. Use the best_model "
                "of the transfer as the stage."
            )
        self._compiled = value
        return self

    def getCompiled(self) -> CompiledPipeline:
        """Return the compiled pipeline.

        Raises
        ------
        vista_spark.errors.InvalidArgumentError
            No pipeline is set.
        """
        if self._compiled is None:
            raise InvalidArgumentError("compiled must be set, got None. Call setCompiled.")
        return self._compiled

    setFeaturesCol = setter(HasFeaturesCol.featuresCol, "the column with all features")
    setInputCols = setter(HasInputCols.inputCols, "the columns of features, in the model's order")
    setPredictionCol = setter(HasPredictionCol.predictionCol, "the column of predictions")
    setProbabilityCol = setter(HasProbabilityCol.probabilityCol, "the column of probabilities")
    setOutputCol = setter(HasOutputCol.outputCol, "the column of transformed rows")
    getBatchSize, setBatchSize = accessors(batchSize, "the rows per run")
    getErrors, setErrors = accessors(errors, "the policy for refused rows")
    getErrorCol, setErrorCol = optional_accessors(errorCol, "the column of the reasons why rows are refused")

    def write(self) -> NetworkWriter:
        """Return a writer of Params (JSON) and the program (safetensors)."""
        self.getCompiled()
        return NetworkWriter(self)

    @classmethod
    def read(cls) -> NetworkReader:
        """Return a reader of the files that :meth:`write` writes."""
        return _Reader(cls)

    @property
    def _network(self) -> bytes:
        return to_bytes(self.getCompiled().program)

    @property
    def _facts(self) -> dict[str, Any]:
        compiled = self.getCompiled()
        return {
            "tree_strategy": compiled.tree_strategy,
            "backend": compiled.backend,
            "threads": compiled.threads,
            "rewrites": compiled.rewrites,
        }

    def _transform(self, dataset: DataFrame) -> DataFrame:
        compiled = self.getCompiled()
        data = self._network
        if is_remote() and len(data) > _LARGEST_CONNECT:
            raise InvalidArgumentError(
                f"compiled must have at most {_LARGEST_CONNECT:,} bytes on Spark Connect, got {len(data):,}. Use "
                "classic Spark, or a smaller model."
            )
        names = {"predict": self.getPredictionCol(), "predict_proba": self.getProbabilityCol()}
        names["transform"] = self.getOutputCol()
        # Replaced stages name their columns themselves.
        names |= {name: name.removeprefix(_NAMED) for name in compiled.outputs if name.startswith(_NAMED)}
        columns = tuple((name, names[name]) for name in compiled.outputs if names.get(name))
        scoring, reads = self._scoring(dataset, columns)
        reason = self.getErrorCol() if self.getErrors() == "null" else None
        added = [column for _, column in columns] + ([reason] if reason else [])
        if len(set(added)) < len(added):
            raise ColumnError(
                f"predictionCol, probabilityCol, outputCol and errorCol must differ, got {', '.join(added)}."
            )
        check_absent(
            dataset,
            matching_columns(dataset, added),
            "set another predictionCol, probabilityCol, outputCol or errorCol, or drop it first",
        )
        rows = RowMap(scoring, tuple(dataset.columns), RowPolicy(self.getErrors(), reason))  # type: ignore[arg-type]
        widths = compiled.program.widths
        outputs = compiled.program.outputs
        vectors = {column: widths[outputs[name].node] for name, column in columns if _is_vector(outputs[name])}
        return map_rows(dataset, rows, reads=reads, vectors=vectors, sends="columns")

    def class_scores(self, dataset: DataFrame) -> ClassScores:
        """Return the class probabilities of a DataFrame's rows, for a cascade.

        Raises
        ------
        vista_spark.errors.InvalidArgumentError
            The pipeline has no probabilities of classes.
        vista_spark.errors.ColumnError
            As on transform, for the columns that are read.
        """
        compiled = self.getCompiled()
        if "predict_proba" not in compiled.outputs or isinstance(compiled.program.outputs["predict"].labels, tuple):
            raise InvalidArgumentError(
                f"compiled must be a classifier with probabilities, got outputs {', '.join(compiled.outputs)}."
            )
        scoring, reads = self._scoring(dataset, (("predict_proba", "scores"),))
        program, labels = compiled.program, compiled.program.outputs["predict"].labels
        width = program.widths[program.outputs["predict_proba"].node]
        # Bytes of one program differ from call to call.
        options = repr(replace(scoring, program=b"", batch_size=1))
        return ClassScores(
            scoring,
            reads,
            labels=_plain(labels if isinstance(labels, np.ndarray) else np.arange(width)),
            width=width,
            digest=identity_of(program.digest.encode(), options.encode()),
        )

    def _scoring(
        self, dataset: DataFrame, columns: tuple[tuple[str, str], ...]
    ) -> tuple[PipelineScoring, dict[str, Column | str]]:
        compiled = self.getCompiled()
        reads = self._reads(dataset, compiled, [name for name, _ in columns])
        scoring = PipelineScoring(
            program=self._network,
            tree_strategy=compiled.tree_strategy,
            backend=compiled.backend,
            reads=tuple(reads),
            lists=not self._by_name(compiled),
            columns=columns,
            batch_size=self.getBatchSize(),
            rewrites=compiled.rewrites,
            names=tuple(self._named(dataset, compiled)) if self._by_name(compiled) else (),
        )
        return scoring, reads

    def _by_name(self, compiled: CompiledPipeline) -> bool:
        """Read one column per feature, not one column of vectors or arrays."""
        return self.isSet(self.inputCols) or (compiled.columns is not None and not self.isSet(self.featuresCol))

    def _named(self, dataset: DataFrame, compiled: CompiledPipeline) -> list[str]:
        """Return the columns of the DataFrame for those of the model, as Spark matches names."""
        is_set = self.isSet(self.inputCols)
        return matching_columns(dataset, self.getInputCols() if is_set else compiled.columns_in(dataset.columns) or [])

    def _reads(self, dataset: DataFrame, compiled: CompiledPipeline, asked: list[str]) -> dict[str, Column | str]:
        name = type(self).__name__
        if not self._by_name(compiled):
            if compiled.program.host:
                column = self.getFeaturesCol()
                raise ColumnError(
                    f"inputCols must be set for a model of categories, got only featuresCol={column!r} ({name})."
                )
            return {"table": list_column(dataset, self.getFeaturesCol(), name, compiled.program.width)}
        named = self._named(dataset, compiled)
        if len(named) != compiled.program.width:
            raise ColumnError(f"inputCols must name {compiled.program.width} columns, got {len(named)} ({name}).")
        program = compiled.program
        numeric, texts = program.numeric, program.categories
        read_by_a_step = numeric | texts.keys()
        check_present(dataset, [named[place] for place in sorted(read_by_a_step)], name)
        inputs = {place: number_column(dataset, column, name) for place, column in enumerate(named) if place in numeric}
        inputs |= {
            place: category_column(dataset, column, name, texts[place])
            for place, column in enumerate(named)
            if place in texts and place not in numeric
        }
        narrow = {place for place in numeric if dataset.schema[named[place]].dataType.typeName() == "float"}
        # A column that rewrites leave out is not sent, but its type counts: a column of float64 makes the table one of
        # float64.
        read = _as_run(compiled, asked, narrow)
        wanted = read.numeric | set(read.categories)
        zeros = {kind: F.lit(0.0).cast(kind) for kind in ("float", "double")}
        return {
            f"column {place}": inputs[place]
            if place in wanted and place in inputs
            else zeros["float" if place in narrow else "double"]
            for place in range(len(named))
        }


def _as_run(compiled: CompiledPipeline, asked: list[str], narrow: set[int]) -> Program:
    """Return the program of some outputs as a worker rewrites it, for a table with some columns of float32."""
    program = compiled.program.only(asked) if asked else compiled.program
    single = bool(program.numeric) and program.numeric <= narrow
    return rewrite(program, "float32" if single else "float64").program if compiled.rewrites else program


def _is_vector(output: Output) -> bool:
    return not output.flat and not output.texts


def _plain(labels: NDArray[Any]) -> tuple[str | float, ...]:
    """Return classes as a column of predictions has them: texts or doubles."""
    return tuple(label if isinstance(label, str) else float(label) for label in labels.tolist())


class _Reader(NetworkReader):
    def _build(self, network: bytes, facts: dict[str, Any]) -> TensorPipeline:
        facts |= {
            "tree_strategy": saved_strategy(facts["tree_strategy"]),
            "backend": saved_backend(facts["backend"]),
        }
        return TensorPipeline(compiled=CompiledPipeline(from_bytes(network), **facts))
