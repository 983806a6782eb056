"""Parsers of LightGBM's models; importing this registers them. Imports no LightGBM."""

from . import _models
from ._text import ModelText

__all__ = ["ModelText", "_models"]
