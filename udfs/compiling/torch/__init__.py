"""Tensor modules of torch, one for each operator. Importing this imports torch."""

from udfs.compiling.torch._engine import Engine
from udfs.compiling.torch._program import ProgramModule
from udfs.compiling.torch._threads import torch_threads

__all__ = ["Engine", "ProgramModule", "torch_threads"]
