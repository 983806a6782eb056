"""The handler of torch."""

from udfs.handlers.torch._handler import HANDLER, TorchModel

__all__ = ["HANDLER", "TorchModel"]
