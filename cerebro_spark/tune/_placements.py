"""Placements of a run's units, for a replay to follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.hopper import Placement, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cerebro_spark.hopper import Event, Trial

__all__ = ["placements"]


def placements(trials: Iterable[Trial], events: Sequence[Event]) -> dict[int, tuple[Placement, ...]]:
    """List by epoch the units that made the trials' models, each once, where and when they ran.

    A unit that was trained again after a loss is there with its last attempt. One whose event died with a driver is
    put beside its trial's next one, on a worker that trained on the same shard: replays need the order of units, and
    no model depends on the worker.

    Parameters
    ----------
    trials : iterable of Trial
    events : sequence of Event
        Of all parts of the run, in their order.

    Returns
    -------
    dict of int to tuple of Placement
        Starts are in the order of each trial's visits.
    """
    trained = [event for event in events if event.kind == "train"]
    last = {(event.trial_id, event.epoch, event.partition): event for event in trained}
    workers = {event.partition: event.worker for event in trained}
    found: dict[int, list[Placement]] = {}
    for trial in trials:
        logged = [last.get((trial.trial_id, epoch, partition)) for epoch, partition in trial.visits]
        starts = _starts(logged)
        for (epoch, partition), event, start in zip(trial.visits, logged, starts, strict=True):
            worker = workers.get(partition, "w0") if event is None else event.worker
            end = start if event is None else event.ended
            found.setdefault(epoch, []).append(Placement(Unit(trial.trial_id, partition), worker, start, end))
    return {epoch: tuple(of_epoch) for epoch, of_epoch in sorted(found.items())}


def _starts(logged: Sequence[Event | None]) -> list[float]:
    """Put the starts that are missing between those that are known."""
    known = [(place, event) for place, event in enumerate(logged) if event is not None]
    if not known:
        return [0.0] * len(logged)
    places, began = [place for place, _ in known], [event.began for _, event in known]
    starts: list[float] = np.interp(range(len(logged)), places, began, right=known[-1][1].ended).tolist()
    return starts
