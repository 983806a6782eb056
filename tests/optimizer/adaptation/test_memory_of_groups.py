"""What a group holds: parameters, slots, gradients, workspace and live tensors, against a count by hand."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.adaptation import AdaptationPlan, Candidate, Costs, plan
from optimizer.graph import Layer, LayerGraph
from optimizer.memory import InfeasiblePlanError

TRUNK = [Layer("x", "input", (), (8,)), Layer("f", "conv", ("x",), (5,), flops=1000, param_bytes=600, fingerprint="f")]


def net(name: str, width: int, **settings_: int) -> Candidate:
    hidden = Layer("hidden", "fc", ("f",), (width,), flops=10, param_bytes=20 * width, frozen=False)
    out = Layer("out", "fc", ("hidden",), (1,), flops=10, param_bytes=4 * width, frozen=False)
    return Candidate(name, LayerGraph([*TRUNK, hidden, out], ["out"]), 2, 16, **settings_)


def planned(*candidates: Candidate, **settings_: Any) -> AdaptationPlan:
    values = {"records": 100, "disk_bytes": 0, "memory_bytes": 10**9, "costs": Costs(1.0, 1.0)}
    return plan(candidates, **(values | settings_))


def test_one_after_the_other_only_the_largest_branch_counts() -> None:
    wide, narrow = net("wide", 50), net("narrow", 10)
    both = planned(wide, narrow, workspace_bytes=7)
    (group,) = both.groups
    # Trunk, then parameters and two slots of both, then gradients and live tensors of the wide one.
    kept = 600 + 3 * 24 * (50 + 10)
    live = 16 * 4 * (5 + 50 + 1 + 50)
    assert group.memory_bytes == 7 + kept + 24 * 50 + live


def test_slots_are_the_optimizers() -> None:
    sizes = [planned(net("a", 50, slots=slots)).groups[0].memory_bytes for slots in (0, 1, 2)]
    assert [sizes[1] - sizes[0], sizes[2] - sizes[1]] == [24 * 50, 24 * 50]


def test_parameters_of_layers_that_are_read_count() -> None:
    """A worker has opened the model; the paper counts only the layers that run."""
    read, run = (planned(net("a", 50), disk_bytes=disk).groups[0] for disk in (10**9, 0))
    assert (read.loads, run.loads) == (("f",), ("x",))
    assert run.memory_bytes == read.memory_bytes


def test_a_trunk_that_is_wider_than_the_branch_makes_the_peak() -> None:
    wide = [Layer(f"w{i}", "conv", ("x",), (100,), flops=5, fingerprint=f"{i}") for i in range(10)]
    total = Layer("sum", "add", tuple(layer.name for layer in wide), (1,), flops=5)
    head = Layer("head", "fc", ("sum",), (1,), param_bytes=4, flops=1, frozen=False)
    graph = LayerGraph([TRUNK[0], *wide, total, head], ["head"])
    (group,) = planned(Candidate("a", graph, 1, 16, slots=0)).groups
    assert group.memory_bytes == 4 + 16 * 4 * (8 + 10 * 100)


def test_no_group_is_larger_than_the_memory() -> None:
    chosen = [net(f"c{i}", 10 + i % 3) for i in range(12)]
    alone = max(group.memory_bytes for group in planned(*chosen, fuse=False).groups)
    sizes = []
    for memory in (alone, int(1.5 * alone), 3 * alone, 10**9):
        result = planned(*chosen, memory_bytes=memory)
        assert max(group.memory_bytes for group in result.groups) <= memory
        sizes.append(len(result.groups))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1 < sizes[1]


def test_a_unit_is_filled_before_the_next_begins() -> None:
    """Six fit: pairs that double would stop at four."""
    chosen = [net(f"c{i}", 10, slots=0) for i in range(12)]
    six = planned(*chosen[:6]).groups[0].memory_bytes
    assert [len(group.members) for group in planned(*chosen, memory_bytes=six).groups] == [6, 6]


def test_a_candidate_that_does_not_fit_is_named() -> None:
    needed = planned(net("large", 50)).groups[0].memory_bytes
    with pytest.raises(
        InfeasiblePlanError, match=f"memory_bytes must be at least {needed:,} for candidate 'large'"
    ) as refused:
        planned(net("small", 1), net("large", 50), memory_bytes=needed - 3)
    assert (refused.value.constraint, refused.value.short_bytes) == ("memory", 3)
    assert planned(net("small", 1), net("large", 50), memory_bytes=needed).groups[0].memory_bytes <= needed
