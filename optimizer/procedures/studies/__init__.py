"""Optuna samplers, pruners and studies through ask and tell; Optuna is an optional package."""

from optimizer.procedures.studies._follower import study_of
from optimizer.procedures.studies._pruner import OptunaPruner
from optimizer.procedures.studies._sampler import SAMPLERS, OptunaSampler, ended_trials

__all__ = ["SAMPLERS", "OptunaPruner", "OptunaSampler", "ended_trials", "study_of"]
