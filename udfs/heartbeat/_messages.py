"""The beat and its replies, and the word that no more beats come."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.heartbeat._printed import Printed  # noqa: TC001 - messages are read by their type hints
from udfs.rpc import Request

__all__ = ["Abort", "Acknowledged", "Beat", "Ended"]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The driver has taken note."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The worker's process is ended at once: the driver gave up on what it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Request[Acknowledged | Abort]):
    """The worker's process lives, and is not stopped.

    Parameters
    ----------
    worker, attempt : str
    """

    worker: str
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Request[Acknowledged]):
    """The worker's process is dead, or done with the run: it beats no more.

    Parameters
    ----------
    worker, attempt : str
    printed : Printed or None
        By the unit that it was in when it died.
    """

    worker: str
    attempt: str
    printed: Printed | None
