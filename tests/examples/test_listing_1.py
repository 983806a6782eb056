"""The paper's first program runs with today's names."""

from __future__ import annotations

import subprocess
import sys

import pytest
from places import ROOT
from real_inputs import adult_path

pytestmark = pytest.mark.extended


def test_listing_1_finds_its_best_model() -> None:
    pytest.importorskip("keras")
    adult_path()  # skips where the package is not installed
    command = [sys.executable, str(ROOT / "examples" / "listing_1.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "val_loss 0." in done.stdout
    assert "prediction" in done.stdout
