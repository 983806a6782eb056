"""Tensor modules of torch, one for each operator. Importing this imports torch."""

from ._engine import Answer, Engine
from ._program import ProgramModule

__all__ = ["Answer", "Engine", "ProgramModule"]
