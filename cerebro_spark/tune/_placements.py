"""Placements of a run's units, for a replay to follow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optimizer.hopper import Placement, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cerebro_spark.hopper import Event, Trial

__all__ = ["on_workers", "placements"]


def placements(trials: Sequence[Trial], events: Sequence[Event]) -> dict[int, tuple[Placement, ...]]:
    """List by epoch the units that made the trials' models, each once, where and when they ran.

    A unit that was trained again after a loss is there with its last attempt. One whose event died with a driver is put
    beside its trial's next one, on a worker that trained on the same shard: replays need the order of units, and no
    model depends on the worker. Where units of a clone's source are trained again after the clone has begun, the
    clone's own are put behind them. ``trials`` and ``events`` are in their order. Starts are in the order of each
    trial's visits, and of those along its lineage.
    """
    trained = [event for event in events if event.kind == "train"]
    last = {(event.trial_id, event.epoch, event.partition): event for event in trained}
    workers = {event.partition: event.worker for event in trained}
    known = {trial.trial_id: trial for trial in trials}
    by_epoch: dict[int, list[Placement]] = {}
    begun: dict[str, list[float]] = {}
    # A replay starts configurations in their order: none has a unit before those after which an earlier one began.
    before = -math.inf
    for trial in trials:
        if trial.source is not None:
            inherited = sum(epoch < trial.source.epoch for epoch, _ in known[trial.source.trial_id].visits)
            before = max([before, *begun[trial.source.trial_id][:inherited]])
        logged = [last.get((trial.trial_id, epoch, partition)) for epoch, partition in trial.visits]
        starts = begun[trial.trial_id] = _in_order(_starts(logged), before)
        for (epoch, partition), event, start in zip(trial.visits, logged, starts, strict=True):
            worker = workers.get(partition, "w0") if event is None else event.worker
            end = start if event is None else max(start, event.ended)
            by_epoch.setdefault(epoch, []).append(Placement(Unit(trial.trial_id, partition), worker, start, end))
    return {epoch: tuple(of_epoch) for epoch, of_epoch in sorted(by_epoch.items())}


def on_workers(visits: Mapping[int, Sequence[Placement]], count: int) -> dict[int, tuple[Placement, ...]]:
    """Move the units of workers that a backend does not have to those that begin with the shard.

    The backend has ``count`` workers: ``w0``, ``w1``, ...
    """
    names = {f"w{number}" for number in range(count)}
    return {
        epoch: tuple(
            each if each.worker in names else replace(each, worker=f"w{each.unit.partition % count}")
            for each in of_epoch
        )
        for epoch, of_epoch in visits.items()
    }


def _in_order(starts: Iterable[float], before: float) -> list[float]:
    """Move starts that are not behind the one before to just behind it."""
    ordered = []
    for start in starts:
        before = max(start, math.nextafter(before, math.inf))
        ordered.append(before)
    return ordered


def _starts(logged: Sequence[Event | None]) -> list[float]:
    """Put the starts that are missing between those that are known."""
    known = [(place, event) for place, event in enumerate(logged) if event is not None]
    if not known:
        return [0.0] * len(logged)
    places, began = [place for place, _ in known], [event.began for _, event in known]
    starts: list[float] = np.interp(range(len(logged)), places, began, right=known[-1][1].ended).tolist()
    return starts
