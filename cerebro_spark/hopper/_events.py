"""Events of a run that its observers hear of: a unit ended, a worker was lost, a trial ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Event", "Loss", "Observer", "Unobserved"]


@dataclass(frozen=True, slots=True)
class Event:
    """A unit that ended, by the driver's clock.

    Attributes
    ----------
    kind : {"train", "evaluate"}
    trial_id, worker : str
    epoch, partition : int
    began, ended : float
        Seconds since the start of the run at which the unit was given out, and at which it was reported.
    seconds : float
        Time in training or evaluation itself.
    fetched_bytes : int
        Size of the checkpoint that the worker fetched for it; 0 where the worker had it. Default 0.
    from_store : bool
        Whether the checkpoint came from the store instead of another worker. Default ``False``.
    """

    kind: str
    trial_id: str
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
        Time since the start of the run.
    worker, host, why : str
    """

    seconds: float
    worker: str
    host: str
    why: str

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s: {self.worker} on {self.host}: {self.why}"


class Observer(Protocol):
    """Hears of a run's events as they happen.

    Its methods are called with the coordinator's lock held: they return at once and never call the coordinator.
    """

    def unit(self, event: Event) -> None:
        """Note that a unit was trained or evaluated."""

    def worker_lost(self, loss: Loss) -> None:
        """Note that a worker was lost."""

    def trial_ended(self, trial: Trial) -> None:
        """Note that a trial ended; its ``status`` says how."""


class Unobserved:
    """An observer that ignores everything: the default."""

    def unit(self, event: Event) -> None:
        """Ignore it."""

    def worker_lost(self, loss: Loss) -> None:
        """Ignore it."""

    def trial_ended(self, trial: Trial) -> None:
        """Ignore it."""
