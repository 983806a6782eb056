"""Refuse to start where a user's own file hides one of our packages: ``optimizer`` and ``udfs`` are common names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["check_packages"]


def check_packages() -> None:
    """Check that Python finds ``optimizer`` beside this package.

    Raises
    ------
    ImportError
        Another file or folder comes first on Python's path; the message names it.
    """
    ours = Path(__file__).parents[1] / "optimizer"
    spec = find_spec("optimizer")
    if spec is None or spec.origin is None or Path(spec.origin).parent != ours:
        folders = list(spec.submodule_search_locations or ()) if spec else []
        where = (spec and spec.origin) or ", ".join(folders) or "nowhere"
        raise ImportError(
            f"cerebro-spark's package 'optimizer' is hidden: Python finds 'optimizer' at {where}. "
            "Rename that file or folder, or start Python elsewhere"
        )
