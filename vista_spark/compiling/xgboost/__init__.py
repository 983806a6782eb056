"""Parsers of XGBoost's models; importing this registers them. Imports no XGBoost."""

from . import _models
from ._document import ModelDocument

__all__ = ["ModelDocument", "_models"]
