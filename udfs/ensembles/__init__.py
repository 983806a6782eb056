"""Ensembles in tasks: predictions of many states over shards, and one pass of several networks over rows."""

from udfs.ensembles._combination import LOG_LOSS, VOTES, Combination
from udfs.ensembles._prediction import EnsemblePrediction, Member
from udfs.ensembles._shard_predictions import CandidateStates, ShardPrediction, ShardPredictions

__all__ = [
    "LOG_LOSS",
    "VOTES",
    "CandidateStates",
    "Combination",
    "EnsemblePrediction",
    "Member",
    "ShardPrediction",
    "ShardPredictions",
]
