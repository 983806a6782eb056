"""Tensor modules of torch, one for each operator. Importing this imports torch."""

from ._engine import Engine
from ._program import ProgramModule

__all__ = ["Engine", "ProgramModule"]
