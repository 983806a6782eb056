"""Units on their way: who has which, and what has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Assignment", "Attached", "Event", "Loss"]


@dataclass(frozen=True, slots=True)
class Event:
    """A unit that ended, by the driver's clock.

    Attributes
    ----------
    kind : {"train", "evaluate"}
    config, worker : str
    epoch, partition : int
    began, ended : float
        Seconds since the start of the run: given out, and reported.
    seconds : float
        Of these, in training or evaluation itself.
    fetched_bytes : int
        That hopped for it from another worker.
    from_store : bool
        Whether they came from the store instead.
    """

    kind: str
    config: str
    worker: str
    epoch: int
    partition: int
    began: float
    ended: float
    seconds: float
    fetched_bytes: int = 0
    from_store: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker that was lost.

    Attributes
    ----------
    seconds : float
        Since the start of the run.
    worker, host, why : str
    """

    seconds: float
    worker: str
    host: str
    why: str

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s: {self.worker} on {self.host}: {self.why}"


@dataclass(slots=True)
class Attached:
    """An attempt of a worker that is here."""

    name: str
    attempt: str
    location: str
    host: str
    seen: float
    assignment: Assignment | None = None
    drop: list[tuple[str, int]] = field(default_factory=list)
    abort: bool = False


@dataclass(slots=True)
class Assignment:
    """A unit that a worker has."""

    name: str
    kind: str
    trial: Trial
    epoch: int
    partition: int
    version: int
    began: float
    from_store: bool
    peer: str | None
