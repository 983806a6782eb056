"""Retention: which checkpoints at ends of epochs stay in the store, and when the others are deleted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cerebro_spark.hopper._keep import best_epoch
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cerebro_spark.hopper._journal import RunSpec
    from cerebro_spark.hopper._recorded import Recorded
    from cerebro_spark.hopper._trial import Trial
    from udfs.hopper import Checkpoints

__all__ = ["Retention"]

_LOG = logging.getLogger(__name__)

# A clone goes back to its source's state, should its own first checkpoint be damaged; from the second on it need not.
_OWN = 2


class Retention:
    """Deletes checkpoints at ends of epochs that nobody needs any more; workers delete those within epochs.

    Needed are a trial's last finished epoch, for it goes on from there, and so may a clone; the checkpoint before; what
    ``keep`` of the run asks for; and the state of a source, until the clone has checkpoints of its own.

    Parameters
    ----------
    checkpoints : Checkpoints
    spec : RunSpec
    trials : sequence of Trial
        All of the run; it may grow.
    num_shards : int
        As many units make an epoch.
    recorded : Recorded, optional
        Of a replay: the states that its clones begin from stay until they have begun.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        spec: RunSpec,
        trials: Sequence[Trial],
        num_shards: int,
        recorded: Recorded | None = None,
    ) -> None:
        self._checkpoints = checkpoints
        self._spec = spec
        self._trials = trials
        self._num_shards = num_shards
        self._recorded = recorded

    def sweep(self, trials: Iterable[Trial]) -> None:
        """Delete what is not needed of some trials, and of the sources of those that are clones.

        Parameters
        ----------
        trials : iterable of Trial
        """
        by_id = {trial.trial_id: trial for trial in tuple(self._trials)}
        swept = {trial.trial_id: trial for trial in trials}
        for trial in tuple(swept.values()):
            if trial.source is not None:
                swept[trial.source.trial_id] = by_id[trial.source.trial_id]
        pins = self._pins(by_id.values())
        for trial in swept.values():
            last = len(trial.history) * self._num_shards
            below = max((version for version in tuple(trial.stored) if version < last), default=0)
            keep = self._kept(trial) | pins.get(trial.trial_id, set())
            try:
                gone = self._checkpoints.retain(trial.trial_id, below, keep)
            except StoreError as error:
                # More than is needed is no reason to end a run.
                _LOG.warning("old checkpoints of %s are still in the store: %s", trial.trial_id, error)
                continue
            for version in gone:
                trial.stored.pop(version, None)

    def _kept(self, trial: Trial) -> set[int]:
        if self._spec.keep == "epochs":
            return {epoch * self._num_shards for epoch in range(1, len(trial.history) + 1)}
        if self._spec.keep == "best":
            best = best_epoch(trial.history, self._spec.metric, larger_is_better=self._spec.larger_is_better)
            return set() if best is None else {best * self._num_shards}
        return set()

    def _pins(self, trials: Collection[Trial]) -> dict[str, set[int]]:
        needed = [
            clone.source for clone in trials if clone.source is not None and clone.live and len(clone.stored) < _OWN
        ]
        if self._recorded is not None:
            needed += self._recorded.sources_to_come(trial.trial_id for trial in trials)
        pins: dict[str, set[int]] = {}
        for source in needed:
            pins.setdefault(source.trial_id, set()).add(source.epoch * self._num_shards)
        return pins
