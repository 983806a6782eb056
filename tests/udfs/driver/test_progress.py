"""Progress where no terminal is."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from udfs.driver import Progress

with Progress("planning", 2, shown=True) as bar:
    bar.step("first")
    bar.step("second")
print("after")
"""


def test_a_bar_in_a_file_is_one_line_of_its_own() -> None:
    """In a log of Airflow's the next line followed upon the bar."""
    printed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    bar, after = printed.splitlines()
    assert bar.rstrip().endswith("done")
    assert "2/2" in bar
    assert after == "after"
