"""The framework torch."""

from udfs.handlers.torch._archive import load_program
from udfs.handlers.torch._extraction import Extraction
from udfs.handlers.torch._framework import FRAMEWORK
from udfs.handlers.torch._fx import exported
from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._lower import Mean
from udfs.handlers.torch._model import TorchModel
from udfs.handlers.torch._row_gradients import last_layer, learning_rate, row_gradients

__all__ = [
    "FRAMEWORK",
    "Extraction",
    "Mean",
    "TorchModel",
    "exported",
    "has_hooks",
    "last_layer",
    "learning_rate",
    "load_program",
    "row_gradients",
]
