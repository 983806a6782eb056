"""Tensor modules of torch, one for each operator. Importing this imports torch."""

from ._engine import Engine
from ._program import ProgramModule
from ._threads import torch_threads

__all__ = ["Engine", "ProgramModule", "torch_threads"]
