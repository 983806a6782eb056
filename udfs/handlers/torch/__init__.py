"""The framework torch."""

from udfs.handlers.torch._framework import FRAMEWORK
from udfs.handlers.torch._model import TorchModel

__all__ = ["FRAMEWORK", "TorchModel"]
