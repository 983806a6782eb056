"""The examples that draw heat maps run, as the documentation names them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT
from real_inputs import mobilenet_v2_weights

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("example", [pytest.param("heat_map_modes", marks=pytest.mark.slow), "heat_maps"])
def test_an_example_draws_its_picture(example: str, tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    mobilenet_v2_weights()  # skips where the package is not installed
    out = tmp_path / "out.jpg"
    command = [sys.executable, str(ROOT / "examples" / f"{example}.py"), "--stride", "16", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes().startswith(b"\xff\xd8")
    assert "RANDOM" not in done.stdout
    assert ("estimated likeness (SSIM)" in done.stdout or "all 196 places" in done.stdout) == (example[-5:] == "modes")
