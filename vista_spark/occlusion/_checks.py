"""Checks of a model, a network and a colour before anything is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.handlers import framework
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._arguments import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Collection

    from optimizer.graph import LayerGraph
    from vista_spark.roster import ModelCard

__all__ = ["check_color", "check_explainable", "check_network"]


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
    if len(numbers) != 3 or not all(0 <= value <= 255 for value in numbers):  # noqa: PLR2004 - RGB, 8 bits
        raise InvalidArgumentError(f"{name}={color!r}: three numbers from 0 to 255")
