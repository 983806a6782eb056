"""A hash of all that a layer computes: the expression of Nautilus, definitions 4.1 and 4.3."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

from optimizer.graph._layer import INPUT, Layer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["expressions", "pinned"]


def pinned(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Fingerprint by name the graph inputs that differ in nothing but their names.

    Inputs hash by shape and dtype, so that two models of the same kind of record compare whatever they call it. Two
    equal inputs of one graph (a siamese network) would make their towers identical although they read different data.
    The fingerprint stays with a layer that moves to another graph, so its expression survives pruning and merging.
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

    The layers are in topological order. A hash has 64 hexadecimal digits (SHA-256), the same in every process. Names,
    costs and ``frozen`` are left out: they do not change the value.
    """
    hashes: dict[str, str] = {}
    for layer in pinned(layers):
        window = None if layer.window is None else astuple(layer.window)
        sources = [hashes[name] for name in layer.inputs]
        parts = [layer.op, layer.output_shape, layer.dtype, layer.fingerprint, window, sources]
        hashes[layer.name] = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return hashes
