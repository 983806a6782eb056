"""The same contract through Spark Connect, in a process of its own: one process is either classic or Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sessions import CONNECT
from stages import STAGES

# The stages share their base with the first; their Connect runs are for the extended lane.
_FIRST = "CNNFeaturizer"


@pytest.mark.connect
@pytest.mark.contract
@pytest.mark.skipif(CONNECT, reason="this is the Connect run already")
@pytest.mark.parametrize(
    "stage", [pytest.param(name, marks=() if name == _FIRST else pytest.mark.extended) for name in STAGES]
)
def test_the_contract_holds_on_spark_connect(stage: str, pytestconfig: pytest.Config) -> None:
    suite = Path(__file__).with_name("test_stages.py")
    options = ["-p", "no:cacheprovider", "-q", "-c", str(pytestconfig.inipath), "-k", f"[{stage}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(suite)],
        env=os.environ | {"SPARK_REMOTE": "local[2]"},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
