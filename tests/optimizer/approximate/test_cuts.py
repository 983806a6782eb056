from __future__ import annotations

from itertools import combinations

from optimizer.approximate import POLICIES, Budget, Scheduler, Task, Variant, split_cuts
from optimizer.graph import Layer, LayerGraph


def residual() -> LayerGraph:
    layers = [
        Layer("x", "input", output_shape=(3, 8, 8)),
        Layer("stem", "conv2d", ("x",), (8, 4, 4), flops=400, param_bytes=100, fingerprint="a"),
        Layer("left", "conv2d", ("stem",), (2, 4, 4), flops=300, param_bytes=300, fingerprint="b"),
        Layer("right", "conv2d", ("stem",), (1, 4, 4), flops=100, param_bytes=100, fingerprint="c"),
        Layer("both", "concat", ("left", "right"), (3, 4, 4)),
        Layer("scores", "linear", ("both",), (5,), flops=200, param_bytes=500, fingerprint="d"),
    ]
    return LayerGraph(layers, ["scores"])


def test_the_front_is_that_of_all_sets_of_layers_closed_under_their_inputs() -> None:
    graph = residual()
    costs = set()
    for size in range(1, len(graph)):
        for below in combinations(graph.names, size):
            if set(graph.ancestors(below)) == set(below):
                cut = graph.cut(below)
                share = max(graph.flops(below) / graph.flops(), graph.param_bytes(below) / graph.param_bytes())
                if 0 < share < 1:
                    costs.add((share, cut.live_bytes))
    front = sorted(
        cost
        for cost in costs
        if not any(other[0] <= cost[0] and other[1] <= cost[1] and other != cost for other in costs)
    )
    cuts = split_cuts(graph)
    assert [(cut.prefix, cut.cut.live_bytes) for cut in cuts] == front
    # Both branches are below the second cut, whose tensor is smaller than that of the stem.
    assert [cut.place for cut in cuts] == ["split 0.4", "split 0.8"]
    assert set(cuts[1].cut.below) >= {"left", "right"}
    assert cuts[1].split(0.05).send_joules == 0.05 * cuts[1].cut.live_bytes / 1e3


def test_a_network_of_a_single_layer_has_no_cut() -> None:
    layers = [Layer("x", "input", output_shape=(3,)), Layer("y", "linear", ("x",), (2,), flops=12, fingerprint="a")]
    assert split_cuts(LayerGraph(layers, ["y"])) == ()


def test_policies_do_not_choose_or_load_blocked_options() -> None:
    variants = (Variant("full", 0.9, 500, 5, 2), Variant("small", 0.8, 100, 1, 0.5))
    for make in POLICIES.values():
        scheduler = Scheduler([Task("scene", variants)], Budget(10_000, 600, seconds=100), make())
        full = scheduler.state.options[0][0]
        scheduler.state.blocked = {full}
        for second in range(20):
            decision = scheduler.decide("scene", now=second)
            assert full not in {decision.option, decision.prefetch}
