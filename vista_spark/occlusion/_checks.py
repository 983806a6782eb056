"""Checks of a model, a network and a colour before anything is explained."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.occlusion import PatchError
from udfs.handlers import TensorSpec, UntraceableModelError, framework
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._validation import read_integers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph
    from udfs.handlers import Framework
    from vista_spark.roster import ModelCard

__all__ = ["check_color", "check_explainable", "check_incremental", "has_parts", "one_record"]


def check_explainable(card: ModelCard, modes: Collection[str]) -> None:
    """Raise ``InvalidArgumentError`` unless a model of the roster reads images and runs in these modes."""
    if card.kind != "image":
        raise InvalidArgumentError(f"model must be a network for images, got {card.name!r}, which reads {card.kind}s")
    if "approximate" in modes:
        check_incremental(framework(card.framework))


def check_incremental(network_framework: Framework) -> None:
    """Raise ``InvalidArgumentError`` unless a framework computes parts of tensors, as the approximate mode does."""
    if not network_framework.incremental:
        raise InvalidArgumentError(
            f'mode must be "exact" or "naive" for a {network_framework.name} network, got "approximate", which '
            "computes parts of tensors"
        )


def has_parts(graph: LayerGraph) -> bool:
    """Return whether a network has a convolution or pooling, so that there is something to compute in parts."""
    return any(layer.window is not None for layer in graph)


def check_color(color: tuple[int, ...], name: str) -> None:
    """Raise ``InvalidArgumentError`` unless a color is red, green and blue from 0 to 255."""
    numbers = read_integers(name, color)
    if len(numbers) != 3 or not all(0 <= value <= 255 for value in numbers):
        raise InvalidArgumentError(f"{name} must be three integers from 0 to 255, got {color!r}")


@contextmanager
def one_record(network_framework: Framework, network: Any, arrays: Sequence[NDArray[Any]]) -> Iterator[None]:
    """Replace a failure by one that names the axis of records, where the network runs only without that axis.

    The first axis of a grey volume has one element as well, so its extent alone proves nothing.
    """
    try:
        yield
    except (PatchError, InvalidArgumentError, UntraceableModelError) as error:
        records = {len(array) if array.ndim > 1 else 0 for array in arrays}
        if len(records) > 1 or 0 in records or _runs(network_framework, network, arrays):
            raise
        if not _runs(network_framework, network, [array[0] for array in arrays]):
            raise
        first = "inputs[0]" if len(arrays) == 1 else "[each[0] for each in inputs]"
        raise InvalidArgumentError(
            f"inputs must be one record, got shape {', '.join(str(array.shape) for array in arrays)}, whose first axis "
            f"is one of records; pass {first}"
        ) from error


def _runs(network_framework: Framework, network: Any, arrays: Sequence[NDArray[Any]]) -> bool:
    specs = [TensorSpec(array.shape, str(array.dtype)) for array in arrays]
    try:
        _ = network_framework.trace(network, specs).graph  # measures the layers
    except UntraceableModelError:
        return False
    return True
