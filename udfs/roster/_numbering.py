"""Layers of a network whose card lists none: its top-level blocks, in the order in which they run."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from udfs.roster._card import FeatureLayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.graph import Layer
    from udfs.handlers import TracedModel

__all__ = ["numbered"]

# With fewer modules, or with fewer layers once repeats are left out, users have nothing to choose from: blocks of
# blocks are opened.
_ENOUGH, _ENOUGH_LAYERS = 5, 4

# Numbered modules that make a list of blocks, at least; and of layers, for a convolution, its norm and its activation
# are one layer.
_LIST, _LIST_OF_LAYERS = 3, 6
_NUMBER = re.compile(r"\.([^./]*?)\d+$")
_LIST_SHARE = 0.8

# Bytes of parameters per channel, at most, of a layer that only scales and shifts: a batch norm's four vectors, and
# its count of batches.
_BYTES_PER_CHANNEL = 24

_IMAGE_RANK = 3

# Blocks that a tracer keeps whole.
_BLOCKS = ("EncoderLayer", "DecoderLayer")

# Operations that give the numbers that they read.
_UNCHANGED = ("Dropout", "Identity", "dropout", "alpha_dropout", "feature_dropout", "clone")


def numbered(paths: Sequence[str], traced: TracedModel, *, channels_last: bool) -> tuple[FeatureLayer, ...]:
    """Choose the layers that numbers from the top stand for.

    The modules that no other one contains; if one of them is the only list of blocks, its blocks instead. Where they
    are fewer than five, or fewer than four without repeats, those that contain modules are replaced by them, one level
    at a time. A norm or an activation
    stands for the layer that it follows, as its output is the feature, but not for a block of layers; dropouts,
    identities and flattenings are left out, for they repeat the numbers before them. ``paths`` are
    modules that give one tensor, in the order in which they do; names within a path have dots between them, or slashes.
    """
    known = [path for path in paths if _layer(path, traced) is not None]
    inside: dict[str, list[str]] = {}
    for path in known:
        inside.setdefault(_around(path, set(known)), []).append(path)
    order = {path: place for place, path in enumerate(known)}
    chosen = inside.get("", [])
    while True:
        chosen = sorted(_opened_list(chosen, inside), key=order.__getitem__)
        layers = _without_repeats(chosen, traced, inside, channels_last=channels_last)
        enough = len(chosen) >= _ENOUGH and len(layers) >= _ENOUGH_LAYERS
        if enough or not any(path in inside for path in chosen):
            return tuple(FeatureLayer(path, path) for path in layers)
        chosen = [inner for path in chosen for inner in inside.get(path, [path])]


def _opened_list(chosen: list[str], inside: dict[str, list[str]]) -> list[str]:
    """Replace a list of blocks by its blocks where it is the network's only one, as ``blocks`` in timm's networks.

    Modules around it are replaced by what they contain.
    """
    lists = [path for path in inside if path and _is_list(path, inside)]
    outer = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    of_layers = [path for path in outer if len(inside[path]) >= _LIST_OF_LAYERS]
    blocks = [path for path in outer if any(inner in inside for inner in inside[path])] or of_layers
    if len(blocks) != 1:
        return chosen
    around = [path for path in chosen if f"{blocks[0]}.".startswith(f"{path}.")]
    while around:
        chosen = [inner for path in chosen for inner in (inside[path] if path in around else [path])]
        around = [path for path in chosen if f"{blocks[0]}.".startswith(f"{path}.")]
    return chosen


def _is_list(path: str, inside: dict[str, list[str]]) -> bool:
    """Return whether a module holds three modules or more that are told apart by numbers, as a Sequential does."""
    children = inside.get(path, ())
    numbered = Counter(match[1] for inner in children if (match := _NUMBER.search(inner)))
    most = max(numbered.values(), default=0)
    return most >= _LIST and most >= _LIST_SHARE * len(children)


def _around(path: str, known: set[str]) -> str:
    """Return the nearest module around a path that gives a tensor itself, or an empty string."""
    separator = "/" if "/" in path else "."
    around = path.rpartition(separator)[0]
    while around and around not in known:
        around = around.rpartition(separator)[0]
    return around


def _without_repeats(
    chosen: list[str], traced: TracedModel, inside: dict[str, list[str]], *, channels_last: bool
) -> list[str]:
    layers = {path: _layer(path, traced) for path in chosen}
    dropped: set[str] = set()
    names: set[str] = set()
    for path in chosen:  # two modules may end in one operation: a block in its last layer
        layer = layers[path]
        assert layer is not None  # known paths have one
        if layer.name in names:
            dropped.add(path)
        names.add(layer.name)
    remaining = [path for path in chosen if path not in dropped]
    last = remaining[:1]
    for path in remaining[1:]:
        lower, upper = layers[last[-1]], layers[path]
        assert lower is not None
        assert upper is not None
        if upper.op.startswith(_UNCHANGED):
            continue
        if upper.inputs != (lower.name,):
            last.append(path)
        elif _reshapes(lower, upper):
            continue
        elif (
            last[-1] not in inside
            and not lower.op.endswith(_BLOCKS)
            and _scales(lower, upper, channels_last=channels_last)
        ):
            last[-1] = path
        else:
            last.append(path)
    return last


def _reshapes(lower: Layer, upper: Layer) -> bool:
    same = lower.output_shape == upper.output_shape
    return not same and not upper.param_bytes and math.prod(lower.output_shape) == math.prod(upper.output_shape)


def _scales(lower: Layer, upper: Layer, *, channels_last: bool) -> bool:
    shape = upper.output_shape
    channels = shape[0] if len(shape) == _IMAGE_RANK and not channels_last else shape[-1] if shape else 1
    return lower.output_shape == shape and upper.param_bytes <= _BYTES_PER_CHANNEL * channels


def _layer(path: str, traced: TracedModel) -> Layer | None:
    try:
        return traced.graph[traced.layer(path)]
    except KeyError:
        return None
