"""Every Spark ML stage of the project holds the contract. ``SPARK_REMOTE=local[2]`` tests the same through Connect."""

from __future__ import annotations

import pytest
from sessions import PREPARATION
from stages import STAGES

from udfs.testing import StageContract

# These share their code with a stage of the core suite, or have their own tests there.
_ALIKE = (
    *("Cascade", "EnsembleModel", "GroupedModel", "MLPRegressor", "NetworkEstimator", "OcclusionExplainer"),
    *("TextFeaturizer", "TunedModel"),
)


@pytest.mark.contract
class TestStages(StageContract):
    stages = tuple(stage for name, stage in STAGES.items() if name not in _ALIKE)
    preparation = PREPARATION


@pytest.mark.contract
@pytest.mark.slow
class TestAlikeStages(StageContract):
    stages = tuple(stage for name, stage in STAGES.items() if name in _ALIKE)
    preparation = PREPARATION
