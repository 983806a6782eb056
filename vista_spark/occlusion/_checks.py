"""Checks of a model, a network and a colour before anything is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.handlers import framework
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection

    from optimizer.graph import LayerGraph
    from vista_spark.roster import ModelCard

__all__ = ["check_color", "check_explainable", "check_network"]


def check_explainable(card: ModelCard, modes: Collection[str]) -> None:
    """Raise ``InvalidArgumentError`` unless a model of the roster is a network for images that runs in these modes."""
    if card.kind != "image":
        raise InvalidArgumentError(f"model {card.name!r} reads {card.kind}s: explanations are for images")
    if set(modes) - {"naive"} and not framework(card.framework).incremental:
        raise InvalidArgumentError(
            f'model {card.name!r} is a {card.framework} network, which is not run incrementally: mode="naive" runs the '
            "whole network for each place"
        )


def check_network(graph: LayerGraph, mode: str) -> None:
    """Raise ``InvalidArgumentError`` for a network of several outputs, or without a layer to compute in parts."""
    if len(graph.outputs) != 1:
        raise InvalidArgumentError(f"a network that gives {', '.join(graph.outputs)}: an explanation is of one output")
    if mode != "naive" and not any(layer.window is not None for layer in graph):
        raise InvalidArgumentError(
            'a network without a convolution or pooling has nothing to compute in parts: take mode="naive"'
        )


def check_color(color: tuple[int, ...], name: str) -> None:
    """Raise ``InvalidArgumentError`` unless these are red, green and blue."""
    if len(color) != 3 or not all(0 <= value <= 255 for value in color):  # noqa: PLR2004 - RGB, 8 bits
        raise InvalidArgumentError(f"{name}={color!r}: three numbers from 0 to 255")
