"""How many records passed the frozen layers in a cycle, counted from what its run did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.graph import materialisable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cerebro_spark.hopper import Event
    from optimizer.graph import LayerGraph

__all__ = ["frozen_flops_of", "passes_of", "units_of"]


def units_of(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Yield the events of each unit: those of trials that were in one together follow each other."""
    place = 0
    while place < len(events):
        unit = list(events[place : place + events[place].members])
        yield unit
        place += len(unit)


def frozen_flops_of(graphs: Iterable[LayerGraph]) -> int:
    """Count the FLOPs of all layers that training never changes, each once, for one record.

    Parameters
    ----------
    graphs : iterable of LayerGraph
        Of the configurations; of one with a freezing schedule in each phase.
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

    Each unit passes the rows of its shard once, for all trials in it; a pass through a part of the layers counts by its
    share of the FLOPs.

    Parameters
    ----------
    events : sequence of Event
        Of the run, in their order.
    rows : callable
        Rows of a partition of a split.
    frozen_flops : callable
        FLOPs of the frozen layers that run where some trials are in a unit of an epoch together, for one record.
    whole_flops : int
        :func:`frozen_flops_of` all configurations.
    """
    splits = {"train": "train", "evaluate": "validation"}
    passed = sum(
        rows(splits[unit[0].kind], unit[0].partition) * frozen_flops([event.trial_id for event in unit], unit[0].epoch)
        for unit in units_of(events)
    )
    return passed / whole_flops if whole_flops else 0.0
