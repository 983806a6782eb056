"""Scoring of tables with a served model, at the lowest priority."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.arrow import VECTOR, NewColumns, RowError, to_lists
from udfs.inference import NOT_FINITE
from udfs.node import background
from udfs.serving._admission import Admission
from udfs.serving._errors import BadRequestError
from udfs.serving._heads import read_head
from udfs.serving._open_models import OpenModels, Row
from udfs.serving._recipes import GroupRecipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.arrow import BatchFunction
    from udfs.inference import Inference
    from udfs.serving._heads import Head
    from udfs.serving._open_models import OpenGroup
    from udfs.serving._recipes import FunctionRecipe
    from udfs.serving._router import TensorSpec

__all__ = ["Background", "FunctionScoring", "HeadScoring", "InferenceScoring", "column_type"]

_FAILED = "the model failed"
_REFUSED = "not an input of the model"
_NULL = "null"

# Types of inputs and outputs that are no numbers.
_CONTENTS = {"bytes", "str"}


@dataclass(frozen=True, slots=True)
class Background:
    """Batch function with the lowest priority for its arithmetic; it opens the model at the task's own priority."""

    function: BatchFunction

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self.function.batch_size

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that it reads."""
        return self.function.reads

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Columns that it adds."""
        return self.function.adds

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the model in this process."""
        return background(self.function.open(threads))


@dataclass(frozen=True, slots=True)
class InferenceScoring:
    """Base of batch functions over the output of an inference."""

    inference: Inference  # inference with one feature

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self.inference.batch_size

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that the network reads."""
        return self.inference.reads


