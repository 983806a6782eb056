"""Events of a run that its observers hear of: a unit ended, a worker was lost, a trial ended."""

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
        """Note that a unit was trained or evaluated."""

    def worker_lost(self, loss: Loss) -> None:
        """Note that a worker was lost."""

    def trial_started(self, trial: Trial) -> None:
        """Note that a trial started while the run went on."""

    def trial_ended(self, trial: Trial) -> None:
        """Note that a trial ended; its ``status`` says how."""


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
