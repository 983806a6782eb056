"""The algebra of update patches, against brute force and the figures of the paper."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.graph import Layer, LayerGraph, Window
from optimizer.occlusion import OcclusionGrid, PatchError, Span, stage_one_stride, update_patches


def sees(window: Window, axis: int, at: int) -> set[int]:
    """Inputs that an output's window looks at."""
    first = at * window.stride[axis] - window.padding[axis]
    return {first + step * window.dilation[axis] for step in range(window.kernel[axis])}


def outputs(extent: int, window: Window, axis: int) -> int:
    reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1
    return (extent + 2 * window.padding[axis] - reach) // window.stride[axis] + 1


@st.composite
def windows(draw: st.DrawFn, extents: tuple[int, ...]) -> Window:
    """Any that leaves something of the tensor."""
    found: dict[str, list[int]] = {"kernel": [], "stride": [], "padding": [], "dilation": []}
    for extent in extents:
        kernel = draw(st.integers(1, min(4, extent)))
        dilation = draw(st.integers(1, 2)) if (kernel - 1) * 2 < extent else 1
        found["kernel"].append(kernel)
        found["stride"].append(draw(st.integers(1, 3)))
        found["padding"].append(draw(st.integers(0, (kernel - 1) * dilation)))
        found["dilation"].append(dilation)
    return Window(**{name: tuple(values) for name, values in found.items()})


