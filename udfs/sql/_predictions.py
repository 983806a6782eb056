"""``predict_tuned``: calls of trained networks, by the name that each row has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optimizer.errors import nearest
from udfs.arrow import RowMap, RowPolicy
from udfs.images import IMAGE_FIELDS
from udfs.sql._arguments import CallError, chosen, counted, in_order, rows_alike
from udfs.sql._struct import EXPLAINED_PREDICTION, PREDICTION, REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.inference import Prediction
    from udfs.shards import TensorColumn
    from udfs.training import Task

__all__ = ["PredictionCalls", "SQLModel"]

_ERROR, _DETAIL = (field.name for field in REASONS)
_USAGE = "(struct(columns), 'model')"
_MOST = 2
_VECTOR_FIELDS = {"type", "size", "indices", "values"}
_DENSE = 1


@dataclass(frozen=True, slots=True)
class SQLModel:
    """A trained network that queries call by name."""

    prediction: Prediction
    columns: tuple[TensorColumn, ...]  # columns that the network was trained on
    task: Task  # meaning of the outputs


@dataclass(frozen=True, slots=True)
class PredictionCalls:
    """The SQL function ``(struct(columns), 'model')`` over the models that are registered for it."""

    function: str  # its name, for the messages
    models: Mapping[str, SQLModel]
    # Give a struct of the prediction, the probabilities, the outputs, and the reason why there are none.
    explained: bool

    @property
    def returns(self) -> pa.DataType:
        """Type of its value."""
        return EXPLAINED_PREDICTION if self.explained else PREDICTION

    def __call__(self, arguments: Sequence[pa.Array]) -> pa.Array:
        """Compute a batch of calls.

        Raises
        ------
        CallError
            The call names what is not registered, or lacks a column that the model was trained on.
        """
        values, names = counted(arguments, self.function, self.function + _USAGE, _MOST)
        parts = []
        for (name,), rows in rows_alike(names):
            model = chosen(name, self.models, self.function, "model")
            values_of_rows = values if len(rows) == len(values) else values.take(pa.array(rows))
            parts.append((rows, self._computed(model, values_of_rows)))
        return in_order(parts, self.returns)

    def _computed(self, model: SQLModel, values: pa.Array) -> pa.Array:
        columns = [self._column(values, column, only=len(model.columns) == 1) for column in model.columns]
        batch = pa.RecordBatch.from_arrays(columns, names=[column.name for column in model.columns])
        table = pa.Table.from_batches(
            RowMap(model.prediction, (), RowPolicy("null", _ERROR, detail_column=_DETAIL))([batch])
        )
        raw, *reasons = (table.column(name).combine_chunks() for name in (model.prediction.output, _ERROR, _DETAIL))
        good = raw.is_valid().to_numpy(zero_copy_only=False)
        numbers = raw.flatten().to_numpy()
        outputs = numbers.reshape(int(good.sum()), -1) if good.any() else np.empty((0, 1), np.float32)
        prediction = _spread(model.task.predictions(outputs), good)
        if not self.explained:
            return prediction
        absent = pa.nulls(len(good), EXPLAINED_PREDICTION.field("probability").type)
        task = model.task
        odds = _lists(task.probabilities(outputs), good) if task.has_probabilities else absent
        fields = [prediction, odds, _lists(task.raw_scores(outputs), good), *reasons]
        return pa.StructArray.from_arrays(fields, fields=list(EXPLAINED_PREDICTION))

    def _column(self, values: pa.Array, column: TensorColumn, *, only: bool) -> pa.Array:
        kind = values.type
        is_struct = pa.types.is_struct(kind)
        names = [field.name for field in kind] if is_struct else []
        if is_struct and column.name in names:
            # Not `field`, which would show what lies beneath a struct that is null.
            array = values.flatten()[names.index(column.name)]
        elif only and (not is_struct or set(names) == _VECTOR_FIELDS or set(names) >= set(IMAGE_FIELDS)):
            array = values
        else:
            present = ", ".join(names) if is_struct else str(kind)
            raise CallError(
                f"the struct of {self.function} must have column {column.name!r}, got {present}"
                f"{nearest(column.name, names)}: write {self.function}{_USAGE}"
            )
        encoded = _encoded(array, column)
        if encoded is None:
            trained_on = f"{column.dtype}{list(column.shape) or ''}"
            raise CallError(
                f"column {column.name!r} of {self.function} must be {trained_on}, on which the network was trained, "
                f"got {array.type}."
            )
        return encoded


def _encoded(values: pa.Array, column: TensorColumn) -> pa.Array | None:
    """Encode a column as in training; ``None`` where its type is another one."""
    kind = values.type
    if column.dtype == "uint8":
        is_struct = pa.types.is_struct(kind) and {field.name for field in kind} >= set(IMAGE_FIELDS)
        if pa.types.is_null(kind):
            return values.cast(pa.binary())
        return values if is_struct or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else None
    number = pa.float32() if column.dtype == "float32" else pa.int64()
    if pa.types.is_null(kind):
        return values.cast(pa.list_(number) if column.shape else number)
    if not column.shape:
        whole = pa.types.is_integer(kind)
        fits = whole if column.dtype == "int64" else whole or _is_number(kind)
        return values.cast(number, safe=False) if fits else None
    if pa.types.is_struct(kind):
        is_vector = {field.name for field in kind} == _VECTOR_FIELDS and len(column.shape) == 1
        return _dense(values) if is_vector and column.dtype == "float32" else None
    depth = 0
    inner = kind
    while pa.types.is_list(inner) or pa.types.is_large_list(inner):
        inner, depth = inner.value_type, depth + 1
    whole = pa.types.is_integer(inner) or pa.types.is_boolean(inner)
    fits = depth == len(column.shape) and whole == (column.dtype == "int64") and (whole or _is_number(inner))
    return _flat(values, depth).cast(pa.list_(number), safe=False) if fits else None


def _is_number(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean))


def _flat(values: pa.Array, depth: int) -> pa.Array:
    """Flatten nested lists to one a row; a row with a null list in it is null, as of Spark's ``flatten``."""
    if depth == 1:
        return values
    return pa.array(map(_flattened, values.to_pylist()), pa.list_(_leaf(values.type)))


def _flattened(value: Any) -> list[Any] | None:
    while value and isinstance(value[0], list | None):
        if any(part is None for part in value):
            return None
        value = [item for part in value for item in part]
    return value  # type: ignore[no-any-return]


def _leaf(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return kind


def _dense(values: pa.Array) -> pa.Array:
    """Turn Spark ML's vectors into lists of numbers."""
    rows: list[Any] = []
    for value in values:
        if not value.is_valid:
            rows.append(None)
        elif value["type"].as_py() == _DENSE:
            rows.append(value["values"].values.to_numpy().astype(np.float32))
        else:
            row = np.zeros(value["size"].as_py(), np.float32)
            row[value["indices"].values.to_numpy()] = value["values"].values.to_numpy()
            rows.append(row)
    return pa.array(rows, pa.list_(pa.float32()))


def _spread(numbers: NDArray[np.float64], good: NDArray[np.bool_]) -> pa.Array:
    column = np.zeros(len(good))
    column[good] = numbers
    return pa.array(column, mask=~good)


def _lists(rows: NDArray[np.float64], good: NDArray[np.bool_]) -> pa.Array:
    kind = EXPLAINED_PREDICTION.field("probability").type
    return pa.array(_each(rows, good), kind)


def _each(rows: NDArray[np.float64], good: NDArray[np.bool_]) -> list[Any]:
    numbers = iter(rows)
    return [next(numbers) if known else None for known in good]
