"""The handler of keras."""

from udfs.handlers.keras._handler import HANDLER

__all__ = ["HANDLER"]