@st.composite
def networks(draw: st.DrawFn) -> tuple[LayerGraph, OcclusionGrid]:
    """Chains of windows, with branches that are added or concatenated, and a layer that sees everything at the end."""
    axes = draw(st.integers(1, 2))
    image = tuple(draw(st.integers(6, 14)) for _ in range(axes))
    layers = [Layer("image", "input", (), (2, *image))]
    for number in range(draw(st.integers(1, 6))):
        below = draw(st.sampled_from(layers))
        extents = below.output_shape[1:]
        twins = [one for one in layers if one.output_shape == below.output_shape]
        kind = draw(st.sampled_from(["conv", "pool", "relu", "add", "cat"]))
        name = f"l{number}"
        if kind in {"conv", "pool"}:
            window = draw(windows(extents))
            shape = tuple(outputs(extent, window, axis) for axis, extent in enumerate(extents))
            if min(shape) < 1:
                continue
            op = f"Conv{axes}d" if kind == "conv" else f"MaxPool{axes}d"
            layers.append(Layer(name, op, (below.name,), (2, *shape), flops=math.prod(shape) * 100, window=window))
        elif kind == "relu":
            layers.append(Layer(name, "ReLU", (below.name,), below.output_shape, flops=1))
        else:
            other = draw(st.sampled_from(twins))
            channels = 2 if kind == "add" else 4
            if kind == "cat" and draw(st.booleans()):
                continue
            layers.append(Layer(name, kind, (below.name, other.name), (channels, *extents)))
    head = Layer("head", "Linear", (layers[-1].name,), (3,), flops=7)
    patch = tuple(draw(st.integers(1, extent // 2)) for extent in image)
    stride = tuple(draw(st.integers(1, 4)) for _ in range(axes))
    return LayerGraph([*layers, head], ["head"]).subgraph(["head"]), OcclusionGrid(image, patch, stride)


def brute(graph: LayerGraph, axis: int, patch: range) -> dict[str, set[int]]:
    """Compute the changes along one axis, element by element, if every element of the patch changes."""
    changed: dict[str, set[int]] = {}
    for layer in graph:
        if layer.op == "input":
            changed[layer.name] = set(patch)
        elif layer.name != "head":
            below = set().union(*(changed[name] for name in layer.inputs))
            if layer.window is not None:
                extent = layer.output_shape[1 + axis]
                below = {at for at in range(extent) if sees(layer.window, axis, at) & below}
            changed[layer.name] = below
    return changed


@settings(max_examples=400, deadline=None)
@given(networks())
def test_spans_are_the_hulls_of_what_changes(case: tuple[LayerGraph, OcclusionGrid]) -> None:
    graph, grid = case
    found = update_patches(graph, grid)
    assert found.whole == ("head",)
    for axis in range(len(grid.image)):
        for place, start in enumerate(grid.starts(axis)):
            truth = brute(graph, axis, range(start, start + grid.patch[axis]))
            for name, spans in found.spans.items():
                span = spans[axis]
                held = set(range(span.start[place], span.stop[place]))
                assert truth[name] <= held, "a change is missed"
                # A hull of hulls may be wider where a dilated window leaves holes; else it is the hull itself.
                solid = all(one.window is None or max(one.window.dilation) == 1 for one in graph)
                solid &= all(one.window is None or max(one.window.stride) == 1 for one in graph)
                if solid and truth[name] and not any(one.op in {"add", "cat"} for one in graph):
                    assert held == set(range(min(truth[name]), max(truth[name]) + 1))


@settings(max_examples=200, deadline=None)
@given(networks())
def test_flops_are_those_of_the_spans(case: tuple[LayerGraph, OcclusionGrid]) -> None:
    graph, grid = case
    found = update_patches(graph, grid)
    each = [found.flops(*index) for index in itertools.product(*map(range, grid.shape))]
    assert np.isclose(np.mean(each), found.mean_flops)
    assert max(each) <= found.uniform_flops * (1 + 1e-12)
    assert found.mean_flops <= found.full_flops * (1 + 1e-12)
    assert found.whole_flops == 7
    tight = update_patches(graph, grid, threshold=0.5)
    assert tight.mean_flops <= found.mean_flops * (1 + 1e-12)
    for name, spans in tight.spans.items():
        if name != "image":
            for axis, span in enumerate(spans):
                assert span.lengths.max() <= max(1, round(0.5 * graph[name].output_shape[1 + axis]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_read_in_context_is_what_the_window_looks_at(data: st.DataObject) -> None:
    extent = data.draw(st.integers(4, 20))
    window = data.draw(windows((extent,)))
    out = outputs(extent, window, 0)
    start = data.draw(st.integers(0, out - 1))
    stop = data.draw(st.integers(start + 1, out))
    ((kernel,), (stride,), (padding,), (dilation,)) = window.kernel, window.stride, window.padding, window.dilation
    read = Span(np.array([start]), np.array([stop])).reads(kernel, stride, padding, dilation)
    looked_at = set().union(*(sees(window, 0, at) for at in range(start, stop)))
    assert (read.start[0], read.stop[0]) == (min(looked_at), max(looked_at) + 1)


def test_a_layer_that_is_not_known_is_computed_in_full_and_all_above_it() -> None:
    three = Window((3, 3), (1, 1), (1, 1), (1, 1))
    layers = [
        Layer("image", "input", (), (3, 8, 8)),
        Layer("conv", "Conv2d", ("image",), (4, 8, 8), flops=10, window=three),
        Layer("pool", "AdaptiveAvgPool2d", ("conv",), (4, 1, 1)),
        Layer("gate", "Sigmoid", ("pool",), (4, 1, 1)),
        Layer("scaled", "mul", ("conv", "gate"), (4, 8, 8)),
        Layer("odd", "FourierMixer", ("conv",), (4, 8, 8)),
        Layer("more", "Conv2d", ("odd",), (4, 8, 8), flops=10, window=three),
    ]
    found = update_patches(LayerGraph(layers, ["scaled", "more"]), OcclusionGrid((8, 8), (2, 2), (2, 2)))
    assert tuple(found.spans) == ("image", "conv")
    assert set(found.whole) == {"pool", "gate", "scaled", "odd", "more"}
    assert found.frontier == ("conv",)
    assert "2 layers incremental up to conv, 5 in full" in found.explain()


def test_channels_may_come_last() -> None:
    window = Window((3, 3), (2, 2), (1, 1), (1, 1))
    found = {}
    for last in (False, True):
        shapes = [(3, 9, 7), (4, 5, 4)]
        image, conv = ((*shape[1:], shape[0]) if last else shape for shape in shapes)
        layers = [Layer("i", "input", (), image), Layer("c", "Conv2D", ("i",), conv, flops=60, window=window)]
        patches = update_patches(LayerGraph(layers, ["c"]), OcclusionGrid((9, 7), (2, 3), (1, 1)))
        found[last] = (patches.mean_flops, [span.lengths.tolist() for span in patches.spans["c"]])
    assert found[False] == found[True]


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({"patch": (9, 2)}, "patch on axis 0 must fit into 8, got 9"),
        ({"region": ((0, 9), (0, 8))}, "region on axis 0 must be within 0 and 8, got 0 to 9"),
        ({"region": ((3, 4), (0, 8))}, "patch on axis 0 must fit into 1, got 2"),
        ({"stride": (0, 1)}, "must be at least 1"),
        ({"patch": (2,)}, "one entry per axis"),
    ],
)
def test_a_grid_that_cannot_be(settings_: dict[str, Any], said: str) -> None:
    with pytest.raises(PatchError, match=said):
        OcclusionGrid(**{"image": (8, 8), "patch": (2, 2), "stride": (2, 2)} | settings_)


def test_the_last_row_is_there() -> None:
    """Equation 6.1 has 52 columns of a patch of 16 every 4 pixels of 224; the 53rd fits as well."""
    grid = OcclusionGrid((224, 224), (16, 16), (4, 4))
    assert grid.shape == (53, 53)
    assert grid.starts(0)[-1] + 16 == 224


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=3), st.data()
)
def test_every_pixel_of_the_region_is_covered(axes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    patch = tuple(patch for _, patch, _ in axes)
    stride = tuple(min(step, patch) for _, patch, step in axes)
    spans = [patch + beyond for beyond, patch, _ in axes]
    before = [data.draw(st.integers(0, 3)) for _ in axes]
    region = tuple((start, start + span) for start, span in zip(before, spans, strict=True))
    image = tuple(last + data.draw(st.integers(0, 3)) for _, last in region)
    grid = OcclusionGrid(image, patch, stride, region)
    assert grid.count == math.prod(grid.shape)
    for axis, (first, last) in enumerate(region):
        starts = grid.starts(axis)
        covered = {pixel for start in starts for pixel in range(start, start + patch[axis])}
        assert covered == set(range(first, last)), "no pixel is missed, and none outside of the region is touched"
        assert len(starts) == grid.shape[axis] == len(set(starts.tolist()))
        steps = np.diff(starts)
        assert (steps[:-1] == stride[axis]).all(), "only the last place may be nearer"
        assert (steps <= stride[axis]).all()
        assert len(starts) == 1 + math.ceil((last - first - patch[axis]) / stride[axis]), "no place is superfluous"


def test_the_last_place_of_inception_is_flush_with_the_border() -> None:
    grid = OcclusionGrid((299, 299), (16, 16), (4, 4))
    assert grid.shape == (72, 72)
    assert grid.starts(0)[[0, 1, -2, -1]].tolist() == [0, 4, 280, 283]
    assert "72 x 72 places" in grid.explain()
    assert "on axis 0 every 4 from 0 to 280, and at 283, flush with the border" in grid.explain()
    assert "starts=[[0, 4, ..., 280, 283], [0, 4, ..., 280, 283]]" in repr(grid)
    divided = OcclusionGrid((224, 20), (16, 20), (4, 4))
    assert "flush" not in divided.explain()
    assert divided.explain().endswith("on axis 1 at 0")


def speedup(first: int, second: int, fraction: float) -> float:
    """Equation 6.28."""
    return first**2 / (second**2 + fraction * first**2)


def test_drill_down() -> None:
    for target, fraction in ((3, 0.25), (5, 0.1), (2, 0.4)):
        stride = stage_one_stride(target, 4, fraction, 224)
        assert speedup(stride, 4, fraction) >= target > speedup(stride - 1, 4, fraction)
    with pytest.raises(PatchError, match=r"below 4\.00"):
        stage_one_stride(4, 4, 0.25, 100_000)
    with pytest.raises(PatchError, match="from 0 to 1"):
        stage_one_stride(3, 4, 1.5, 224)
