"""Layout of a layer's output: which axes are places of the image, and which are channels."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from udfs.handlers._protocol import TracedModel

__all__ = ["LAYOUTS", "LayerLayout", "layer_layout"]

LAYOUTS = ("channels_first", "channels_last", "tokens", "tokens+1", "vector")
"""Layouts that a user can state; ``tokens+1`` has one class token first, and any other number may follow the plus."""

_TOKENS = re.compile(r"tokens(?:\+(\d+))?")

# Axes of a record that is a sequence of tokens, and of one that is a map of rows and columns.
_SEQUENCE, _MAP = 2, 2


@dataclass(frozen=True, slots=True)
class LayerLayout:
    """Layout of one record of a layer's output.

    Parameters
    ----------
    places : tuple of int
        Axes of the places, without the axis of records; all others are channels. Empty for a vector.
    grid : pair of int, optional
        Rows and columns of the places that one axis has row by row. ``None`` if they form no grid.
    leading, trailing : int
        Tokens of that one axis before and after those of the places: class tokens, registers, prompts.
    keeps_order : bool
        Whether a vector of all numbers has them in the order of the layer's tensor. Default true; otherwise channel by
        channel.

    Examples
    --------
    >>> LayerLayout.stated("channels_last", (7, 7, 768)).describe((7, 7, 768))
    'map of 7 x 7 places, channels last'
    """

    places: tuple[int, ...] = ()
    grid: tuple[int, int] | None = None
    leading: int = 0
    trailing: int = 0
    keeps_order: bool = True

    @classmethod
    def stated(cls, text: str, shape: tuple[int, ...]) -> LayerLayout:
        """Return the layout that a user states for a layer.

        Parameters
        ----------
        text : str
            One of :data:`LAYOUTS`.
        shape : tuple of int
            Shape of one record of the layer's output.

        Raises
        ------
        InvalidArgumentError
            There is no such layout, or the output has too few axes or tokens for it.
        """
        tokens = _TOKENS.fullmatch(text)
        if text not in LAYOUTS and tokens is None:
            raise InvalidArgumentError(f"layout must be one of {', '.join(LAYOUTS)}, got {text!r}.")
        if text == "vector":
            return cls()
        if len(shape) < _SEQUENCE or (tokens is not None and len(shape) != _SEQUENCE):
            raise InvalidArgumentError(
                f"layout must be possible for an output of shape {shape}, got {text!r}. State another layout, such as "
                f"{'vector' if len(shape) < _SEQUENCE else 'channels_last'!r}"
            )
        if tokens is None:
            return cls(tuple(range(1, len(shape))) if text == "channels_first" else tuple(range(len(shape) - 1)))
        leading = int(tokens[1] or 0)
        if leading >= shape[0]:
            raise InvalidArgumentError(
                f"layout must leave at least one token, got {text!r} for an output of shape {shape}. State a smaller "
                "number of class tokens"
            )
        side = math.isqrt(shape[0] - leading)
        return cls((0,), (side, side) if side * side == shape[0] - leading else None, leading)

    @property
    def has_grid(self) -> bool:
        """True if the places form rows and columns."""
        return len(self.places) == _MAP or self.grid is not None

    def describe(self, shape: tuple[int, ...]) -> str:
        """Describe the layout of a layer whose output has a shape per record."""
        if not self.places:
            return f"vector of {math.prod(shape)}"
        extents = [shape[axis] for axis in self.places]
        channels = "first" if self.places[-1] == len(shape) - 1 and 0 not in self.places else "last"
        if len(self.places) > 1 or (self.grid is None and channels == "first"):
            return f"map of {' x '.join(map(str, extents))} places, channels {channels}"
        count = extents[0] - self.leading - self.trailing
        rows = "" if self.grid is None else f" ({self.grid[0]} x {self.grid[1]})"
        others = self.leading + self.trailing
        text = f"{count} tokens{rows}"
        if channels == "first":
            text += ", channels first"
        return (
            f"{text} and {others} class or other token{'s' * (others > 1)}, which pooling leaves out" * bool(others)
            or text
        )


def layer_layout(traced: TracedModel, layer: str, *, channels_last: bool) -> LayerLayout | None:
    """Find the layout of a layer of an opened network, whose input is an image.

    Parameters
    ----------
    traced : TracedModel
        Opened network. If it has a method ``layout(layer)``, that decides.
    layer : str
        Name of the graph's layer.
    channels_last : bool
        Position of the channels in feature maps where the network does not tell its layouts.

    Returns
    -------
    LayerLayout or None
        Layout of the layer's output; ``None`` if it is ambiguous.
    """
    find = getattr(traced, "layout", None)
    if callable(find):
        layout: LayerLayout | None = find(layer)
        return layout
    if len(traced.graph[layer].output_shape) != _MAP + 1:
        return LayerLayout()
    return LayerLayout((0, 1) if channels_last else (1, 2), keeps_order=not channels_last)
