"""Where things are: a test that moves to another folder finds them still."""

from pathlib import Path

__all__ = ["BENCHMARKS", "EXAMPLES", "IMPORTS", "ROOT", "SUPPORT"]

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
BENCHMARKS = ROOT / "benchmarks"
EXAMPLES = ROOT / "examples"
IMPORTS = [str(ROOT), str(SUPPORT)]
"""For the ``sys.path`` of a test's own process."""
