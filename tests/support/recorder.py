"""A callback that writes down every event of a run."""

from __future__ import annotations

from typing import Any

from cerebro_spark.callbacks import Callback, Event

__all__ = ["Recorder"]


class Recorder(Callback):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def of(self, kind: type) -> list[Any]:
        """The events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    def _record(self, event: Any) -> None:
        self.events.append(event)

    run_started = unit_finished = epoch_finished = trial_finished = _record
    worker_lost = run_finished = run_failed = _record
