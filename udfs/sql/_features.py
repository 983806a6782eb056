"""``cnn_features`` and ``text_features``: calls of networks, by the name and the layer that each row names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from optimizer.arguments import choice_error
from udfs.arrow import RowMap, RowPolicy
from udfs.images import IMAGE_FIELDS
from udfs.sql._arguments import CallError, chosen, counted, in_order, rows_alike
from udfs.sql._struct import EXPLAINED_FEATURES, FEATURES, REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from udfs.inference import Feature, Inference

__all__ = ["NetworkCalls", "SQLNetwork"]

_ERROR, _DETAIL = (field.name for field in REASONS)
_USAGE = "(column, 'model', 'layer')"
_MOST = 3


@dataclass(frozen=True, slots=True)
class SQLNetwork:
    """A network that queries call by name."""

    inference: Inference  # reads one column, and has the features of the calls that name no layer
    layers: Mapping[str, Feature]  # features of each layer that a call may name
    from_top: tuple[str, ...]  # names of the layers that have numbers, the topmost first
    policy: RowPolicy  # errors is "null" or "raise"
    tensors: bool = False  # whether it reads a layer's tensors instead of images

    def at(self, layer: Any, function: str) -> Inference:
        """Choose the features of one layer, by its name or by its number from the top, 1 the topmost.

        Raises
        ------
        CallError
            No such layer, or none is named and the stage has several in columns of their own.
        """
        if layer is None:
            if len(self.inference.vectors) == 1:
                return self.inference
            raise CallError(f"layer of {function} must be one of {', '.join(self.layers)}, got none.")
        name = layer
        if isinstance(layer, int):
            place = abs(layer)
            if not 1 <= place <= len(self.from_top):
                raise CallError(f"layer of {function} must be from 1, the top, to {len(self.from_top)}, got {layer}.")
            name = self.from_top[place - 1]
        if name not in self.layers:
            raise CallError(choice_error(f"layer of {function}", layer, self.layers))
        return replace(self.inference, features=(self.layers[name],), combined=None)


@dataclass(frozen=True, slots=True)
class NetworkCalls:
    """A SQL function ``(column, 'model', 'layer')`` over the networks that are registered for it."""

    function: str  # its name, for the messages
    kind: str  # kind of input of the networks; one of "image", "text"
    networks: Mapping[str, SQLNetwork]
    explained: bool  # give a struct of the features, the reason why there are none, and its detail

    @property
    def returns(self) -> pa.DataType:
        """Type of its value."""
        return EXPLAINED_FEATURES if self.explained else FEATURES

    def __call__(self, arguments: Sequence[pa.Array]) -> pa.Array:
        """Compute a batch of calls.

        Raises
        ------
        CallError
            The call names what is not registered, or its column is of a type that the network does not read.
        udfs.arrow.RowError
            A row is bad, and the stage has ``errors="raise"``.
        """
        values, names, layers = counted(arguments, self.function, self.function + _USAGE, _MOST)
        parts = []
        for (name, layer), rows in rows_alike(names, layers):
            network = chosen(name, self.networks, self.function, "network")
            inference = network.at(layer, self.function)
            self._check(values.type, network)
            values_of_rows = values if len(rows) == len(values) else values.take(pa.array(rows))
            parts.append((rows, self._computed(inference, values_of_rows, network.policy)))
        return in_order(parts, self.returns)

    def _computed(self, inference: Inference, values: pa.Array, policy: RowPolicy) -> pa.Array:
        reasons = RowPolicy(policy.errors, _ERROR, policy.error, _DETAIL)
        batch = pa.RecordBatch.from_arrays([values], names=list(inference.reads))
        table = pa.Table.from_batches(RowMap(inference, (), reasons)([batch]))
        features = table.column(inference.vectors[0]).combine_chunks()
        if not self.explained:
            return features
        told = [
            table.column(name).combine_chunks() if name in table.column_names else None for name in ("error", "detail")
        ]
        absent = pa.nulls(len(features), pa.string())
        fields = [features, *(absent if column is None else column for column in told)]
        return pa.StructArray.from_arrays(fields, fields=list(EXPLAINED_FEATURES))

    def _check(self, kind: pa.DataType, network: SQLNetwork) -> None:
        if pa.types.is_null(kind):
            return
        if self.kind == "text":
            if not _is_string(kind):
                raise CallError(f"the column of {self.function} must be a string, got {kind}.")
        elif network.tensors:
            if not _is_vector(kind) and not _is_floats(kind):
                raise CallError(
                    f"the column of {self.function} must be the tensor of a layer, a Spark ML vector or an array of "
                    f"float or double, got {kind}."
                )
        elif not _is_image(kind) and not _is_floats(kind) and not (_is_list(kind) and _is_image(kind.value_type)):
            raise CallError(
                f"the column of {self.function} must be an image: binary (encoded bytes), string (path), Spark's "
                "image struct, or an array of float or double (a preprocessed tensor), or an array of one of the first "
                f"three for several images; got {kind}."
            )


def _is_string(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string))


def _is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list))


def _is_image(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return {field.name for field in kind} >= set(IMAGE_FIELDS)
    return _is_string(kind) or any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary))


def _is_floats(kind: pa.DataType) -> bool:
    if not _is_list(kind):
        return False
    while _is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_floating(kind))


def _is_vector(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"type", "size", "indices", "values"}
