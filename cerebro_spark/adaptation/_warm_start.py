"""Warm starts of a cycle with the weights of an earlier one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cerebro_spark.hopper import Journal
from optimizer.procedures import Start
from udfs.documents import DamagedError
from udfs.hopper import Checkpoints, Record, SourceState, WarmStart, configuration_key
from udfs.packing import unpack
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cerebro_spark.adaptation._campaign_record import CycleRecord
    from udfs.store import Store

__all__ = ["EarlierCycle", "last_over", "layout_of"]

# Final statuses of trials whose weights can be used.
_SOUND = ("finished", "stopped")

_ENDLESS = ("running", "paused")


def layout_of(checkpoint: bytes) -> str:
    """Hash the shapes of a checkpoint's tensors, and the frozen weights that it belongs to."""
    saved = unpack(checkpoint, lambda array, _kind: array)
    return hashlib.sha256(repr((_shapes(saved["model"]), saved.get("frozen"))).encode()).hexdigest()


def _shapes(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _shapes(value) for name, value in sorted(tree.items())}
    return [_shapes(value) for value in tree] if isinstance(tree, list) else np.shape(tree)


@dataclass(frozen=True, slots=True)
class EarlierCycle:
    """Run of a finished cycle; ``run`` is ``""`` if there is none."""

    store: Store
    run: str

    def find_states(self, layouts: Mapping[str, str]) -> WarmStart:
        """Find the weights of each configuration that ended normally and whose model has not changed.

        Among the trials of a configuration this is the one with the most epochs, and among those the first one.
        ``layouts`` are those of the opened configurations, by :func:`udfs.hopper.configuration_key`.
        """
        if not self.run:
            return WarmStart()
        checkpoints = Checkpoints(self.store, self.run)
        journal = Journal(self.store, self.run)
        longest: dict[str, Record] = {}
        for trial_id, params in _started(journal):
            record = checkpoints.last(trial_id) if journal.results(trial_id).get("status") in _SOUND else None
            key = configuration_key(params)
            if record is not None and (key not in longest or record.version > longest[key].version):
                longest[key] = record
        states = {
            key: SourceState(record.trial_id, record.version, record.digest)
            for key, record in longest.items()
            if self._fits(checkpoints, record, layouts.get(key))
        }
        return WarmStart(self.run, states)

    @staticmethod
    def _fits(checkpoints: Checkpoints, record: Record, layout: str | None) -> bool:
        """Return True if a checkpoint is intact and fits the model; a model that is not open yet is assumed to fit."""
        try:
            state = checkpoints.read(record.trial_id, record.version, record.digest)
        except (DamagedError, StoreError):
            return False
        return layout is None or layout_of(state) == layout


def last_over(store: Store, cycles: Sequence[CycleRecord]) -> EarlierCycle:
    """Find the last cycle whose configurations have all ended."""
    for cycle in reversed(cycles):
        journal = Journal(store, cycle.run)
        started = _started(journal) if journal.begun else []
        if started and all(
            journal.results(trial_id).get("status", _ENDLESS[0]) not in _ENDLESS for trial_id, _ in started
        ):
            return EarlierCycle(store, cycle.run)
    return EarlierCycle(store, "")


def _started(journal: Journal) -> list[tuple[str, Mapping[str, Any]]]:
    """List the trials of a run with their params, in the order of their starts."""
    decisions = [decision for order in journal.orders() for decision in order.decisions]
    return [(each.trial_id, each.params) for each in decisions if isinstance(each, Start)]
