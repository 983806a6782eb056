"""Parsers of CatBoost's models; importing this registers them. Imports no CatBoost."""

from . import _models
from ._document import ModelDocument

__all__ = ["ModelDocument", "_models"]
