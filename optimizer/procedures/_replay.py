"""Procedure that trains one schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from optimizer.procedures._decisions import Source
from optimizer.procedures._plan import Plan, Stage
from optimizer.procedures._procedure import Procedure
from optimizer.procedures._schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._trial import Trial

__all__ = ["Replay"]


class Replay(Procedure):
    """Train one schedule, for example that of PBT's best: each segment is a clone of the one before.

    Parameters
    ----------
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        ``schedule`` is not a schedule, or a setting is not allowed.

    Examples
    --------
    >>> from optimizer.procedures import EpochResult, Segment
    >>> alone = Replay(Schedule((Segment({"lr": 0.1}, 1), Segment({"lr": 0.08}, 3))))
    >>> _ = alone.ask()
    >>> start = alone.ask([EpochResult("c000", 1, {"loss": 0.7})])[-1]
    >>> start.params, start.epochs, start.source.trial_id, start.source.epoch
    ({'lr': 0.08}, 3, 'c000', 1)
    """

    def __init__(self, schedule: Schedule, **settings: Any) -> None:
        super().__init__(**settings)
        if not isinstance(schedule, Schedule):
            raise InvalidArgumentError(
                f"schedule must be a Schedule, as schedule_of(ledger, trial_id) returns, got {schedule!r}"
            )
        self.schedule = schedule

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:  # one after the other
        """See :meth:`Procedure.decide`."""
        segments = self.schedule.segments
        if not self.started:
            self.start(segments[0].params, segments[0].epochs, reason="segment 0")
        for trial in fresh:
            if not trial.waiting:
                continue
            number = self.started
            if number == len(segments):
                self.stop(trial, f"finished its {self.schedule.epochs} epochs")
                continue
            self.stop(trial, f"segment {number} goes on from here")
            source = Source(trial.trial_id, trial.finished)
            self.start(segments[number].params, segments[number].epochs, source=source, reason=f"segment {number}")

    def plan(self) -> Plan:
        """See :meth:`Procedure.plan`."""
        reaches, stages = 0, []
        for number, segment in enumerate(self.schedule.segments):
            reaches += segment.epochs
            stages.append(Stage(f"segment {number}", 1, segment.epochs, reaches))
        return Plan(
            procedure=type(self).__name__,
            stages=tuple(stages),
            epochs_each=reaches,
            chain=reaches,
            configurations=1,
            clones=len(stages) - 1,
            most_epochs=reaches,
            limits=self.limits,
        )
