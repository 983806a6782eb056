"""Repeat: a procedure that starts the configurations of a run once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.procedures import Plan, Procedure, ProcedureError, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.hopper import Trial as FirstTrial
    from optimizer.procedures import Trial

__all__ = ["Repeat"]


class Repeat(Procedure):
    """Start the configurations of a run in their order, and end each where and why it ended.

    A clone starts once its source has finished the epoch that it was cloned from, and all configurations before it have
    started: ids follow from the order of starts, and random numbers from ids. Whatever ended within an epoch is granted
    that epoch as well, and ended by the run, which follows the recorded visits. Raise ProcedureError when asked if the
    source of a clone has ended before the epoch that it was cloned from.
    """

    def __init__(self, configurations: Sequence[FirstTrial], **settings: Any) -> None:
        super().__init__(**settings)
        self._configurations = configurations

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:  # the number is set
        """See :meth:`optimizer.procedures.Procedure.decide`."""
        for trial in fresh:
            if trial.waiting:
                self.stop(trial, self._configurations[trial.number].reason)
        for first in self._configurations[self.started :]:
            if not self._may_begin(first):
                return
            within = first.failed or not first.history or first.visits[-1][0] >= first.epoch
            self.start(first.params, first.epoch + within, source=first.source, reason=first.reason)

    def _may_begin(self, first: FirstTrial) -> bool:
        if first.source is None:
            return True
        source = self.ledger[first.source.trial_id]
        if source.finished >= first.source.epoch:
            return True
        if not source.live:
            raise ProcedureError(
                f"{first.trial_id} is a clone of {source.trial_id} after epoch {first.source.epoch}, which has "
                f"ended after {source.finished} this time ({source.status})"
            )
        return False

    def plan(self) -> Plan:
        """See :meth:`optimizer.procedures.Procedure.plan`."""
        epochs = [max(1, first.epoch) for first in self._configurations]
        return Plan(
            procedure=type(self).__name__,
            stages=tuple(Stage(f"c{number:03d}", 1, count, count) for number, count in enumerate(epochs)),
            epochs_each=max(epochs),
            chain=max(epochs),
            configurations=len(epochs),
            clones=sum(first.source is not None for first in self._configurations),
            most_epochs=sum(epochs),
        )
