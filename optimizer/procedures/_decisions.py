"""Decisions: what a procedure wants done with its configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Continue", "Decision", "Pause", "Source", "Start", "Stop"]


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of a cloned configuration: another one, after one of its epochs.

    When the decision is made, it is the last epoch of that trial that the procedure was told of. The trial itself may
    go on meanwhile, so its state has to be kept until the clone has one of its own.

    Parameters
    ----------
    trial_id : str
    epoch : int
        Finished epoch of that trial, counted from 1 in that trial's own epochs.
    """

    trial_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Start:
    """Train a new configuration.

    Parameters
    ----------
    trial_id : str
        ``c000``, ``c001``, ... in the order of starts.
    params : mapping
        The configuration, as plain data.
    epochs : int
        Epochs to train before the procedure decides again.
    source : Source or None
        Where weights and optimizer state come from; None for new ones.
    reason : str
    """

    trial_id: str
    params: Mapping[str, Any]
    epochs: int
    source: Source | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continue:
    """Train a configuration that waits, or is paused, for more epochs from its last finished one.

    Parameters
    ----------
    trial_id : str
    epochs : int
        Epochs beyond those that it was granted before.
    reason : str
    """

    trial_id: str
    epochs: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Keep the last finished epoch of a configuration and train it no further for now; it may be continued.

    Parameters
    ----------
    trial_id : str
    reason : str
    """

    trial_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a configuration; an epoch that it has not finished is given up.

    Parameters
    ----------
    trial_id : str
    reason : str
    """

    trial_id: str
    reason: str


Decision = Start | Continue | Pause | Stop
