"""The same contract through Spark Connect, in a process of its own: one process is either classic or Connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from sessions import CONNECT, pytest_on_connect
from stages import STAGES

_COSTLY = "fresh_process or cross_validator"
# A transformer in the core suite, an estimator in the extended one; the others share their base with these.
_LANES = {"CNNFeaturizer": (), "MLPClassifier": (pytest.mark.extended,)}

pytestmark = [
    pytest.mark.connect,
    pytest.mark.contract,
    pytest.mark.skipif(CONNECT, reason="this is the Connect run already"),
]


@pytest.mark.parametrize("stage", [pytest.param(name, marks=_LANES.get(name, (pytest.mark.slow,))) for name in STAGES])
def test_the_contract_holds_on_spark_connect(stage: str, pytestconfig: pytest.Config) -> None:
    suite = Path(__file__).with_name("test_stages.py")
    assert " passed" in pytest_on_connect(suite, f"[{stage} and not ({_COSTLY})", pytestconfig.inipath)


@pytest.mark.slow
def test_a_fresh_process_and_a_cross_validator_on_spark_connect(pytestconfig: pytest.Config) -> None:
    suite = Path(__file__).with_name("test_stages.py")
    assert "2 passed" in pytest_on_connect(suite, f"[CNNFeaturizer and ({_COSTLY})", pytestconfig.inipath)
