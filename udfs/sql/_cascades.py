"""``cascade``: calls of fitted cascades, by the name that each row has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from udfs.arrow import RowMap, RowPolicy
from udfs.sql._arguments import CallError, chosen, counted, in_order, rows_alike
from udfs.sql._struct import REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from udfs.cascades import CascadeScoring

__all__ = ["CascadeCalls", "SQLCascade"]

_ERROR, _DETAIL = (field.name for field in REASONS)
_USAGE = "(struct(columns), 'cascade')"
_MOST = 2
_VECTOR_FIELDS = {"type", "size", "indices", "values"}


@dataclass(frozen=True, slots=True)
class SQLCascade:
    """A fitted cascade that queries call by name."""

    scoring: CascadeScoring
    # Field of the struct and its type, for each column that it reads; the null type for a number or a list of them.
    columns: tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True, slots=True)
class CascadeCalls:
    """The SQL function ``cascade(struct(columns), 'name')`` over the cascades that are registered for it."""

    function: str  # its name, for the messages
    cascades: Mapping[str, SQLCascade]

    @property
    def returns(self) -> pa.DataType:
        """Struct of the prediction (a text if some cascade has texts), the probabilities, the model and the reason."""
        labels = [label for cascade in self.cascades.values() for label in cascade.scoring.labels]
        prediction = pa.string() if any(isinstance(label, str) for label in labels) else pa.float64()
        fields = [("prediction", prediction), ("probability", pa.list_(pa.float64())), ("answered_by", pa.string())]
        return pa.struct([*(pa.field(name, kind) for name, kind in fields), *REASONS])

    def __call__(self, arguments: Sequence[pa.Array]) -> pa.Array:
        """Compute a batch of calls.

        Raises
        ------
        CallError
            The call names what is not registered, or lacks a column that the cascade reads.
        """
        values, names = counted(arguments, self.function, self.function + _USAGE, _MOST)
        parts = []
        for (name,), rows in rows_alike(names):
            cascade = chosen(name, self.cascades, self.function, "cascade")
            struct = values if len(rows) == len(values) else values.take(pa.array(rows))
            parts.append((rows, self._computed(cascade, struct)))
        return in_order(parts, self.returns)

    def _computed(self, cascade: SQLCascade, values: pa.Array) -> pa.Array:
        scoring = cascade.scoring
        columns = [self._column(values, column, kind) for column, kind in cascade.columns]
        batch = pa.RecordBatch.from_arrays(columns, names=list(scoring.reads))
        rows = RowMap(scoring, (), RowPolicy("null", _ERROR, detail_column=_DETAIL))
        table = pa.Table.from_batches(rows([batch])).combine_chunks()
        arrays = [
            table.column(name).combine_chunks().cast(field.type)
            for name, field in zip(table.column_names, self.returns, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(self.returns))

    def _column(self, values: pa.Array, column: str, kind: pa.DataType) -> pa.Array:
        names = [field.name for field in values.type] if pa.types.is_struct(values.type) else []
        if column not in names:
            raise CallError(
                f"the struct of {self.function} must have column {column!r}, got {', '.join(names) or values.type}. "
                f"Write {self.function}{_USAGE}."
            )
        array = values.flatten()[names.index(column)]
        if pa.types.is_struct(array.type) and {field.name for field in array.type} == _VECTOR_FIELDS:
            if array.field("indices").null_count < len(array):
                raise CallError(f"column {column!r} of {self.function} must have dense vectors. Use vector_to_array.")
            array = array.flatten()[array.type.get_field_index("values")]
        if pa.types.is_null(kind):
            kind = pa.list_(pa.float64()) if pa.types.is_nested(array.type) else pa.float64()
        try:
            return array if array.type == kind or pa.types.is_struct(array.type) else array.cast(kind)
        except pa.ArrowInvalid as error:
            raise CallError(
                f"column {column!r} of {self.function} must be {kind}, got {array.type}: {error}"
            ) from error
