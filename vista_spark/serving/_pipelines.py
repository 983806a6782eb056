"""Fitted pipelines as functions of whole batches: compiled, since a backend has no Spark of its own to run them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.ml import Transformer

from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vista_spark.compiling import CompiledPipeline
    from vista_spark.serving._session import Session

__all__ = ["PipelineFunction", "pipeline_session"]


@dataclass(frozen=True, slots=True)
class PipelineFunction:
    """The methods of a compiled pipeline, each an output.

    Parameters
    ----------
    pipeline : CompiledPipeline
    """

    pipeline: CompiledPipeline = field(repr=False)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run a batch: a column each of several inputs, or a table of one."""
        values = list(arrays.values())
        table: Any = values[0]
        if len(values) > 1 or table.ndim == 1:
            table = pd.DataFrame({name: list(array) for name, array in arrays.items()})
        outputs = {name: np.asarray(getattr(self.pipeline, name)(table)) for name in self.pipeline.outputs}
        # Labels that are texts do not travel; their numbers, or their probabilities, do.
        return {name: array for name, array in outputs.items() if array.dtype.kind in "biuf"}


def pipeline_session(session: Session) -> Session:
    """Give a session's pipeline as a function, compiled if it is one of Spark ML; any other model stays.

    Raises
    ------
    InvalidArgumentError
        It does not say what it reads, and the session has no inputs.
    optimizer.compiling.UnsupportedOperatorError
        A stage cannot be compiled.
    """
    from vista_spark.compiling import CompiledPipeline, compile_pipeline  # few sessions need it

    model = session.model
    if isinstance(model, Transformer):
        model = compile_pipeline(model)
    if not isinstance(model, CompiledPipeline):
        return session
    inputs = tuple(session.inputs)
    if not inputs:
        if not model.columns:
            raise InvalidArgumentError(
                f"session {session.name!r}: the pipeline does not name its columns; give "
                'inputs=[TensorSpec("x", "float64", (-1, COLUMNS))]'
            )
        inputs = tuple(TensorSpec(name, "float64", (-1,)) for name in model.columns)
    return replace(session, model=PipelineFunction(model), inputs=inputs)
