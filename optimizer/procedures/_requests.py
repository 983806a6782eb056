"""Requests of the user during a search: told to the procedure as results are, so that they are in its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.procedures._decisions import Source

__all__ = ["Added", "Stopped", "UserRequest"]


@dataclass(frozen=True, slots=True)
class Added:
    """The user adds a configuration. The procedure starts it, and decides nothing else about it: it is a guest.

    Stoppers and limits hold for guests as well, and the best of all may be one.

    Parameters
    ----------
    params : mapping
        Plain data.
    epochs : int
        To train; it ends after them.
    source : Source, optional
        Finished epoch of the trial that it is cloned from.
    """

    params: Mapping[str, Any]
    epochs: int
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The user ends a configuration; its finished epochs count.

    Parameters
    ----------
    trial_id : str
    reason : str
    """

    trial_id: str
    reason: str = "stopped by the user"


UserRequest = Added | Stopped
