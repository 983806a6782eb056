"""Bad input: an error that names it, or a fallback that ``explain()`` states."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.adaptation import AdaptationPlan, Candidate, Costs, plan
from optimizer.errors import GraphError, InvalidArgumentError
from optimizer.graph import Layer, LayerGraph

TRUNK = [Layer("x", "input", (), (10,)), Layer("f", "conv", ("x",), (5,), flops=1000, fingerprint="f")]


def graph(*, below: str = "f", learns: bool = True, trunk: bool = True) -> LayerGraph:
    layers = TRUNK if trunk else [TRUNK[0], Layer("f", "conv", ("x",), (5,), flops=1000, frozen=False)]
    return LayerGraph([*layers, Layer("y", "fc", (below,), flops=9, param_bytes=8, frozen=not learns)], ["y"])


def planned(*candidates: Candidate, **settings: Any) -> AdaptationPlan:
    values = {"records": 100, "disk_bytes": 10**9, "memory_bytes": 10**9, "costs": Costs(1.0, 1.0)}
    return plan(candidates, **(values | settings))


GOOD = Candidate("good", graph(), 2, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"records": 0}, "records must be a whole number of at least 1, got 0"),
        ({"records": True}, "records must be .*, got True"),
        ({"disk_bytes": -1}, "disk_bytes must be a whole number of at least 0, got -1. 0 materialises nothing"),
        ({"memory_bytes": 0.5}, r"memory_bytes must be .*, got 0.5"),
        ({"workspace_bytes": -1}, r"workspace_bytes must be .*, got -1"),
        ({"workers": 0}, r"workers must be .*, got 0"),
        ({"costs": 6e12}, r"costs must be Costs\(flops_per_second=\.\.\., bytes_per_second=\.\.\.\), got"),
        ({"seconds": 0.0}, r"seconds must be positive and finite, got 0\.0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        planned(GOOD, **settings)


def test_candidates() -> None:
    with pytest.raises(InvalidArgumentError, match="candidates must have at least one candidate, got none"):
        planned()
    with pytest.raises(InvalidArgumentError, match="names of candidates must differ, got 'good' twice"):
        planned(GOOD, GOOD)
    with pytest.raises(
        InvalidArgumentError, match="candidate 'still' must have a trainable layer that its outputs need, got"
    ):
        planned(GOOD, Candidate("still", graph(learns=False), 2, 4))
    unread = LayerGraph([*graph(learns=False), Layer("lost", "fc", ("f",), frozen=False)], ["y"])
    with pytest.raises(InvalidArgumentError, match="candidate 'lost' must have a trainable layer"):
        planned(Candidate("lost", unread, 2, 4))
    blind = LayerGraph([Layer("w", "constant", ()), Layer("y", "fc", ("w",), frozen=False)], ["y"])
    with pytest.raises(GraphError, match="candidate 'blind' must read an input"):
        planned(Candidate("blind", blind, 2, 4))
    with pytest.raises(InvalidArgumentError, match=r"epochs must be .*, got 0"):
        Candidate("a", graph(), 0, 4)
    with pytest.raises(InvalidArgumentError, match=r"batch_size must be .*, got 1\.5"):
        Candidate("a", graph(), 2, 1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"slots must be .*, got -1"):
        Candidate("a", graph(), 2, 4, slots=-1)
    with pytest.raises(InvalidArgumentError, match="graph of candidate 'a' must be a LayerGraph"):
        Candidate("a", "resnet", 2, 4)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="name must be a non-empty string"):
        Candidate("", graph(), 2, 4)


def test_a_cycle_is_no_graph() -> None:
    with pytest.raises(GraphError, match="form a cycle"):
        LayerGraph([Layer("a", "fc", ("b",)), Layer("b", "fc", ("a",))], ["a"])


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), "fast", True], ids=str)
def test_rates(rate: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="flops_per_second"):
        Costs(rate, 1.0)
    with pytest.raises(InvalidArgumentError, match="bytes_per_second"):
        Costs(1.0, rate)


def test_nothing_frozen_trains_whole() -> None:
    result = planned(Candidate("whole", graph(trunk=False), 2, 4), GOOD)
    assert result.materialised == ("f",)
    assert "note: nothing below what learns is frozen in whole: trains whole" in result.explain()
    only = planned(Candidate("whole", graph(trunk=False), 2, 4))
    assert (only.materialised, only.theoretical_speedup, only.flops) == ((), 1.0, only.current_flops)


def test_no_disk_computes() -> None:
    result = planned(GOOD, disk_bytes=0)
    assert (result.materialised, result.groups[0].computes) == ((), ("f",))
    assert "note: disk_bytes=0: no layer's outputs fit" in result.explain()
    # A byte short of one layer.
    assert planned(GOOD, disk_bytes=100 * 20 - 1).materialised == ()
    assert planned(GOOD, disk_bytes=100 * 20).materialised == ("f",)


def test_a_slow_disk_is_not_read() -> None:
    wide = Layer("f", "conv", ("x",), (50,), flops=1000, fingerprint="f")
    head = Layer("y", "fc", ("f",), flops=9, param_bytes=8, frozen=False)
    result = planned(Candidate("a", LayerGraph([TRUNK[0], wide, head], ["y"]), 2, 4), costs=Costs(1e9, 1.0))
    assert result.materialised == ()
    assert "reading is slower than computing for all layers" in result.explain()


def test_workers_without_work_are_told() -> None:
    assert "1 group on 3 workers: the others are idle" in planned(GOOD, workers=3).explain()


def test_inner_bytes_include_the_output() -> None:
    with pytest.raises(GraphError, match="inner_bytes=3 is less than the 20 bytes"):
        Layer("block", "block", (), (5,), inner_bytes=3)
