"""Replacement of fitted stages of Spark ML by tensor programs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.ml import PipelineModel

from optimizer.compiling import ProgramError, UnsupportedOperatorError, sparse_nodes
from udfs.driver import validate_arguments
from vista_spark.compiling._compiled_pipeline import CompiledPipeline
from vista_spark.compiling._registry import library_of
from vista_spark.compiling._stage import TensorPipeline
from vista_spark.compiling.sparkml import Columns, known_of, lower_stage, named_program, stages_of

if TYPE_CHECKING:
    from pyspark.ml import Transformer
    from pyspark.sql import DataFrame

__all__ = ["replace_stages"]


@validate_arguments
def replace_stages(
    model: Transformer,
    *,
    example: DataFrame | None = None,
    tree_strategy: str = "auto",
    batch_size: int = 8192,
    backend: str = "auto",
) -> PipelineModel:
    """Replace the stages of a fitted pipeline that compile by :class:`TensorPipeline` stages, and keep the others.

    Neighbouring stages that compile become one program. Columns keep their names and their order. Predictions are
    doubles, even if the stage predicts integers. Metadata of columns, such as names of features, are dropped.
    ``handleInvalid`` of each stage decides whether refused rows are raised or dropped.

    Parameters
    ----------
    model : PipelineModel, or any fitted stage
        Pipeline to replace. Nested pipelines are flattened, and searches replaced by their best model.
    example : DataFrame, optional
        DataFrame that the pipeline reads, whose schema tells vectors from numbers. A VectorAssembler of vectors needs
        it.
    tree_strategy, backend
        Options of :func:`compile_pipeline`.
    batch_size : int
        Rows per run. Default 8192.

    Returns
    -------
    PipelineModel
        Kept stages, and a TensorPipeline for each run of replaced stages.

    Examples
    --------
    >>> from pyspark.ml import PipelineModel
    >>> from vista_spark import replace_stages
    >>> replace_stages(PipelineModel([])).stages
    []
    """
    known = Columns() if example is None else known_of(example)
    stages: list[Any] = []
    run = _Run(known)
    unknown: set[str] = set()
    for stage in stages_of(model):
        if run.extend(stage):
            continue
        stages += run.stages(tree_strategy, backend, batch_size)
        unknown |= {column for old in run.members for column in _added(old)}
        run = _Run(replace(known.fork(), strangers=frozenset(unknown)))
        if not run.extend(stage):
            stages.append(stage)
            unknown |= set(_added(stage))
            run = _Run(replace(known.fork(), strangers=frozenset(unknown)))
    stages += run.stages(tree_strategy, backend, batch_size)
    return PipelineModel(stages)


class _Run:
    """Run of neighbouring stages that compile into one program."""

    def __init__(self, known: Columns) -> None:
        self.columns = known.fork()
        self.members: list[Any] = []

    def extend(self, stage: Any) -> bool:
        """Add a stage if the run compiles with it, and return whether it does."""
        if library_of(type(stage)) != "pyspark":  # stages of this project run on GPUs, and have their own policies
            return False
        further = self.columns.fork()
        try:
            lower_stage(stage, further)
            if further.added:
                sparse_nodes(named_program(further))
        except (UnsupportedOperatorError, ProgramError):
            return False
        self.columns = further
        self.members.append(stage)
        return True

    def stages(self, tree_strategy: str, backend: str, batch_size: int) -> list[Any]:
        """Return the run as one stage, or its members if they add no column."""
        if not self.columns.added:
            return list(self.members)
        compiled = CompiledPipeline(named_program(self.columns), tree_strategy=tree_strategy, backend=backend)
        stage = TensorPipeline(compiled=compiled, batchSize=batch_size, errors=self.columns.policy or "raise")
        vectors = [column for column in self.columns.read if column in self.columns.vectors]
        return [stage.setFeaturesCol(vectors[0]) if vectors else stage]


def _added(stage: Any) -> list[str]:
    """Return the columns that a stage may add."""
    names = []
    for param in stage.params:
        if param.name.endswith("Col") and stage.isDefined(param):
            names.append(stage.getOrDefault(param))
        elif param.name == "outputCols" and stage.isDefined(param):
            names += stage.getOrDefault(param)
    return names
