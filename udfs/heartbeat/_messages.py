"""Messages between a heartbeat and the driver."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.heartbeat._printed_output import Printed  # noqa: TC001 - messages are read by their type hints
from udfs.rpc import Request

__all__ = ["Abort", "Acknowledged", "Beat", "Ended"]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Reply of the driver: the message was received."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Reply of the driver: kill the worker's process now, because the driver has given up its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Request[Acknowledged | Abort]):
    """Heartbeat: the worker's process is alive and not stopped."""

    worker: str
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Request[Acknowledged]):
    """Last message of a heartbeat: the worker's process is dead, or has finished the run."""

    worker: str
    attempt: str
    printed: Printed | None  # output of the unit that was running when the process died
