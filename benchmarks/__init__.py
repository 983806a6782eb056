"""Benchmarks: one package per system, run as ``python -m benchmarks.SYSTEM.NAME`` from the root of the project."""

import sys
from pathlib import Path

# The programs of the examples, which are no package, read the data sets.
sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
