"""Live table of the trials, in a terminal or in a notebook."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

from cerebro_spark.callbacks._callback import Callback
from udfs.driver import live_display

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.callbacks._events import (
        EpochFinished,
        RunFailed,
        RunFinished,
        RunStarted,
        TrialFinished,
        TrialStarted,
        TrialState,
        UnitFinished,
        WorkerLost,
    )

__all__ = ["ProgressTable"]

# Rows of the table; a terminal has not many more.
_ROWS = 20

# Seconds between two drawings; the clock in the title runs while no unit ends.
_REDRAW_S = 0.25

# Seconds between two lines where nothing is redrawn, as in the log of a scheduler.
_NOTE_S = 30.0


@dataclass(slots=True)
class _Row:
    trial_id: str
    params: Mapping[str, Any]
    status: str
    units: int
    metric: float | None
    trained: set[tuple[int, int]] = field(default_factory=set)

    @property
    def total(self) -> int:
        return self.units + len(self.trained)


class ProgressTable(Callback):
    """Show the trials in a table, the best first, while the run goes on; the last table stays.

    In a file or a pipe, such as the log of a scheduler, a line every 30 seconds says how far the run is.

    ``GridSearch(progress=True)`` adds one.
    """

    def __init__(self) -> None:
        self._live = live_display()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        self._rows: dict[str, _Row] = {}
        self._workers: set[str] = set()
        self._losses = 0
        self._epoch = 0
        self._start: RunStarted | None = None
        self._began = 0.0

    def run_started(self, event: RunStarted) -> None:
        """Show the first table."""
        self._start, self._epoch = event, event.epoch
        self._began = time.monotonic() - event.seconds
        for trial in event.trials:
            self._add(trial, event.metric)
        self._live.start()
        self._ticker.start()

    def unit_finished(self, event: UnitFinished) -> None:
        """Count the unit."""
        with self._lock:
            self._workers.add(event.worker)
            self._epoch = event.epoch
            if event.kind == "train":
                # A unit that is trained again after a loss counts once.
                self._rows[event.trial_id].trained.add((event.epoch, event.partition))

    def epoch_finished(self, event: EpochFinished) -> None:
        """Show the metrics."""
        assert self._start is not None  # the first event
        with self._lock:
            for trial_id, metrics in event.metrics.items():
                self._rows[trial_id].metric = metrics.get(self._start.metric)

    def trial_started(self, event: TrialStarted) -> None:
        """Show the trial."""
        assert self._start is not None  # the first event
        with self._lock:
            self._add(event.trial, self._start.metric)

    def trial_finished(self, event: TrialFinished) -> None:
        """Show how it ended."""
        with self._lock:
            self._rows[event.trial_id].status = event.status

    def worker_lost(self, event: WorkerLost) -> None:
        """Count the loss."""
        with self._lock:
            self._workers.discard(event.worker)
            self._losses += 1

    def run_finished(self, event: RunFinished) -> None:  # the table has it all
        """Show the last table."""
        self._stop()

    def run_failed(self, event: RunFailed) -> None:  # `fit` raises the error
        """Show the last table."""
        self._stop()

    def table(self) -> Table:
        """Draw the trials as they are now."""
        assert self._start is not None  # the first event
        with self._lock:
            table = Table(title=self._title(self._start))
            for name in ("", "params", "status", "units", self._start.metric):
                table.add_column(name, justify="right" if name in {"units", self._start.metric} else "left")
            for row in sorted(self._rows.values(), key=self._place)[:_ROWS]:
                params = ", ".join(f"{name}={value}" for name, value in row.params.items() if not name.startswith("_"))
                metric = "" if row.metric is None else f"{row.metric:.4f}"
                table.add_row(row.trial_id, params, row.status, str(row.total), metric)
            if len(self._rows) > _ROWS:
                table.caption = f"and {len(self._rows) - _ROWS} more"
        return table

    def line(self) -> str:
        """Describe the run as it is now, with the best trial."""
        assert self._start is not None  # the first event
        with self._lock:
            text = f"{self._start.run_id}: {self._title(self._start)}"
            best = min(self._rows.values(), key=self._place, default=None)
            if best is None or best.metric is None:
                return text
            return f"{text}; best {self._start.metric} {best.metric:.4f} ({best.trial_id})"

    def _title(self, start: RunStarted) -> str:
        title = (
            f"epoch {self._epoch + 1}, {self._units(start.num_units)} units, {len(self._workers)} workers, "
            f"{time.monotonic() - self._began:.0f} s"
        )
        return f"{title}, {self._losses} workers lost" if self._losses else title

    def _add(self, trial: TrialState, metric: str) -> None:
        last = trial.history[-1].get(metric) if trial.history else None
        self._rows[trial.trial_id] = _Row(trial.trial_id, trial.params, trial.status, trial.units, last)

    def _units(self, planned: int | None) -> str:
        done = sum(row.total for row in self._rows.values())
        return f"{done}" if planned is None else f"{done} of {planned}"

    def _place(self, row: _Row) -> tuple[float, str]:
        assert self._start is not None  # the first event
        if row.metric is None or row.metric != row.metric:
            return float("inf"), row.trial_id
        return -row.metric if self._start.larger_is_better else row.metric, row.trial_id

    def _tick(self) -> None:
        noted = time.monotonic()
        while not self._over.wait(_REDRAW_S):
            self._live.update(self.table(), refresh=True)
            if time.monotonic() - noted >= _NOTE_S:
                noted = time.monotonic()
                self._live.note(self.line())

    def _stop(self) -> None:
        self._over.set()
        self._ticker.join()
        self._live.update(self.table(), refresh=True)
        self._live.stop()
