"""The same contract through Spark Connect, in a process of its own: one process is either classic or Connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from sessions import CONNECT, pytest_on_connect
from stages import STAGES

# A transformer in the core suite, an estimator in the extended one; the others share their base with these.
_LANES = {"CNNFeaturizer": (), "MLPClassifier": (pytest.mark.extended,)}
_COSTLY = "not fresh_process and not cross_validator"


@pytest.mark.connect
@pytest.mark.contract
@pytest.mark.skipif(CONNECT, reason="this is the Connect run already")
@pytest.mark.parametrize("stage", [pytest.param(name, marks=_LANES.get(name, (pytest.mark.slow,))) for name in STAGES])
def test_the_contract_holds_on_spark_connect(stage: str, pytestconfig: pytest.Config) -> None:
    suite = Path(__file__).with_name("test_stages.py")
    tests = f"[{stage}" if stage == "CNNFeaturizer" else f"[{stage} and {_COSTLY}"
    assert " passed" in pytest_on_connect(suite, tests, pytestconfig.inipath)
