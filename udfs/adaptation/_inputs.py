"""The inputs of networks as expressions: columns of the data that are read like any stored layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.adaptation._errors import FeatureError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from udfs.adaptation._trunk import TrunkModel
    from udfs.shards import PreparedData

__all__ = ["input_expressions"]


def input_expressions(models: Iterable[TrunkModel], data: PreparedData) -> dict[str, int]:
    """Number the inputs of the data that models read, by the expressions of the graphs' input layers.

    Parameters
    ----------
    models : iterable of TrunkModel
        The n-th input layer of a graph reads the n-th input of the data.
    data : PreparedData

    Raises
    ------
    FeatureError
        A model has other inputs than the data.
    """
    numbers: dict[str, int] = {}
    for model in models:
        graph = model.graph
        if len(graph.inputs) > len(data.inputs):
            raise FeatureError(
                f"a model reads the inputs {', '.join(graph.inputs)}, and the data have "
                f"{', '.join(group.name for group in data.inputs)}"
            )
        for number, name in enumerate(graph.inputs):
            numbers.setdefault(graph.expression(name), number)
    return numbers
