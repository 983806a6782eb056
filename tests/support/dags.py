"""Layer graphs for the tests: known blocks, random DAGs, and an evaluator that is independent of cuts."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from optimizer.graph import Layer, LayerGraph, Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PRIME = 2**61 - 1

# A slow machine must not fail a property test.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def window(kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1, axes: int = 2) -> Window:
    return Window((kernel,) * axes, (stride,) * axes, (padding,) * axes, (dilation,) * axes)


def compute(layer: Layer, arguments: Iterable[int]) -> int:
    """Compute an integer from a layer and its arguments that changes with either, and with the arguments' order."""
    total = zlib.crc32(f"{layer.op}/{layer.fingerprint}/{layer.output_shape}/{layer.dtype}".encode())
    for argument in arguments:
        total = (total * 1_000_003 + argument) % PRIME
    return total


def run(graph: LayerGraph, tensors: Mapping[str, int], layers: Iterable[str]) -> dict[str, int]:
    """Run layers on the available tensors; a KeyError names a missing one."""
    values = dict(tensors)
    for name in layers:
        layer = graph[name]
        if layer.op == "input":
            raise KeyError(name)
        values[name] = compute(layer, [values[source] for source in layer.inputs])
    return values


def feed(graph: LayerGraph) -> dict[str, int]:
    """Return a value for each graph input, by name."""
    return {name: zlib.crc32(name.encode()) for name in graph.inputs}


def run_all(graph: LayerGraph) -> dict[str, int]:
    return run(graph, feed(graph), [name for name in graph.names if graph[name].op != "input"])


@st.composite
def graphs(draw: st.DrawFn, max_layers: int = 8) -> LayerGraph:
    """Draw a DAG with skips, repeated arguments, constants, dead ends and several outputs, in topological order."""
    shapes = st.tuples(st.integers(1, 3))
    layers = [Layer(f"x{i}", "input", (), draw(shapes)) for i in range(draw(st.integers(1, 2)))]
    for i in range(draw(st.integers(1, max_layers))):
        names = [layer.name for layer in layers]
        layers.append(
            Layer(
                name=f"l{i}",
                op=draw(st.sampled_from(["conv", "add"])),
                inputs=tuple(draw(st.lists(st.sampled_from(names), min_size=int(i > 0), max_size=3))),
                output_shape=draw(shapes),
                flops=2**i,
                param_bytes=3**i,
                frozen=draw(st.booleans()),
                fingerprint=draw(st.sampled_from(["", "p"])),
            )
        )
    names = [layer.name for layer in layers]
    return LayerGraph(layers, draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))


def some(graph: LayerGraph) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(graph.names), min_size=1, max_size=4, unique=True)


def residual_block() -> LayerGraph:
    """Build ``relu(conv2(relu(conv1(x))) + x)``."""
    shape = (64, 56, 56)
    conv: dict[str, Any] = {
        "flops": 2 * 9 * 64 * 64 * 56 * 56,
        "param_bytes": 4 * 9 * 64 * 64,
        "window": window(3, padding=1),
    }
    return LayerGraph(
        [
            Layer("x", "input", (), shape),
            Layer("conv1", "conv2d", ("x",), shape, fingerprint="1", **conv),
            Layer("relu1", "relu", ("conv1",), shape),
            Layer("conv2", "conv2d", ("relu1",), shape, fingerprint="2", **conv),
            Layer("sum", "add", ("conv2", "x"), shape),
            Layer("relu2", "relu", ("sum",), shape),
        ],
        ["relu2"],
    )


def dense_block(growth: int = 32, width: int = 64) -> LayerGraph:
    """Build three layers, each of which reads the concatenation of all previous ones."""
    layers = [Layer("x", "input", (), (width, 28, 28))]
    features = ["x"]
    for i in (1, 2, 3):
        shape = (width + growth * (i - 1), 28, 28)
        layers += [
            Layer(f"cat{i}", "concat", tuple(features), shape),
            Layer(
                f"conv{i}", "conv2d", (f"cat{i}",), (growth, 28, 28), window=window(3, padding=1), fingerprint=str(i)
            ),
        ]
        features.append(f"conv{i}")
    layers.append(Layer("out", "concat", tuple(features), (width + 3 * growth, 28, 28)))
    return LayerGraph(layers, ["out"])


ALEXNET_CONVS = [
    # name, kernel, stride, padding, channels in and out, output size, pooled
    ("conv1", 11, 4, 2, 3, 64, 55, True),
    ("conv2", 5, 1, 2, 64, 192, 27, True),
    ("conv3", 3, 1, 1, 192, 384, 13, False),
    ("conv4", 3, 1, 1, 384, 256, 13, False),
    ("conv5", 3, 1, 1, 256, 256, 13, True),
]
ALEXNET_DENSE = [("fc6", 9216, 4096), ("fc7", 4096, 4096), ("fc8", 4096, 1000)]


def alexnet() -> LayerGraph:
    """Build torchvision's AlexNet without its ReLUs."""
    layers = [Layer("image", "input", (), (3, 224, 224))]
    for name, kernel, stride, padding, old, new, size, pooled in ALEXNET_CONVS:
        weights = kernel * kernel * old * new
        layers.append(
            Layer(
                name,
                "conv2d",
                (layers[-1].name,),
                (new, size, size),
                flops=2 * weights * size * size,
                param_bytes=4 * (weights + new),
                fingerprint=name,
                window=window(kernel, stride, padding),
            )
        )
        if pooled:
            half = (size - 3) // 2 + 1
            layers.append(Layer(f"pool{name[-1]}", "max_pool", (name,), (new, half, half), window=window(3, 2)))
    layers.append(Layer("flat", "flatten", (layers[-1].name,), (9216,)))
    for name, old, new in ALEXNET_DENSE:
        cost: dict[str, Any] = {"flops": 2 * old * new, "param_bytes": 4 * (old * new + new)}
        layers.append(Layer(name, "linear", (layers[-1].name,), (new,), fingerprint=name, **cost))
    return LayerGraph(layers, ["fc8"])