@dataclass(frozen=True, slots=True)
class HeadScoring(InferenceScoring):
    """Batch function of a linear head over the output of an inference."""

    head: str  # file of the head, as udfs.serving.read_head reads it on a worker

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Column of the head's outputs."""
        return self.inference.adds

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network and the head."""
        return partial(self._run, self.inference.open(threads), read_head(self.head))

    def _run(self, infer: Callable[[pa.RecordBatch], NewColumns], head: Head, batch: pa.RecordBatch) -> NewColumns:
        features = infer(batch)
        reasons = list(features.reasons)
        valid = np.array([reason is None for reason in reasons], np.bool_)
        if not valid.any():
            return features
        rows = features.columns[0].flatten().to_numpy(zero_copy_only=False).reshape(int(valid.sum()), -1)
        scores = head(rows)
        finite = np.isfinite(scores).all(axis=1)
        for place in np.flatnonzero(valid)[~finite]:
            reasons[place] = NOT_FINITE
            valid[place] = False
        return NewColumns([to_lists(scores[finite], valid)], reasons, features.details)


@dataclass(frozen=True, slots=True)
class FunctionScoring:
    """Batch function that applies a function of whole batches to the columns of a table.

    A row is bad if a value is null or not valid for the model, or if the model raises an error on it.
    """

    session: str
    recipe: FunctionRecipe = field(repr=False)
    inputs: tuple[TensorSpec, ...]
    columns: tuple[str, ...]  # column of each input; arrays and vectors of numbers may be flat
    outputs: tuple[TensorSpec, ...]
    added: tuple[str, ...]  # column of each output
    batch_size: int

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the inputs, each once."""
        return tuple(dict.fromkeys(self.columns))

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Columns of the outputs."""
        return tuple(pa.field(name, column_type(spec)) for name, spec in zip(self.added, self.outputs, strict=True))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the function."""
        group = OpenModels("cpu", threads).open(GroupRecipe(self.session, {self.session: self.recipe}))
        return partial(self._run, group, Admission(self.session, self.inputs, {}))

    def _run(self, group: OpenGroup, admission: Admission, batch: pa.RecordBatch) -> NewColumns:
        explanations: list[str | None] = [None] * batch.num_rows
        rows: dict[int, Row] = {}
        for place in range(batch.num_rows):
            try:
                rows[place] = self._read(group, admission, batch, place)
            except BadRequestError as error:
                explanations[place] = _NULL if str(error) == _NULL else f"{_REFUSED}: {error}"
        answers = self._outputs(group, rows)
        for place, answer in answers.items():
            if isinstance(answer, str):
                explanations[place] = answer
        columns = [
            pa.array([_plain(answers.get(place), spec) for place in range(batch.num_rows)], column_type(spec))
            for spec in self.outputs
        ]
        return NewColumns.explained(columns, explanations)

    def _read(self, group: OpenGroup, admission: Admission, batch: pa.RecordBatch, place: int) -> Row:
        inputs = {
            spec.name: _value(batch.column(column)[place].as_py(), spec)
            for spec, column in zip(self.inputs, self.columns, strict=True)
        }
        (row,) = admission.rows(inputs)
        return Row(self.session, "", group.readers[self.session].read(row))

    def _outputs(self, group: OpenGroup, rows: dict[int, Row]) -> dict[int, dict[str, NDArray[Any]] | str]:
        """Run a batch; if it fails, run each row alone. A text is the explanation of a bad row."""
        if not rows:
            return {}
        try:
            answers = group.run(list(rows.values()))
            return {place: self._checked(answer) for place, answer in zip(rows, answers, strict=True)}
        except Exception as error:  # noqa: BLE001 - any error of a user's model
            if len(rows) == 1:
                refused, failed = f"{_REFUSED}: {error}", f"{_FAILED}: {type(error).__name__}: {error}"
                return dict.fromkeys(rows, refused if isinstance(error, RowError) else failed)
        return {place: answer for at, row in rows.items() for place, answer in self._outputs(group, {at: row}).items()}

    def _checked(self, answer: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        for spec in self.outputs:
            if spec.name not in answer:
                raise KeyError(f"The outputs must include {spec.name!r}, got {', '.join(answer)}.")
            array = answer[spec.name]
            texts = spec.dtype in _CONTENTS
            if texts != (array.dtype == object) or not (texts or np.can_cast(array.dtype, spec.dtype)):
                raise TypeError(f"Output {spec.name!r} must be {spec.dtype}, got {array.dtype}.")
            if (array.ndim == 0) != (len(spec.shape) == 1):
                raise ValueError(f"Output {spec.name!r} must have the shape {spec.shape[1:]}, got {array.shape}.")
        return answer


def column_type(spec: TensorSpec) -> pa.DataType:
    """Return the type of an output's column: a number or a text, or a list of them in C order."""
    if spec.dtype in _CONTENTS:
        kind = pa.string() if spec.dtype == "str" else pa.binary()
    else:
        kind = pa.from_numpy_dtype(np.float32 if spec.dtype == "float16" else np.dtype(spec.dtype))
    if len(spec.shape) == 1:
        return kind
    return VECTOR if kind == pa.float32() else pa.list_(kind)


def _plain(answer: dict[str, NDArray[Any]] | str | None, spec: TensorSpec) -> Any:
    if not isinstance(answer, dict):
        return None
    array = answer[spec.name]
    return array.item() if array.ndim == 0 else array.reshape(-1).tolist()


def _value(value: Any, spec: TensorSpec) -> NDArray[Any]:
    """Convert a value to a batch of one, of the type and shape of the input, if the conversion loses nothing."""
    if not spec.missing and _holds_null(value):
        raise BadRequestError(_NULL)
    if spec.dtype in _CONTENTS:
        if len(spec.shape) > 1:
            return _shaped(np.array(value, object), spec.shape[1:])[None]
        row = np.empty(1, object)
        row[0] = value
        return row
    if isinstance(value, dict):  # a vector of Spark ML
        value = _vector(value)
    dtype = np.dtype(spec.dtype)
    if spec.missing and dtype.kind == "f":
        value = _null_as_nan(value)
    try:
        numbers = np.asarray(value)
    except ValueError as error:
        raise BadRequestError(f"Input {spec.name!r} must have rows of the same length.") from error
    if numbers.dtype == object and _holds_null(value):
        raise BadRequestError(_NULL)
    if numbers.dtype.kind not in "biuf":
        raise BadRequestError(f"Input {spec.name!r} must be numbers of {spec.dtype}, got {type(value).__name__}.")
    # Doubles of a table are rounded to floats; every other conversion must be exact.
    rounded = numbers.dtype.kind == "f" and dtype.kind == "f"
    with np.errstate(over="ignore", invalid="ignore"):
        array = numbers.astype(dtype)
        exact = np.isinf(array) == np.isinf(numbers) if rounded else array.astype(numbers.dtype) == numbers
    if not np.all(exact):
        raise BadRequestError(f"Input {spec.name!r} must fit {spec.dtype}, and some numbers do not.")
    return _shaped(array, spec.shape[1:])[None]


def _null_as_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_null_as_nan(inner) for inner in value]
    return np.nan if value is None else value


def _shaped(array: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Reshape a flat array to the model's shape, if that is known and has as many numbers."""
    fits = -1 not in shape and array.ndim == 1 and array.size == int(np.prod(shape))
    return array.reshape(tuple(shape)) if fits else array


def _vector(value: dict[str, Any]) -> NDArray[np.float64]:
    numbers = np.asarray(value["values"], np.float64)
    if value.get("indices") is None:
        return numbers
    dense = np.zeros(int(value["size"]))
    dense[value["indices"]] = numbers
    return dense


def _holds_null(value: Any) -> bool:
    return value is None or (isinstance(value, list) and any(map(_holds_null, value)))
