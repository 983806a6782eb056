from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from trunks import OpenedTrunk, open_trunk

from udfs.adaptation import FeatureStore, TrunkSpeed, measure_reader, measure_trunk

if TYPE_CHECKING:
    from udfs.store import Store


def test_a_reader_that_is_held_to_a_rate_reads_at_that_rate(store: Store) -> None:
    features = FeatureStore(store, "campaign", bytes_per_second=4e6)
    found = measure_reader(features, row_bytes=1 << 14, nbytes=1 << 20)
    assert 0 < found.cold <= 4e6
    assert 0 < found.warm <= 4e6
    assert store.list("features") == []


def test_the_time_of_each_part_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that takes long makes its part dear, and no other."""
    model = open_trunk({})
    x, *_ = keys = model.expressions()
    cost = dict.fromkeys(model.graph.names, 1) | {model.graph.names[4]: 8}
    passed = [0.0]

    def trunk(have: dict[str, np.ndarray], want: list[str]) -> dict[str, np.ndarray]:
        passed[0] += sum(cost[name] for name in model.graph.part(have=have, want=want).layers)
        return OpenedTrunk.trunk(model, have, want)

    monkeypatch.setattr(model, "trunk", trunk)
    monkeypatch.setattr("udfs.adaptation._measuring.time.perf_counter", lambda: passed[0])
    rows = np.zeros((5, 6), np.float32)
    found = measure_trunk(model, {x: rows}, [keys[2], keys[4], keys[6]], seconds=3)
    assert [(one.expression, one.seconds) for one in found.segments] == [
        (keys[2], 2 / 5),
        (keys[4], 9 / 5),
        (keys[6], 2 / 5),
    ]
    assert sum(one.flops for one in found.segments) == model.graph.flops(model.graph.names[1:-1])
    assert found.flops_per_second == pytest.approx(model.graph.flops(model.graph.names[1:-1]) * 5 / 13)
    assert TrunkSpeed(()).flops_per_second == 0
