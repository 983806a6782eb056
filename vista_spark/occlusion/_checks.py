"""Checks of a model, a network and a colour before anything is explained."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.occlusion import PatchError
from udfs.handlers import TensorSpec, UntraceableModelError, framework
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._arguments import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph
    from udfs.handlers import Framework
    from vista_spark.roster import ModelCard

__all__ = ["check_color", "check_explainable", "check_network", "one_record"]


def check_explainable(card: ModelCard, modes: Collection[str]) -> None:
    """Raise ``InvalidArgumentError`` unless a model of the roster is a network for images that runs in these modes."""
    if card.kind != "image":
        raise InvalidArgumentError(f"model {card.name!r} reads {card.kind}s: explanations are for images")
    if "approximate" in modes and not framework(card.framework).incremental:
        raise InvalidArgumentError(
            f"model {card.name!r} is a {card.framework} network, which is not run in parts, as the approximate mode "
            'does: take mode="exact"'
        )


def check_network(graph: LayerGraph, mode: str) -> None:
    """Raise ``InvalidArgumentError`` for a network without a layer to compute in parts."""
    if mode != "naive" and not any(layer.window is not None for layer in graph):
        raise InvalidArgumentError(
            'a network without a convolution or pooling has nothing to compute in parts: take mode="naive"'
        )


def check_color(color: tuple[int, ...], name: str) -> None:
    """Raise ``InvalidArgumentError`` unless these are red, green and blue."""
    numbers = whole_numbers(name, color)
    if len(numbers) != 3 or not all(0 <= value <= 255 for value in numbers):  # RGB, 8 bits
        raise InvalidArgumentError(f"{name}={color!r}: three numbers from 0 to 255")


@contextmanager
def one_record(own: Framework, network: Any, arrays: Sequence[NDArray[Any]]) -> Iterator[None]:
    """Name an axis of records as the reason of a failure, where the network runs without it and not with it.

    The first axis of a grey volume has one element, too: its extent alone says nothing.

    Parameters
    ----------
    own : Framework
    network : object
    arrays : sequence of array
        The network's inputs as they were given.
    """
    try:
        yield
    except (PatchError, InvalidArgumentError, UntraceableModelError) as error:
        records = {len(array) if array.ndim > 1 else 0 for array in arrays}
        if len(records) > 1 or 0 in records or _runs(own, network, arrays):
            raise
        if not _runs(own, network, [array[0] for array in arrays]):
            raise
        first = "inputs[0]" if len(arrays) == 1 else "[each[0] for each in inputs]"
        raise InvalidArgumentError(
            f"inputs of shape {', '.join(str(array.shape) for array in arrays)}: the first axis is one of records, and "
            f"one record is explained at a time; pass {first}"
        ) from error


def _runs(own: Framework, network: Any, arrays: Sequence[NDArray[Any]]) -> bool:
    try:
        _ = own.trace(network, [TensorSpec(array.shape, str(array.dtype)) for array in arrays]).graph  # measured now
    except UntraceableModelError:
        return False
    return True
