"""Events of a run for its observers: the end of a unit, the loss of a worker, the end of a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cerebro_spark.callbacks import UnitFinished as Event
from cerebro_spark.callbacks import WorkerLost as Loss

if TYPE_CHECKING:
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Event", "Loss", "Observer", "Unobserved"]


class Observer(Protocol):
    """Hears of a run's events as they happen.

    Its methods are called with the coordinator's lock held: they return at once and never call the coordinator.
    """

    def unit(self, event: Event) -> None:
        """Handle a unit that was trained or evaluated."""

    def worker_lost(self, loss: Loss) -> None:
        """Handle the loss of a worker."""

    def trial_started(self, trial: Trial) -> None:
        """Handle a trial that started during the run."""

    def trial_ended(self, trial: Trial) -> None:
        """Handle the end of a trial, by its ``status``."""


class Unobserved:
    """An observer that ignores everything: the default."""

    def unit(self, event: Event) -> None:
        """Ignore it."""

    def worker_lost(self, loss: Loss) -> None:
        """Ignore it."""

    def trial_started(self, trial: Trial) -> None:
        """Ignore it."""

    def trial_ended(self, trial: Trial) -> None:
        """Ignore it."""
