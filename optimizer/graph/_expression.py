"""What a layer computes, as a hash: the expression of Nautilus, definitions 4.1 and 4.3."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

from ._layer import INPUT, Layer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["expressions", "pinned"]


def pinned(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Fingerprint by name those inputs that only their names tell apart.

    Inputs hash by shape and dtype, for two models that take the same kind of record to be comparable whatever they
    call it. Where one graph has several inputs alike (the twins of a siamese network), that would call their towers
    identical although they see different data. A pin stays with a layer that moves to another graph, so that its
    expression survives being pruned or merged.
    """
    layers = tuple(layers)
    alike = Counter(
        (layer.output_shape, layer.dtype) for layer in layers if layer.op == INPUT and not layer.fingerprint
    )
    return tuple(
        replace(layer, fingerprint=f"input:{layer.name}")
        if layer.op == INPUT and not layer.fingerprint and alike[layer.output_shape, layer.dtype] > 1
        else layer
        for layer in layers
    )


def expressions(layers: Iterable[Layer]) -> dict[str, str]:
    """Hash the expression of each layer, by name.

    Parameters
    ----------
    layers : iterable of Layer
        In topological order, all of one graph.

    Returns
    -------
    dict of str to str
        64 hexadecimal digits (SHA-256) a layer, the same in every process. Names, costs and ``frozen`` are left out:
        they say nothing of the value.
    """
    found: dict[str, str] = {}
    for layer in pinned(layers):
        window = None if layer.window is None else astuple(layer.window)
        sources = [found[name] for name in layer.inputs]
        own = [layer.op, layer.output_shape, layer.dtype, layer.fingerprint, window, sources]
        found[layer.name] = hashlib.sha256(json.dumps(own).encode()).hexdigest()
    return found
