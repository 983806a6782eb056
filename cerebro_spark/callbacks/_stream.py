"""Delivery of events from a run to its callbacks: one queue, one thread."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from cerebro_spark.callbacks._events import (
    EpochFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialStarted,
    UnitFinished,
    WorkerLost,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from cerebro_spark.callbacks._callback import Callback
    from cerebro_spark.callbacks._events import Event

__all__ = ["EventStream"]

_LOG = logging.getLogger(__name__)

# The method of a callback that hears of each event.
_METHODS: dict[type[Event], str] = {
    RunStarted: "run_started",
    UnitFinished: "unit_finished",
    EpochFinished: "epoch_finished",
    TrialStarted: "trial_started",
    TrialFinished: "trial_finished",
    WorkerLost: "worker_lost",
    RunFinished: "run_finished",
    RunFailed: "run_failed",
}


class EventStream:
    """Deliver events to callbacks, in order, from a thread of its own.

    A context manager: on leaving it waits until every callback has heard of every event.

    Parameters
    ----------
    callbacks : sequence of Callback
        Called in this order for each event. One that raises is logged and called again for the next event.

    Examples
    --------
    >>> from cerebro_spark.callbacks import Callback, RunFinished
    >>> class Bell(Callback):
    ...     def run_finished(self, event: RunFinished) -> None:
    ...         print(f"{event.run_id} is done")
    >>> with EventStream([Bell()]) as stream:
    ...     stream.publish(RunFinished(run_id="first", seconds=12.5))
    first is done
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = tuple(callbacks)
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._dispatcher = threading.Thread(target=self._dispatch, name="callbacks", daemon=True)

    def __enter__(self) -> Self:
        self._dispatcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._events.put(None)
        self._dispatcher.join()

    def publish(self, event: Event) -> None:
        """Queue an event and return at once; callable from any thread, with any lock held."""
        self._events.put(event)

    def _dispatch(self) -> None:
        while (event := self._events.get()) is not None:
            method = _METHODS[type(event)]
            for callback in self._callbacks:
                try:
                    getattr(callback, method)(event)
                except BaseException:  # noqa: BLE001 - hours of training, and the other callbacks, must not go with it
                    _LOG.exception("the run goes on, but %s failed in %s", type(callback).__name__, method)
