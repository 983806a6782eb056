from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from dags import alexnet, dense_block, residual_block, unhurried, window
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import GraphError
from optimizer.graph import Layer, LayerGraph, ReceptiveField, Window, receptive_field

IMAGE = Layer("x", "input", (), (3, 224, 224))


def square(size: int, stride: int, start: int) -> ReceptiveField:
    return ReceptiveField((size, size), (stride, stride), (start, start))


def vgg16() -> LayerGraph:
    layers, size, channels = [IMAGE], 224, 64
    for block, depth in enumerate([2, 2, 3, 3, 3], start=1):
        for i in range(1, depth + 1):
            shape = (channels, size, size)
            layers.append(Layer(f"conv{block}_{i}", "conv2d", (layers[-1].name,), shape, window=window(3, padding=1)))
            layers.append(Layer(f"relu{block}_{i}", "relu", (layers[-1].name,), shape))
        size //= 2
        layers.append(Layer(f"pool{block}", "pool", (layers[-1].name,), (channels, size, size), window=window(2, 2)))
        channels = min(2 * channels, 512)
    layers.append(Layer("flat", "flatten", ("pool5",), (25088,)))
    return LayerGraph([*layers, Layer("fc6", "linear", ("flat",), (4096,))], ["fc6"])


def resnet18() -> LayerGraph:
    layers = [
        IMAGE,
        Layer("conv1", "conv2d", ("x",), (64, 112, 112), window=window(7, 2, 3)),
        Layer("maxpool", "pool", ("conv1",), (64, 56, 56), window=window(3, 2, 1)),
    ]
    size, channels, before = 56, 64, "maxpool"
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            stride = 2 if stage > 1 and block == 0 else 1
            size //= stride
            shape, name, skip = (channels, size, size), f"layer{stage}.{block}", before
            if stride > 1:
                skip = f"{name}.down"
                layers.append(Layer(skip, "conv2d", (before,), shape, window=window(1, 2)))
            layers += [
                Layer(f"{name}.a", "conv2d", (before,), shape, window=window(3, stride, 1)),
                Layer(f"{name}.b", "conv2d", (f"{name}.a",), shape, window=window(3, 1, 1)),
                Layer(name, "add", (f"{name}.b", skip), shape),
            ]
            before = name
        channels *= 2
    layers.append(Layer("avgpool", "global_pool", (before,), (512, 1, 1)))
    return LayerGraph(layers, ["avgpool"])


@pytest.mark.parametrize(
    ("name", "size", "stride"),
    [
        ("conv1_2", 5, 1),
        ("pool1", 6, 2),
        ("pool2", 16, 4),
        ("pool3", 44, 8),
        ("pool4", 100, 16),
        ("conv5_3", 196, 16),
        ("pool5", 212, 32),
    ],
)
def test_vgg16(name: str, size: int, stride: int) -> None:
    field = receptive_field(vgg16(), name)
    assert (field.size, field.stride) == ((size, size), (stride, stride))


