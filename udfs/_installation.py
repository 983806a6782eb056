"""Refuse to start without Spark, or where a user's own file hides ``optimizer`` or ``udfs``: these names are common."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["check_packages", "check_pyspark"]


def check_packages() -> None:
    """Check that Python finds ``optimizer`` beside this package.

    Raises
    ------
    ImportError
        Another file or folder comes first on Python's path, which the message names.
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


def check_pyspark() -> None:
    """Check that pyspark is installed, without importing it.

    Raises
    ------
    ImportError
        There is no pyspark; the message has the remedy.
    """
    if find_spec("pyspark") is None:
        raise ImportError(
            "cerebro-spark needs pyspark 4, which is not installed here: pip install 'cerebro-spark[spark]'. "
            "Where a cluster brings its own, start Python through its spark-submit, or put its python/ folder and "
            "python/lib/py4j-*-src.zip on PYTHONPATH"
        )
