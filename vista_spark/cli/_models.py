"""``vista models``: the roster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from udfs.cli import Json, print_json, print_table
from vista_spark import roster

if TYPE_CHECKING:
    from vista_spark.roster import ModelCard

__all__ = ["models_command"]


def models_command(as_json: Json = False) -> None:
    """List the models, and their layers counted from the top."""
    if as_json:
        cards = [roster.card(name) for name in roster.names()]
        print_json({"models": [_facts(card) for card in cards]})
        return
    table = Table("model", "input", "parameters", "layers, from the top")
    for name in roster.names():
        card = roster.card(name)
        layers = ", ".join(f"{number} {layer.name}" for number, layer in enumerate(reversed(card.layers), 1))
        table.add_row(name, card.preprocessing.size, f"{card.parameters:,}", layers)
    print_table(table, wrapped=True)


def _facts(card: ModelCard) -> dict[str, Any]:
    layers = [layer.name for layer in reversed(card.layers)]
    return {"name": card.name, "input": str(card.preprocessing.size), "parameters": card.parameters, "layers": layers}
