"""Retention rule for checkpoints at the ends of epochs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cerebro_spark.hopper._stored_states import best_epoch
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cerebro_spark.hopper._context import RunContext
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Retention"]

_LOG = logging.getLogger(__name__)

# A clone goes back to its source's state, should its own first checkpoint be damaged; from the second on it need not.
_OWN = 2


class Retention:
    """Retention rule that deletes checkpoints at the ends of epochs; workers delete those within epochs.

    These stay: the checkpoint of a trial's last finished epoch, from which the trial and its clones continue; the
    checkpoint before it; those that ``keep`` of the run selects; and the state of a source, until its clone has
    checkpoints of its own. In a replay, the states that its clones begin from stay until they have begun. ``trials``
    may grow.
    """

    def __init__(self, context: RunContext, trials: Sequence[Trial]) -> None:
        self._checkpoints = context.checkpoints
        self._spec = context.spec
        self._trials = trials
        self._num_shards = context.num_shards
        self._recorded = context.recorded

    def sweep(self, trials: Iterable[Trial]) -> None:
        """Delete the checkpoints of some trials, and of the sources of clones, that need not stay."""
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
                # Checkpoints that stay too long are no reason to end a run.
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
