"""Procedures of model selection by the names of commands and launches."""

from __future__ import annotations

__all__ = ["PROCEDURES"]

PROCEDURES = {
    "grid": "GridSearch",
    "random": "RandomSearch",
    "halving": "SuccessiveHalving",
    "hyperband": "Hyperband",
    "asha": "ASHA",
    "pbt": "PBT",
    "evolution": "AgingEvolution",
}
"""Procedures by name, and the searches of ``cerebro_spark`` that run them."""
