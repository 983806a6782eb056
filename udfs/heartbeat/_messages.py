"""The beat, and the two replies to it."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.rpc import Request

__all__ = ["Abort", "Acknowledged", "Beat"]


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
