"""A guard: ``optimizer`` and ``udfs`` are names that a user's own file may have, and Python takes the first."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["check_packages"]


def check_packages() -> None:
    """Raise ``ImportError`` with the name of the file that hides one of our packages, which lie beside this one."""
    beside = Path(__file__).parents[1]
    for package in ("optimizer", "udfs"):
        found = find_spec(package)
        if found is None or found.origin is None or Path(found.origin).parent != beside / package:
            folders = list(found.submodule_search_locations or ()) if found else []
            where = (found and found.origin) or ", ".join(folders) or "nowhere"
            raise ImportError(
                f"cerebro-spark's package {package!r} is hidden: Python finds {package!r} at {where}. "
                "Rename that file or folder, or start Python elsewhere"
            )
