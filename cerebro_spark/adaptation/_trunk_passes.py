"""Number of records that passed the frozen layers, counted from the events of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.graph import materialisable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cerebro_spark.hopper import Event
    from optimizer.graph import LayerGraph

__all__ = ["frozen_flops_of", "passes_of", "units_of"]


def units_of(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Yield the events of each unit, in which trials of a group follow each other."""
    place = 0
    while place < len(events):
        unit = list(events[place : place + events[place].members])
        yield unit
        place += len(unit)


def frozen_flops_of(graphs: Iterable[LayerGraph]) -> int:
    """Count the FLOPs of all frozen layers of some models for one record, each layer once.

    The graphs include all phases of freezing schedules.
    """
    layers = {graph.expression(name): graph[name].flops for graph in graphs for name in materialisable(graph)}
    return sum(layers.values())


def passes_of(
    events: Sequence[Event],
    *,
    rows: Callable[[str, int], int],
    frozen_flops: Callable[[Sequence[str], int], int],
    whole_flops: int,
) -> float:
    """Count the records that passed frozen layers while a run trained and evaluated.

    Each unit passes the rows of its shard once for all of its trials; a pass through some of the layers counts by its
    share of the FLOPs. ``rows`` returns the rows of a partition of a split, ``frozen_flops`` the FLOPs of a group's
    frozen layers in an epoch for one record, and ``whole_flops`` are those of all configurations.
    """
    splits = {"train": "train", "evaluate": "validation"}
    passed = sum(
        rows(splits[unit[0].kind], unit[0].partition) * frozen_flops([event.trial_id for event in unit], unit[0].epoch)
        for unit in units_of(events)
    )
    return passed / whole_flops if whole_flops else 0.0