@pytest.mark.parametrize(
    ("name", "size", "stride"),
    [
        ("conv1", 7, 2),
        ("maxpool", 11, 4),
        ("layer1.1", 43, 4),
        ("layer2.1", 99, 8),
        ("layer3.1", 211, 16),
        ("layer4.1", 435, 32),
    ],
)
def test_resnet18(name: str, size: int, stride: int) -> None:
    field = receptive_field(resnet18(), name)
    # Every kernel is odd and its padding half of it, so element 0 is centred on pixel 0.
    assert field == square(size, stride, -(size // 2))


def test_alexnet() -> None:
    assert receptive_field(alexnet(), "pool5") == square(195, 32, -66)
    assert receptive_field(alexnet(), "conv5", of="conv3") == square(5, 1, -2)
    assert receptive_field(alexnet(), "conv3", of="conv3") == square(1, 1, 0)


def test_branches_unite() -> None:
    assert receptive_field(residual_block(), "relu2") == square(5, 1, -2)
    assert receptive_field(dense_block(), "out") == square(7, 1, -3)
    even = LayerGraph(
        [
            IMAGE,
            Layer("left", "conv2d", ("x",), (8, 224, 224), window=window(2, padding=1)),
            Layer("right", "conv2d", ("x",), (8, 224, 224), window=window(2, dilation=3)),
            Layer("both", "add", ("left", "right"), (8, 224, 224)),
        ],
        ["both"],
    )
    assert receptive_field(even, "both") == square(5, 1, -1)


def test_axes_differ() -> None:
    wide = Window((1, 7), (1, 2), (0, 3), (1, 1))
    graph = LayerGraph([IMAGE, Layer("a", "conv2d", ("x",), (8, 224, 112), window=wide)], ["a"])
    field = receptive_field(graph, "a")
    assert field == ReceptiveField((1, 7), (1, 2), (0, -3))
    assert field.at(5, 10) == ((5, 6), (17, 24))


def one(layer: Layer, *more: Layer) -> LayerGraph:
    return LayerGraph([IMAGE, layer, *more], [(layer, *more)[-1].name])


@pytest.mark.parametrize(
    "shape", [(150528,), (3, 1, 1), (1, 1, 3), (3, 112, 112), (3, 112, 224), (8, 224, 112), (3, 224, 224, 1)]
)
def test_geometry_destroyed(shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphError, match=r"'y' \(op\) destroys the geometry"):
        receptive_field(one(Layer("y", "op", ("x",), shape)), "y")


@pytest.mark.parametrize("shape", [(3, 224, 224), (8, 224, 224)])
def test_pointwise_may_change_the_channels(shape: tuple[int, ...]) -> None:
    assert receptive_field(one(Layer("y", "op", ("x",), shape)), "y") == square(1, 1, 0)


def test_flatten_ends_the_geometry() -> None:
    with pytest.raises(GraphError, match="'flat'"):
        receptive_field(vgg16(), "fc6")
    with pytest.raises(GraphError, match="'avgpool'"):
        receptive_field(resnet18(), "avgpool")


def test_questions_without_an_answer() -> None:
    half = Layer("half", "pool", ("x",), (3, 224, 224), window=window(1, 2))
    with pytest.raises(GraphError, match="branches of strides"):
        receptive_field(one(half, Layer("sum", "add", ("half", "x"), (3, 224, 224))), "sum")
    line = Layer("line", "conv1d", ("half",), (3, 224, 224), window=window(1, axes=1))
    with pytest.raises(GraphError, match="different numbers of spatial axes"):
        receptive_field(one(half, line), "line")
    with pytest.raises(GraphError, match="'x' does not depend on 'half'"):
        receptive_field(one(half), "x", of="half")
    other = Layer("z", "input", (), (3, 224, 224))
    pair = one(other, Layer("sum", "add", ("x", "z"), (3, 224, 224)))
    with pytest.raises(GraphError, match="depends on 2 graph inputs x, z"):
        receptive_field(pair, "sum")
    assert receptive_field(pair, "sum", of="z") == square(1, 1, 0)


def slide(x: npt.NDArray[np.float64], w: Window) -> npt.NDArray[np.float64]:
    """A 1-D window with positive weights over each row, as a framework would: pad, then slice."""
    (kernel,), (stride,), (padding,), (dilation,) = w.kernel, w.stride, w.padding, w.dilation
    cropped = x[:, max(-padding, 0) :]
    padded = np.pad(cropped, ((0, 0), (max(padding, 0), kernel * dilation)))
    length = (x.shape[1] - 1) // stride + 1
    out = np.zeros((len(x), length))
    for t in range(kernel):
        tap = padded[:, t * dilation :: stride][:, :length]
        out[:, : tap.shape[1]] += (t + 1) * tap
    return out


WINDOWS = st.builds(
    window, st.integers(1, 4), st.just(1), padding=st.integers(-1, 3), dilation=st.integers(1, 3), axes=st.just(1)
)
STRIDES = st.integers(1, 2)


@unhurried
@given(st.data())
def test_against_perturbation(data: st.DataObject) -> None:
    length, jump = 240, 1
    layers = [Layer("x", "input", (), (1, length))]
    for i in range(data.draw(st.integers(1, 3))):
        stride = data.draw(STRIDES)
        jump *= stride
        before, shape = layers[-1].name, (1, (layers[-1].output_shape[1] - 1) // stride + 1)
        branches = []
        for j, first in enumerate(data.draw(st.lists(WINDOWS, min_size=1, max_size=3))):
            strided = Window(first.kernel, (stride,), first.padding, first.dilation)
            layers.append(Layer(f"{i}.{j}", "conv1d", (before,), shape, window=strided))
            branches.append(f"{i}.{j}")
        layers.append(Layer(f"sum{i}", "add", tuple(branches), shape))
    graph = LayerGraph(layers, [layers[-1].name])
    name = graph.outputs[0]

    def forward(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        values = {"x": x}
        for layer in graph.layers[1:]:
            sources = [values[source] for source in layer.inputs]
            values[layer.name] = np.sum(sources, axis=0) if layer.window is None else slide(sources[0], layer.window)
        return values[name]

    # One record an input element; with positive weights nothing cancels.
    seen = forward(np.eye(length)) > 0
    field = receptive_field(graph, name)
    inside = 0
    for i in range(seen.shape[1]):
        ((start, stop),) = field.at(i)
        touched = np.flatnonzero(seen[:, i])
        assert all(start <= t < stop for t in touched)
        # Away from the borders, where padding hides inner taps too, the bound is reached at both ends.
        margin = 70
        if start >= margin and stop <= length - margin:
            assert (touched[0], touched[-1] + 1) == (start, stop)
            inside += 1
    assert inside
    assert field.stride == (jump,)
