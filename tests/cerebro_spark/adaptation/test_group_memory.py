from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_inputs import minilm

SCRIPT = Path(__file__).parents[2] / "support" / "group_memory.py"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["computed", "stored"])
def test_a_process_takes_what_is_predicted_of_its_group(how: str) -> None:
    """Four taggers over a MiniLM: the measured peak <= the prediction <= 1.3 times the measured peak."""
    minilm()
    code = f"import sys, runpy; sys.path[:0] = {sys.path!r}; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["measured"] <= found["predicted"] <= 1.3 * found["measured"], found
