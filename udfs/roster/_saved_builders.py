"""Builders that a saved stage names instead of holding a copy of the network."""

from __future__ import annotations

from udfs.roster._builtin import TorchBuilder
from udfs.roster._keras_builtin import KerasBuilder
from udfs.roster._text_builtin import BertShape

__all__ = ["SAVED_BUILDERS"]

SAVED_BUILDERS: dict[str, type[TorchBuilder | KerasBuilder | BertShape]] = {
    "vista_spark.roster._builtin._Builder": TorchBuilder,
    "vista_spark.roster._keras_builtin._Builder": KerasBuilder,
    "vista_spark.roster._text_builtin.BertShape": BertShape,
}
"""Classes by the names that saved stages have. The names are part of the format: they outlive a move of a class."""
