"""A layer graph as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.graph._layer import Layer

__all__ = ["explain"]

_HEADER = ("layer", "op", "inputs", "shape", "FLOPs", "params", "activations")
_TEXT_COLUMNS = 4


def explain(layers: Sequence[Layer], outputs: Sequence[str]) -> str:
    """Tabulate a graph: one line per layer in topological order, then the totals. See ``LayerGraph.explain``."""
    rows = [
        (
            f"{layer.name}{'' if layer.frozen else ' *'}",
            layer.op,
            ", ".join(layer.inputs),
            "x".join(map(str, layer.output_shape)) or "scalar",
            _quantity(layer.flops, 1000, ""),
            _quantity(layer.param_bytes, 1024, "B"),
            _quantity(layer.activation_bytes, 1024, "B"),
        )
        for layer in layers
    ]
    totals = (
        f"{len(layers)} layers",
        "",
        "",
        "",
        _quantity(sum(layer.flops for layer in layers), 1000, ""),
        _quantity(sum(layer.param_bytes for layer in layers), 1024, "B"),
        _quantity(sum(layer.activation_bytes for layer in layers), 1024, "B"),
    )
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, totals, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [_line(_HEADER, widths), rule, *(_line(row, widths) for row in rows), rule, _line(totals, widths)]
    notes = [f"outputs: {', '.join(outputs)}", "per record; a multiply-add is 2 FLOPs"]
    if not all(layer.frozen for layer in layers):
        notes.append("* trainable")
    return "\n".join([*lines, "; ".join(notes)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.ljust(width) if i < _TEXT_COLUMNS else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _quantity(value: float, step: int, unit: str) -> str:
    prefixes = ["", *("KMGTPE" if step == 1000 else ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))]
    i = 0
    while value >= step and i < len(prefixes) - 1:
        value /= step
        i += 1
    suffix = prefixes[i] + unit
    return f"{value:.0f} {suffix}".rstrip() if i == 0 else f"{value:.1f} {suffix}"
