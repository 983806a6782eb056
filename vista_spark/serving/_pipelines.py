"""Fitted pipelines as functions of whole batches, compiled because a backend has no Spark session to run them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.ml import Transformer

from optimizer.compiling import Encode, known_values
from udfs.arrow import RowError
from udfs.serving import TensorSpec
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Program
    from vista_spark.compiling import CompiledPipeline
    from vista_spark.serving._session import Session

__all__ = ["PipelineFunction", "pipeline_session"]

# Dimensions of an input that has all columns, with the batch in front.
_TABLE = 2


@dataclass(frozen=True, slots=True)
class PipelineFunction:
    """Function of whole batches that runs a compiled pipeline; each method is an output."""

    pipeline: CompiledPipeline = field(repr=False)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run a batch: several inputs are columns, a single one may be a table.

        Raises
        ------
        udfs.arrow.RowError
            The pipeline refuses a value.
        """
        table = self._table(arrays)
        try:
            outputs = {name: getattr(self.pipeline, name)(table) for name in self.pipeline.outputs}
        except (InvalidArgumentError, ColumnError) as error:
            raise RowError("refused by the pipeline", str(error)) from error
        # A model of several targets has a list of probabilities.
        lists = {name: outputs.pop(name) for name in tuple(outputs) if isinstance(outputs[name], list)}
        return outputs | {f"{name}_{place}": part for name, parts in lists.items() for place, part in enumerate(parts)}

    def _table(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        first = next(iter(arrays.values()))
        if len(arrays) == 1 and first.ndim == _TABLE:
            if first.dtype != object:
                return first
            return np.stack([self._replace_nulls(column, place) for place, column in enumerate(first.T)], axis=1)
        order = list(self.pipeline.columns or arrays)
        return pd.DataFrame({name: self._replace_nulls(array, order.index(name)) for name, array in arrays.items()})

    def _replace_nulls(self, column: NDArray[Any], place: int) -> NDArray[Any]:
        """Replace nulls among texts by NaN if the pipeline does not know ``None``, as in tables of Spark."""
        nulls = np.array([value is None for value in column], np.bool_) if column.dtype == object else np.zeros(0)
        known = _vocabularies(self.pipeline.program) if nulls.any() else []
        if not nulls.any() or any(None in vocabulary for at, vocabulary in known if at == place):
            return column
        column = column.copy()
        column[nulls] = np.nan
        return column

    def sample(self, inputs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
        """Return a record that the pipeline knows: a known category in each column of categories, zeros elsewhere."""
        known = known_values(self.pipeline.program)
        order = {name: place for place, name in enumerate(self.pipeline.columns or [spec.name for spec in inputs])}
        record = {}
        for spec in inputs:
            text = spec.dtype in {"bytes", "str"}
            places = range(self.pipeline.program.width) if len(spec.shape) == _TABLE else [order[spec.name]]
            values = [known.get(place, " " if text else 0) for place in places]
            array = np.array(values, object if text else spec.dtype)
            record[spec.name] = array if len(spec.shape) == _TABLE else array.reshape(())
        return record


def pipeline_session(session: Session) -> Session:
    """Replace a session's pipeline by a function, compiled if it is a Spark ML pipeline; keep any other model.

    Raise InvalidArgumentError if the inputs of the session do not fit the pipeline's columns, or its columns have no
    type that a request can have.
    """
    from vista_spark.compiling import CompiledPipeline, compile_pipeline  # few sessions need it

    model = session.model
    if isinstance(model, Transformer):
        model = compile_pipeline(model)
    if not isinstance(model, CompiledPipeline):
        return session
    inputs = tuple(session.inputs) or _inputs(model, session.name)
    _check(model, inputs, session.name)
    # The pipeline itself refuses the missing values that it does not read.
    return replace(session, model=PipelineFunction(model), inputs=tuple(replace(spec, missing=True) for spec in inputs))


def _inputs(pipeline: CompiledPipeline, session: str) -> tuple[TensorSpec, ...]:
    """Describe the columns of a pipeline, or its table if they have no names."""
    kinds = pipeline.program.categories
    dtypes = [_dtype(kinds.get(column, frozenset())) for column in range(pipeline.program.width)]
    names = pipeline.columns
    if None in dtypes or (names is None and len(set(dtypes)) > 1):
        place = dtypes.index(None) if None in dtypes else dtypes.index("str")
        column = place if names is None else repr(names[place])
        why = "values that no tensor can hold" if None in dtypes else "texts beside columns of numbers without names"
        raise InvalidArgumentError(
            f"model must have columns of numbers or texts, got column {column} with {why} in session {session!r}. Fit "
            "the pipeline on a DataFrame whose columns are each numbers or texts."
        )
    if names is not None:
        return tuple(TensorSpec(name, str(dtype), (-1,)) for name, dtype in zip(names, dtypes, strict=True))
    documents = dtypes == ["str"]  # a pipeline of one column of texts reads a list of them
    return (TensorSpec("x", str(dtypes[0]), (-1,) if documents else (-1, len(dtypes))),)


def _check(pipeline: CompiledPipeline, inputs: Sequence[TensorSpec], session: str) -> None:
    """Refuse inputs that are not the columns of a pipeline."""
    width, names = pipeline.program.width, pipeline.columns
    if len(inputs) == 1 and len(inputs[0].shape) == _TABLE:
        fits = inputs[0].shape[1] in {-1, width}
    else:
        fits = len(inputs) == width and all(len(spec.shape) == 1 for spec in inputs)
        fits = fits and (names is None or {spec.name for spec in inputs} == set(names))
    if not fits:
        columns = f'TensorSpec("x", "float64", (-1, {width}))' if names is None else f"the columns {', '.join(names)}"
        raise InvalidArgumentError(
            f"inputs must be {columns} for the pipeline of session {session!r}, got {list(inputs)}. Leave inputs out "
            "to take those of the pipeline."
        )


def _dtype(kinds: frozenset[type]) -> str | None:
    """Return the element type of a column with categories of these types; ``None`` if a tensor has no such type."""
    if kinds <= {int, float, bool}:
        return "float64"
    return "str" if kinds == {str} else "bytes" if kinds == {bytes} else None


def _vocabularies(program: Program) -> list[tuple[int, Sequence[Any]]]:
    """Return the columns that are looked up in a vocabulary, each with its vocabulary."""
    return [
        (int(column), vocabulary)
        for node in program.host
        if isinstance(node.operator, Encode)
        for column, vocabulary in zip(node.operator.columns.tolist(), node.operator.vocabularies, strict=True)
    ]
