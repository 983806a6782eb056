"""Ensembles of the configurations of a search, and of snapshots of their earlier epochs."""

from cerebro_spark.ensembles._build import EnsembleSettings, build_ensemble
from cerebro_spark.ensembles._model import EnsembleModel, MemberRecord

__all__ = ["EnsembleModel", "EnsembleSettings", "MemberRecord", "build_ensemble"]
