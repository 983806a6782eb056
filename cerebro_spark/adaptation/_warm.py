"""Warm starts: the weights that configurations of a cycle had at the end of an earlier one."""

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

    from cerebro_spark.adaptation._record import CycleRecord
    from udfs.store import Store

__all__ = ["EarlierCycle", "last_over", "layout_of"]

# How trials end whose weights are worth going on from.
_SOUND = ("finished", "stopped")

_ENDLESS = ("running", "paused")


def layout_of(checkpoint: bytes) -> str:
    """Hash the shapes of the tensors that a checkpoint has of a model, and the frozen weights that it belongs to.

    Parameters
    ----------
    checkpoint : bytes
        As :meth:`udfs.training.Session.checkpoint` writes it.
    """
    saved = unpack(checkpoint, lambda array, _kind: array)
    return hashlib.sha256(repr((_shapes(saved["model"]), saved.get("frozen"))).encode()).hexdigest()


def _shapes(held: Any) -> Any:
    if isinstance(held, dict):
        return {name: _shapes(value) for name, value in sorted(held.items())}
    return [_shapes(value) for value in held] if isinstance(held, list) else np.shape(held)


@dataclass(frozen=True, slots=True)
class EarlierCycle:
    """The run of a cycle that is over.

    Parameters
    ----------
    store : Store
    run : str
        ``""`` where there is none.
    """

    store: Store
    run: str

    def starts(self, layouts: Mapping[str, str]) -> WarmStart:
        """Find the weights to begin with, of each configuration that ended in order and whose model is as it was.

        Of several trials of one configuration it is the one that trained most; of those, the one that started first.

        Parameters
        ----------
        layouts : mapping of str to str
            Of the configurations that are open, by :func:`udfs.hopper.configuration_key`.
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
        """Whether a checkpoint is intact and of such a model; one that nobody has opened yet is taken at its word."""
        try:
            state = checkpoints.read(record.trial_id, record.version, record.digest)
        except (DamagedError, StoreError):
            return False
        return layout is None or layout_of(state) == layout


def last_over(store: Store, cycles: Sequence[CycleRecord]) -> EarlierCycle:
    """Find the last cycle whose configurations have all ended: one that broke off has nothing to go on from.

    Parameters
    ----------
    store : Store
    cycles : sequence of CycleRecord
    """
    for cycle in reversed(cycles):
        journal = Journal(store, cycle.run)
        started = _started(journal) if journal.begun else []
        if started and all(
            journal.results(trial_id).get("status", _ENDLESS[0]) not in _ENDLESS for trial_id, _ in started
        ):
            return EarlierCycle(store, cycle.run)
    return EarlierCycle(store, "")


def _started(journal: Journal) -> list[tuple[str, Mapping[str, Any]]]:
    """List the trials of a run and their params, in the order of their starts."""
    decisions = [decision for order in journal.orders() for decision in order.decisions]
    return [(each.trial_id, each.params) for each in decisions if isinstance(each, Start)]
