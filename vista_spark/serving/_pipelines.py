"""Fitted pipelines as functions of whole batches, compiled because a backend has no Spark session to run them."""

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
    """Function of whole batches that runs a compiled pipeline; each method is an output."""

    pipeline: CompiledPipeline = field(repr=False)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run a batch: several inputs are columns, a single one is a table."""
        values = list(arrays.values())
        table: Any = values[0]
        if len(values) > 1 or table.ndim == 1:
            table = pd.DataFrame({name: list(array) for name, array in arrays.items()})
        outputs = {name: np.asarray(getattr(self.pipeline, name)(table)) for name in self.pipeline.outputs}
        # Text labels cannot be sent; their numbers or probabilities can.
        return {name: array for name, array in outputs.items() if array.dtype.kind in "biuf"}


def pipeline_session(session: Session) -> Session:
    """Replace a session's pipeline by a function, compiled if it is a Spark ML pipeline; keep any other model.

    Raise InvalidArgumentError if the pipeline does not name its columns, and the session has no inputs.
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
                f"inputs must be set for a pipeline without column names, got () in session {session.name!r}. Set "
                'inputs=[TensorSpec("x", "float64", (-1, COLUMNS))].'
            )
        inputs = tuple(TensorSpec(name, "float64", (-1,)) for name in model.columns)
    return replace(session, model=PipelineFunction(model), inputs=inputs)
