"""Optuna's samplers, pruners and studies, by ask and tell; Optuna itself is an optional package."""

from ._follower import study_of
from ._pruner import OptunaPruner
from ._sampler import SAMPLERS, OptunaSampler, ended_trials

__all__ = ["SAMPLERS", "OptunaPruner", "OptunaSampler", "ended_trials", "study_of"]
