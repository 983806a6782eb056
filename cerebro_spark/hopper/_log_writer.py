"""Writer of the logs of trials to the store, during the run."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from cerebro_spark.errors import RunError
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.hopper._journal import Journal
    from cerebro_spark.hopper._lease import Lease
    from cerebro_spark.hopper._log import TrialLog
    from cerebro_spark.hopper._trial import Trial

__all__ = ["LogWriter"]

# Between two writes.
_PAUSE_S = 10.0


class LogWriter:
    """Writer of the logs that have changed. It fails silently, because a missing log must not end a run.

    Nothing is written once another driver has the lease.
    """

    def __init__(self, journal: Journal, lease: Lease, trials: Sequence[Trial]) -> None:
        self._journal = journal
        self._lease = lease
        self._trials = trials
        self._written: dict[str, TrialLog] = {trial.trial_id: trial.log for trial in trials}
        self._due = time.monotonic() + _PAUSE_S

    def write_if_due(self) -> None:
        """Write, every ten seconds."""
        if time.monotonic() > self._due:
            self.write()
            self._due = time.monotonic() + _PAUSE_S

    def write(self) -> None:
        """Write now."""
        with suppress(StoreError, RunError):
            self._lease.check()
            for trial in tuple(self._trials):
                if self._written.get(trial.trial_id) is not trial.log:
                    self._written[trial.trial_id] = trial.log
                    self._journal.write_log(trial)
