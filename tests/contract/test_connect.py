"""The same contract through Spark Connect, in a process of its own: one process is either classic or Connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from sessions import CONNECT, pytest_on_connect
from stages import STAGES

# The stages share their base with the first; their Connect runs are for the extended lane, without what takes longest.
_FIRST = "CNNFeaturizer"
_LONGEST = "not fresh_process and not cross_validator"


@pytest.mark.connect
@pytest.mark.contract
@pytest.mark.skipif(CONNECT, reason="this is the Connect run already")
@pytest.mark.parametrize(
    "stage", [pytest.param(name, marks=() if name == _FIRST else pytest.mark.extended) for name in STAGES]
)
def test_the_contract_holds_on_spark_connect(stage: str, pytestconfig: pytest.Config) -> None:
    suite = Path(__file__).with_name("test_stages.py")
    wanted = f"[{stage}" if stage == _FIRST else f"[{stage} and {_LONGEST}"
    assert " passed" in pytest_on_connect(suite, wanted, pytestconfig.inipath)
