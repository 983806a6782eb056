"""Requests of the user during a search, which are part of the procedure's log like results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.procedures._decisions import Source

__all__ = ["Added", "Stopped", "UserRequest"]


@dataclass(frozen=True, slots=True)
class Added:
    """Request to add a configuration, which the procedure starts and makes no further decisions about.

    Stoppers and limits apply to added configurations as well, and the best configuration may be one of them.

    Parameters
    ----------
    params : mapping
        Configuration as plain data.
    epochs : int
        Epochs after which the configuration ends.
    source : Source, optional
        Finished epoch of the trial that it is cloned from.
    """

    params: Mapping[str, Any]
    epochs: int
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Request to end a configuration; its finished epochs count."""

    trial_id: str
    reason: str = "stopped by the user"


UserRequest = Added | Stopped
