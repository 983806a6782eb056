"""Commands of users, as calls of a running search."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from optimizer.errors import CerebroError
from optimizer.procedures import Origin, read_params
from optimizer.steering import (
    Add,
    Clone,
    End,
    Extend,
    Pause,
    Prioritise,
    Resume,
    Stop,
    command_trial,
    read_command,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.steering import Command

__all__ = ["Steered", "outcome_of"]

_LOG = logging.getLogger(__name__)


class Steered(Protocol):
    """Search that carries out commands, each of them once by the id of its origin."""

    def add(self, params: Mapping[str, Any], *, epochs: int | None, origin: Origin | None) -> str:
        """Add a configuration, and return its id."""

    def clone(
        self,
        trial_id: str,
        /,
        params: Mapping[str, Any] | None,
        *,
        epoch: int | None,
        epochs: int | None,
        origin: Origin | None,
    ) -> str:
        """Clone a configuration, and return the id of the clone."""

    def extend(self, trial_id: str, epochs: int, *, origin: Origin | None) -> None:
        """Train a configuration for more epochs."""

    def stop(self, trial_id: str, *, origin: Origin | None) -> None:
        """Stop a configuration."""

    def pause(self, trial_id: str) -> None:
        """Pause a configuration."""

    def resume(self, trial_id: str) -> None:
        """Resume a configuration."""

    def prioritise(self, trial_id: str) -> None:
        """Train a configuration before others."""

    def end(self, *, origin: Origin | None) -> None:
        """End the search."""


def outcome_of(record: Mapping[str, Any], search: Steered) -> dict[str, str]:
    """Carry out a command of a server, and return the outcome to report."""
    try:
        command = read_command(record.get("command"))
        trial = _carry_out(command, _origin(record), search)
    except CerebroError as error:
        return {"state": "refused", "message": str(error), "trial": ""}
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a command, the search goes on
        _LOG.exception("command %s failed", record.get("id"))
        return {"state": "refused", "message": f"{type(error).__name__}: {error}", "trial": ""}
    return {"state": "applied", "message": "", "trial": trial}


def _carry_out(command: Command, origin: Origin, search: Steered) -> str:
    """Return the id of the configuration that was added, or that the command is about."""
    match command:
        case Add(params, epochs):
            return search.add(read_params(params), epochs=epochs, origin=origin)
        case Clone(trial_id, params, epoch, epochs):
            return search.clone(trial_id, read_params(params), epoch=epoch, epochs=epochs, origin=origin)
        case Extend(trial_id, epochs):
            search.extend(trial_id, epochs, origin=origin)
        case Stop(trial_id):
            search.stop(trial_id, origin=origin)
        case Pause(trial_id):
            search.pause(trial_id)
        case Resume(trial_id):
            search.resume(trial_id)
        case Prioritise(trial_id):
            search.prioritise(trial_id)
        case End():
            search.end(origin=origin)
    return command_trial(command) or ""


def _origin(record: Mapping[str, Any]) -> Origin:
    created = record.get("created", "")
    at = datetime.fromtimestamp(created, UTC).isoformat() if isinstance(created, (int, float)) else str(created)
    return Origin(str(record["id"]), str(record.get("user") or ""), at)
