"""Messages from the long-lived workers of a session to its driver, about the runs to serve."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.rpc import Request, WireProtocol

__all__ = ["POOL", "AskRuns", "Close", "Noted", "PooledRun", "Runs", "ServiceEnded"]


@dataclass(frozen=True, slots=True)
class PooledRun:
    """A run that a worker is to serve."""

    name: str  # name of the run among those of the pool: its credentials are derived with it
    start: int  # number of the start, larger than that of every earlier one
    location: str  # location of the endpoint of the run's driver


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs to serve from now on, beside those of earlier replies; none where nothing has changed."""

    runs: tuple[PooledRun, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """The last run is over, or another process has taken this one's place: end."""


@dataclass(frozen=True, slots=True)
class Noted:
    """The driver has taken note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRuns(Request[Runs | Close]):
    """Ask for runs to serve; the reply comes once there are some, or after some seconds."""

    worker: str  # the worker, and what tells its processes apart
    process: str
    after: int  # number of the last start that the process knows; 0 at first


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEnded(Request[Noted]):
    """The process serves a run no longer."""

    worker: str
    process: str
    start: int  # number of the start that has ended
    error: str  # traceback; empty where it was told to stop
    cpu_seconds: float  # CPU seconds of the process in the run's turns, since it was attached
    interrupted: bool = False  # whether the process ends, for all runs, because its machine is about to


POOL = WireProtocol("pool", 2, (AskRuns, ServiceEnded))
"""Messages of the workers that runs share; raise its version with every change of one."""
