"""Every Spark ML stage of the project holds the contract. ``SPARK_REMOTE=local[2]`` tests the same through Connect."""

from __future__ import annotations

import pytest
from sessions import PREPARATION
from stages import SPECIALIZED_CLASSIFIER, STAGES

from udfs.testing import StageContract

# These share their code with a stage of the core suite, or have their own tests there.
_ALIKE = (
    *("Cascade", "EnsembleModel", "GroupedModel", "MLPRegressor", "NetworkEstimator", "OcclusionExplainer"),
    *("SpecializedModel", "TextFeaturizer", "TunedModel"),
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


@pytest.mark.contract
class TestSpecializedClassifier:
    """Params of an estimator whose model is among the stages above."""

    stages = (SPECIALIZED_CLASSIFIER,)
    pytest_generate_tests = StageContract.pytest_generate_tests
    test_defaults = StageContract.test_defaults
    test_every_param_has_a_getter_and_a_setter = StageContract.test_every_param_has_a_getter_and_a_setter
    test_constructor_and_set_params_take_every_param = StageContract.test_constructor_and_set_params_take_every_param
    test_bad_values_are_refused_when_they_are_set = StageContract.test_bad_values_are_refused_when_they_are_set
    test_params_explain_themselves = StageContract.test_params_explain_themselves
