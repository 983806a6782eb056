"""Inputs of networks as expressions, which are read like stored layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.adaptation._errors import FeatureError
from udfs.handlers import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from udfs.adaptation._trunk import TrunkModel
    from udfs.shards import PreparedData

__all__ = ["column_names", "input_expressions", "input_specs"]


def input_specs(data: PreparedData) -> list[TensorSpec]:
    """Describe what the columns of the data hold, one for each input of a network."""
    return [TensorSpec(group.shape, group.dtype) for group in data.inputs]


def column_names(data: PreparedData) -> list[str]:
    """Name the columns that each input of a network is read from."""
    return [",".join(column.name for column in group.columns) for group in data.inputs]


def input_expressions(models: Iterable[TrunkModel], data: PreparedData) -> dict[str, int]:
    """Number the inputs of the data that models read, by the expressions of the graphs' input layers.

    The n-th input layer of a model reads the n-th input of the data; raise FeatureError if a model has other inputs.
    """
    numbers: dict[str, int] = {}
    for model in models:
        graph = model.graph
        if len(graph.inputs) > len(data.inputs):
            raise FeatureError(
                f"a model must read the inputs {', '.join(group.name for group in data.inputs)} of the data, got "
                f"{', '.join(graph.inputs)}"
            )
        for number, name in enumerate(graph.inputs):
            numbers.setdefault(graph.expression(name), number)
    return numbers
