"""Small network in double precision, to compare ways of training up to rounding."""

from __future__ import annotations

import sys
from typing import Any

import torch
from pyspark import cloudpickle

__all__ = ["DoubleNetwork"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this folder


class DoubleNetwork(torch.nn.Module):
    """A perceptron of four inputs and two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double()

    def forward(self, rows: Any) -> Any:
        return self.net(rows.double())
