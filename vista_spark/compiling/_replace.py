"""``replace_stages``: the stages of a fitted pipeline of Spark ML that compile become tensor programs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.ml import PipelineModel

from optimizer.compiling import ProgramError, UnsupportedOperatorError, sparse_nodes
from vista_spark.compiling._compiled import CompiledPipeline
from vista_spark.compiling._stage import TensorPipeline
from vista_spark.compiling.sparkml import Columns, known_of, lower_stage, named_program, stages_of

if TYPE_CHECKING:
    from pyspark.ml import Transformer
    from pyspark.sql import DataFrame

__all__ = ["replace_stages"]


def replace_stages(
    model: Transformer,
    *,
    example: DataFrame | None = None,
    tree_strategy: str = "auto",
    batch_size: int = 8192,
    backend: str = "auto",
) -> PipelineModel:
    """Swap the stages of a fitted pipeline that compile for :class:`TensorPipeline` stages; keep the others.

    Neighbours that compile become one program. The columns are those of the pipeline, under their names and in their
    order; predictions, which some models give as whole numbers, are doubles. Metadata of columns, as names of features,
    are not passed on. Bad rows are raised or dropped as each stage's ``handleInvalid`` says.

    Parameters
    ----------
    model : PipelineModel, or any fitted stage
        Pipelines in pipelines are opened; of a CrossValidatorModel the best model is taken.
    example : DataFrame, optional
        One that the pipeline reads. It tells vectors from numbers: needed where a VectorAssembler takes vectors.
    tree_strategy, backend
        As of :func:`compile_pipeline`.
    batch_size : int
        Rows per run. Default 8192.

    Returns
    -------
    PipelineModel
        With the stages that were kept, and a TensorPipeline for each run of those that were not.

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
    strangers: set[str] = set()
    for stage in stages_of(model):
        if run.take(stage):
            continue
        stages += run.stages(tree_strategy, backend, batch_size)
        strangers |= {column for old in run.members for column in _added(old)}
        run = _Run(replace(known.fork(), strangers=frozenset(strangers)))
        if not run.take(stage):
            stages.append(stage)
            strangers |= set(_added(stage))
            run = _Run(replace(known.fork(), strangers=frozenset(strangers)))
    stages += run.stages(tree_strategy, backend, batch_size)
    return PipelineModel(stages)


class _Run:
    """Neighbouring stages that compile into one program."""

    def __init__(self, known: Columns) -> None:
        self.columns = known.fork()
        self.members: list[Any] = []

    def take(self, stage: Any) -> bool:
        """Add a stage, if the run compiles with it."""
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
        """Give the run as a stage; a run that adds nothing stays as it was."""
        if not self.columns.added:
            return list(self.members)
        compiled = CompiledPipeline(named_program(self.columns), tree_strategy=tree_strategy, backend=backend)
        stage = TensorPipeline(compiled=compiled, batchSize=batch_size, errors=self.columns.policy or "raise")
        vectors = [column for column in self.columns.read if column in self.columns.vectors]
        return [stage.setFeaturesCol(vectors[0]) if vectors else stage]


def _added(stage: Any) -> list[str]:
    """Name the columns that a stage may add."""
    names = []
    for param in stage.params:
        if param.name.endswith("Col") and stage.isDefined(param):
            names.append(stage.getOrDefault(param))
        elif param.name == "outputCols" and stage.isDefined(param):
            names += stage.getOrDefault(param)
    return names
