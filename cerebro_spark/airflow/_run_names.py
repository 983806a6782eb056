"""Names of runs for tasks of a scheduler."""

from __future__ import annotations

import hashlib
import re

__all__ = ["run_name"]

_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 128
_DIGEST = 8


def run_name(*parts: str) -> str:
    """Name the run of a task: the same for the same parts, and another one for others.

    Parameters
    ----------
    *parts : str
        What tells the task from others, such as the ids of its DAG, its DAG run and itself.

    Returns
    -------
    str
        Name that a store accepts. Where characters had to be replaced, or the name would be longer than 128
        characters, it ends with a part of a digest.

    Examples
    --------
    >>> run_name("photos", "search")
    'photos.search'
    >>> run_name("photos", "search", "scheduled__2026-11-29T00:00:00+00:00")
    'photos.search.scheduled__2026-11-29T00-00-00-00-00-0789b316'
    """
    exact = ".".join(parts)
    plain = _OTHERS.sub("-", exact).lstrip(".")
    if plain == exact and len(plain) <= _LONGEST:
        return plain
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGEST]
    return f"{plain[: _LONGEST - _DIGEST - 1]}-{digest}"
