"""A guard: ``optimizer`` and ``udfs`` are names that a user's own file may have, and Python takes the first it finds."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["check_packages"]

_OURS = {"optimizer": "optimizer.errors", "udfs": "udfs.rows"}


def check_packages() -> None:
    """Raise ``ImportError`` with the name of the file that hides one of our packages."""
    for package, module in _OURS.items():
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            other = find_spec(package)
            where = (other.origin or ", ".join(other.submodule_search_locations or ())) if other else "nowhere"
            raise ImportError(
                f"cerebro-spark's package {package!r} is hidden: Python finds {package!r} at {where}. "
                "Rename that file or folder, or start Python elsewhere"
            )
