"""Folders of the project, independent of the folder of a test."""

from pathlib import Path

__all__ = ["EXAMPLES", "IMPORTS", "ROOT", "SUPPORT"]

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
EXAMPLES = ROOT / "examples"
IMPORTS = [str(ROOT), str(SUPPORT)]
"""For the ``sys.path`` of a test's own process."""
