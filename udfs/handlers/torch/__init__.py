"""The framework torch."""

from udfs.handlers.torch._archive import load_program
from udfs.handlers.torch._extraction import Extraction
from udfs.handlers.torch._fingerprint import describe_module, describe_value
from udfs.handlers.torch._framework import FRAMEWORK
from udfs.handlers.torch._fx import exported, trace_fx
from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._lower import Mean
from udfs.handlers.torch._model import TorchModel
from udfs.handlers.torch._modes import set_training
from udfs.handlers.torch._process_random import generator_states, same_states, seed_generators
from udfs.handlers.torch._row_gradients import last_layer, learning_rate, row_gradients
from udfs.handlers.torch._session import TorchSession, listed

__all__ = [
    "FRAMEWORK",
    "Extraction",
    "Mean",
    "TorchModel",
    "TorchSession",
    "describe_module",
    "describe_value",
    "exported",
    "generator_states",
    "has_hooks",
    "last_layer",
    "learning_rate",
    "listed",
    "load_program",
    "row_gradients",
    "same_states",
    "seed_generators",
    "set_training",
    "trace_fx",
]
