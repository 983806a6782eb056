"""Decisions of a procedure about its configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Continue", "Decision", "Pause", "Source", "Start", "Stop"]


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of the weights of a configuration: another one, after one of its epochs.

    It is the last epoch that the procedure knows of that trial. The trial may train further meanwhile, so its state is
    kept until the clone has a checkpoint.

    Parameters
    ----------
    epoch : int
        Number of the finished epoch from 1, without the epochs of that trial's ancestors.
    weights_only : bool
        False for a clone, which continues the training of that trial. True for a child, which takes over the weights
        that fit its network and begins training anew: its epochs count from 1, and it has a new optimizer. Default
        False.
    """

    trial_id: str
    epoch: int
    weights_only: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Train a new configuration.

    Parameters
    ----------
    trial_id : str
        Id, ``c000``, ``c001``, ... in the order of starts.
    params : mapping
        Configuration as plain data.
    epochs : int
        Epochs to train before the procedure decides again.
    source : Source or None
        Origin of weights and optimizer state; None for new ones.
    """

    trial_id: str
    params: Mapping[str, Any]
    epochs: int
    source: Source | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continue:
    """Train a waiting or paused configuration for more epochs."""

    trial_id: str
    epochs: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause a configuration after its last finished epoch, from which it can continue."""

    trial_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a configuration; an unfinished epoch is dropped."""

    trial_id: str
    reason: str


Decision = Start | Continue | Pause | Stop
