"""Limits of the process that imports an uploaded script."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScriptLimits"]


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """Limits of the process that imports an uploaded script.

    Parameters
    ----------
    seconds : float
        Time of the import. Default 10.
    memory_bytes : int
        Memory that the process may allocate. Default 2 GiB.
    output_bytes : int
        Length of its printed output. Default 1 MiB.
    text_bytes : int
        Length of the script. Default 1 MiB.
    """

    seconds: float = 10.0
    memory_bytes: int = 2 << 30
    output_bytes: int = 1 << 20
    text_bytes: int = 1 << 20
