"""Requests of the user during a search, which are part of the procedure's log like results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.procedures._decisions import Source

__all__ = ["Added", "Extended", "Origin", "Stopped", "UserRequest"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Command that a request comes from, by which the request is carried out once.

    Parameters
    ----------
    command : str
        Id of the command, which no other command of any user has.
    user : str
        Name of the user that gave it.
    at : str
        Time at which it was given, in ISO 8601.
    """

    command: str
    user: str
    at: str


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
    origin : Origin, optional
        Command of the request; None for a call of a program.
    """

    params: Mapping[str, Any]
    epochs: int
    source: Source | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Request to end a configuration; its finished epochs count."""

    trial_id: str
    reason: str = "stopped by the user"
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Extended:
    """Request to train a configuration for more epochs, after those that the procedure grants it.

    A configuration that has ended continues at once. Neither the procedure nor its stoppers decide about these epochs;
    limits apply.

    Parameters
    ----------
    trial_id : str
        Id of the configuration; it may have ended, but must not have failed or diverged.
    epochs : int
        Number of additional epochs.
    origin : Origin, optional
        Command of the request; None for a call of a program.
    """

    trial_id: str
    epochs: int
    origin: Origin | None = None


UserRequest = Added | Stopped | Extended
