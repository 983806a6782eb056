"""Records through the frozen layers: counted unit by unit, by the share of the layers that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cerebro_spark.adaptation._trunk_passes import frozen_flops_of, passes_of
from cerebro_spark.callbacks import UnitFinished
from optimizer.graph import Layer, LayerGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = {("train", 0): 30, ("train", 1): 20, ("validation", 0): 8}


def unit(kind: str, epoch: int, partition: int, *trials: str) -> list[UnitFinished]:
    common: dict[str, Any] = {"kind": kind, "epoch": epoch, "partition": partition, "members": len(trials)}
    took = {"began": 0.0, "ended": 1.0, "seconds": 1.0}
    return [UnitFinished(**common, **took, worker="worker-0", trial_id=trial) for trial in trials]


def network(*flops: int, learns_from: int) -> LayerGraph:
    layers = [Layer("x", "input", (), (4,), fingerprint="column:x")]
    for place, count in enumerate(flops):
        layers.append(
            Layer(
                f"layer {place}",
                "dense",
                (layers[-1].name,),
                (4,),
                flops=count,
                param_bytes=16,
                frozen=place < learns_from,
                fingerprint=f"weights {place}",
            )
        )
    return LayerGraph(layers, [layers[-1].name])


def test_a_unit_passes_its_shard_once_for_all_in_it_and_by_share() -> None:
    events = [
        *unit("train", 0, 0, "c000", "c001"),
        *unit("train", 0, 1, "c000", "c001"),
        *unit("evaluate", 0, 0, "c000", "c001"),
        *unit("train", 1, 0, "c001"),
    ]
    asked: list[tuple[tuple[str, ...], int]] = []

    def frozen_flops(members: Sequence[str], epoch: int) -> int:
        asked.append((tuple(members), epoch))
        return 100 if epoch == 0 else 25

    passed = passes_of(events, rows=lambda *shard: ROWS[shard], frozen_flops=frozen_flops, whole_flops=100)
    assert passed == 30 + 20 + 8 + 30 * 0.25
    assert asked == [(("c000", "c001"), 0)] * 3 + [(("c001",), 1)]


def test_nothing_frozen_is_no_pass() -> None:
    assert passes_of(unit("train", 0, 0, "c000"), rows=lambda *_: 30, frozen_flops=lambda *_: 0, whole_flops=0) == 0


def test_a_layer_that_several_configurations_and_phases_have_counts_once() -> None:
    deep, shallow = network(10, 20, 40, learns_from=2), network(10, 20, 40, learns_from=1)
    assert frozen_flops_of([deep, shallow, deep]) == 30
    assert frozen_flops_of([shallow]) == pytest.approx(10)
