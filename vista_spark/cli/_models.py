"""``vista models``: the roster."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from vista_spark import roster

__all__ = ["models_command"]


def models_command() -> None:
    """List the models, and their layers counted from the top."""
    table = Table("model", "input", "parameters", "layers, from the top")
    for name in roster.names():
        card = roster.card(name)
        layers = ", ".join(f"{number} {layer.name}" for number, layer in enumerate(reversed(card.layers), 1))
        table.add_row(name, card.preprocessing.size, f"{card.parameters:,}", layers)
    Console().print(table)
