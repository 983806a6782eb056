"""Tensor modules of torch, one for each operator. Importing this imports torch."""

from ._calibrate import machine_costs
from ._engine import Engine
from ._program import ProgramModule
from ._threads import torch_threads

__all__ = ["Engine", "ProgramModule", "machine_costs", "torch_threads"]
