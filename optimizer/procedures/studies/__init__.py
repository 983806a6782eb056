"""Optuna's samplers, pruners and studies, by ask and tell; Optuna itself is an optional package."""

from ._pruner import OptunaPruner
from ._sampler import SAMPLERS, OptunaSampler

__all__ = ["SAMPLERS", "OptunaPruner", "OptunaSampler"]
