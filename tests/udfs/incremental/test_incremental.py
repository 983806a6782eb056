"""Incremental inference gives what the whole network gives for every place of the patch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch import nn

from optimizer.occlusion import OcclusionGrid, PatchError
from udfs.handlers import TensorSpec, framework
from udfs.incremental import IncrementalNetwork, buckets
from vista_spark.roster import card, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.handlers.torch import TorchModel


def naive(model: TorchModel, image: torch.Tensor, fill: torch.Tensor, grid: OcclusionGrid) -> np.ndarray:
    """The whole network for every place; shape (*heat map, outputs)."""
    found = np.empty((*grid.shape, 0))
    for index in np.ndindex(*grid.shape):
        other = image.clone()
        at = tuple(
            slice(grid.starts(axis)[place], grid.starts(axis)[place] + grid.patch[axis])
            for axis, place in enumerate(index)
        )
        other[(slice(None), slice(None), *at)] = fill.reshape(1, -1, *(1,) * len(grid.image))
        (name,) = model.graph.outputs
        output = model.tensors({model.graph.inputs[0]: other}, [name])[name][0].detach().numpy().ravel()
        if not found.shape[-1]:
            found = np.empty((*grid.shape, len(output)))
        found[index] = output
    return found


def incremental(
    network: IncrementalNetwork, image: torch.Tensor, fill: torch.Tensor, batch_size: int = 7
) -> np.ndarray:
    (name,) = network.patches.graph.outputs
    found: dict[tuple[int, ...], np.ndarray] = {}
    for index, outputs in network.outputs(network.materialise(image), fill, batch_size=batch_size):
        for place, output in zip(index, outputs[name], strict=True):
            assert tuple(place) not in found, "twice"
            found[tuple(place)] = output.detach().numpy().ravel()
    shape = network.patches.grid.shape
    assert len(found) == np.prod(shape)
    return np.array([found[index] for index in np.ndindex(*shape)]).reshape(*shape, -1)


class Network(nn.Module):
    """Layers of a plan: each reads earlier ones by place."""

    def __init__(self, steps: list[tuple[str, tuple[int, ...], nn.Module | None]], axes: int) -> None:
        super().__init__()
        self.steps = [(kind, reads, str(number)) for number, (kind, reads, _) in enumerate(steps)]
        self.parts = nn.ModuleDict({str(number): made for number, (_, _, made) in enumerate(steps) if made is not None})
        self.head = nn.Sequential(
            (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)[axes - 1](2), nn.Flatten(), nn.LazyLinear(3)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        values = [image]
        for kind, reads, name in self.steps:
            read = [values[place] for place in reads]
            if kind == "add":
                values.append(read[0] + read[1])
            elif kind == "cat":
                values.append(torch.cat(read, dim=1))
            else:
                values.append(self.parts[name](read[0]))
        return self.head(values[-1])


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Module, OcclusionGrid]:
    torch.manual_seed(draw(st.integers(0, 1000)))
    axes = draw(st.integers(1, 2))
    image = tuple(draw(st.integers(12, 20)) for _ in range(axes))
    shapes: list[tuple[int, ...]] = [(2, *image)]
    steps: list[tuple[str, tuple[int, ...], nn.Module | None]] = []
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(max(0, len(shapes) - 3), len(shapes) - 1))
        channels, *extents = shapes[place]
        kind = draw(st.sampled_from(["conv", "conv", "max", "avg", "norm", "relu", "add", "cat"]))
        made: nn.Module | None = None
        reads = (place,)
        if kind == "conv":
            kernel, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 2))
            out, groups = draw(st.sampled_from([(2, 1), (4, 2), (4, 1)]))
            made = (nn.Conv1d, nn.Conv2d)[axes - 1](
                channels, out, kernel, stride=draw(st.integers(1, 3)), padding=draw(st.integers(0, 2)),
                dilation=dilation, groups=groups if channels % groups == 0 else 1,
            )  # fmt: skip
        elif kind in {"max", "avg"}:
            kernel = draw(st.integers(2, 3))
            pool = (nn.MaxPool1d, nn.MaxPool2d) if kind == "max" else (nn.AvgPool1d, nn.AvgPool2d)
            made = pool[axes - 1](kernel, stride=draw(st.integers(1, 3)), padding=draw(st.integers(0, 1)))
            made.ceil_mode = draw(st.booleans())
        elif kind == "norm":
            made = (nn.BatchNorm1d, nn.BatchNorm2d)[axes - 1](channels)
            nn.init.uniform_(made.running_mean)
        elif kind == "relu":
            made = nn.ReLU(inplace=False)
        else:
            twins = [number for number, shape in enumerate(shapes) if shape == shapes[place]]
            reads = (place, draw(st.sampled_from(twins)))
        if made is not None:
            try:
                shape = tuple(made.eval()(torch.zeros(1, channels, *extents)).shape[1:])
            except RuntimeError:
                continue  # the kernel is larger than what is left
            if min(shape) < 1:
                continue
        else:
            shape = (2 * channels if kind == "cat" else channels, *extents)
        shapes.append(shape)
        steps.append((kind, reads, made))
    net = Network(steps, axes).eval()
    net(torch.zeros(1, 2, *image))  # the lazy layer's size
    patch = tuple(draw(st.integers(1, 6)) for _ in image)
    return net, OcclusionGrid(image, patch, tuple(draw(st.integers(1, 4)) for _ in image))


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(1, 3), st.sampled_from([5, 64]))
def test_every_place_of_the_patch(case: tuple[nn.Module, OcclusionGrid], parts: int, batch_size: int) -> None:
    net, grid = case
    model = framework("torch").trace(net, [TensorSpec((2, *grid.image))])
    image, fill = torch.randn(1, 2, *grid.image), torch.randn(2)
    network = IncrementalNetwork(model, grid, buckets=parts)
    found = incremental(network, image, fill, batch_size)
    np.testing.assert_allclose(found, naive(model, image, fill, grid), atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(networks(), st.sampled_from([5, 64]))
def test_every_place_in_bfloat16(case: tuple[nn.Module, OcclusionGrid], batch_size: int) -> None:
    """As the network in bfloat16 gives it from the whole image, to the rounding of what lies between."""
    net, grid = case
    model = framework("torch").trace(net, [TensorSpec((2, *grid.image))])
    image, fill = torch.randn(1, 2, *grid.image).bfloat16(), torch.randn(2).bfloat16()
    network = IncrementalNetwork(model, grid, bfloat16=True)
    found = incremental(network, image.float(), fill.float(), batch_size)
    theirs = naive(model.fused().bfloat16(), image, fill, grid)
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(found / scale, theirs / scale, atol=0.03)
    views = network.materialise(image.float())
    (name,) = model.graph.outputs
    torch.testing.assert_close(views.outputs[name], net(image.float()))


def test_a_network_that_is_not_to_be_had_in_bfloat16() -> None:
    class Precise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(image).float()).flatten(1).softmax(1) @ torch.eye(128)

    model = framework("torch").trace(Precise().eval(), [TensorSpec((1, 12, 12))])
    grid, image = OcclusionGrid((12, 12), (2, 2), (5, 5)), torch.ones(1, 1, 12, 12)
    IncrementalNetwork(model, grid).materialise(image)
    with pytest.raises(PatchError, match=r"does not run in bfloat16 .*: take float32"):
        IncrementalNetwork(model, grid, bfloat16=True).materialise(image)


def extended(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.extended)


@pytest.mark.parametrize(
    "name",
    ["mobilenet_v2", "resnet18", extended("squeezenet1_1"), extended("inception_v3"), extended("alexnet"),
     extended("vgg16"), extended("resnet50")],
)  # fmt: skip
def test_the_networks_of_the_roster(name: str) -> None:
    """At the corners, at the last row and column, and between."""
    (spec,) = card(name).preprocessing.inputs
    model = framework("torch").trace(load(name), [spec])
    side = spec.shape[1]
    grid = OcclusionGrid((side, side), (16, 16), ((side - 16) // 3, (side - 16) // 2))
    assert grid.starts(1)[-1] + 16 >= side - 1
    image, fill = torch.rand(1, *spec.shape), torch.zeros(3)
    network = IncrementalNetwork(model, grid, buckets=2)
    theirs = naive(model, image, fill, grid)
    assert not np.allclose(theirs[0, 0], theirs[2, 1]), "the patch changes nothing"
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(incremental(network, image, fill) / scale, theirs / scale, atol=1e-5)


def small(tail: Callable[[], nn.Module]) -> TorchModel:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), tail(), nn.Flatten(), nn.LazyLinear(2)).eval()
    net(torch.zeros(1, 1, 12, 12))
    return framework("torch").trace(net, [TensorSpec((1, 12, 12))])


@pytest.mark.parametrize(
    "tail",
    [
        lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        lambda: nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Softmax2d,
        lambda: nn.ConvTranspose2d(4, 4, 3),
        lambda: nn.GroupNorm(2, 4),
    ],
)
def test_what_cannot_be_computed_in_parts_is_computed_in_full(tail: Callable[[], nn.Module]) -> None:
    model, grid = small(tail), OcclusionGrid((12, 12), (3, 3), (3, 3))
    network = IncrementalNetwork(model, grid)
    assert network.patches.frontier == ("1",)
    assert "2" in network.patches.whole
    image, fill = torch.randn(1, 1, 12, 12), torch.zeros(1)
    np.testing.assert_allclose(incremental(network, image, fill), naive(model, image, fill, grid), atol=1e-5)


def test_a_network_without_a_window_is_computed_in_full() -> None:
    torch.manual_seed(0)
    model = framework("torch").trace(nn.Sequential(nn.Flatten(), nn.Linear(75, 2)).eval(), [TensorSpec((3, 5, 5))])
    network = IncrementalNetwork(model, OcclusionGrid((5, 5), (2, 2), (1, 1)))
    assert network.patches.frontier == model.graph.inputs
    image, fill = torch.randn(1, 3, 5, 5), torch.randn(3)
    np.testing.assert_allclose(
        incremental(network, image, fill), naive(model, image, fill, network.patches.grid), atol=1e-5
    )


def test_a_threshold_gives_up_exactness_and_computes_less() -> None:
    model, grid = small(nn.Identity), OcclusionGrid((12, 12), (5, 5), (1, 1))
    exact, rough = IncrementalNetwork(model, grid), IncrementalNetwork(model, grid, threshold=0.4)
    assert rough.patches.mean_flops < exact.patches.mean_flops
    image, fill = torch.randn(1, 1, 12, 12), torch.zeros(1)
    theirs = naive(model, image, fill, grid)
    np.testing.assert_allclose(incremental(exact, image, fill), theirs, atol=1e-5)
    assert not np.allclose(incremental(rough, image, fill), theirs, atol=1e-5)


def test_only_the_wanted_places() -> None:
    model, grid = small(nn.Identity), OcclusionGrid((12, 12), (3, 3), (3, 3))
    network = IncrementalNetwork(model, grid)
    wanted = np.zeros(grid.shape, bool)
    wanted[1, 2] = wanted[3, 0] = True
    views = network.materialise(torch.randn(1, 1, 12, 12))
    places = [
        tuple(place)
        for index, _ in network.outputs(views, torch.zeros(1), batch_size=9, places=wanted)
        for place in index
    ]
    assert sorted(places) == [(1, 2), (3, 0)]


def test_views_are_read_where_they_are() -> None:
    """What the whole network gave is neither changed nor, where no layer reads beyond its border, copied."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3), nn.Conv2d(16, 4, 3, padding=1)).eval()
    model = framework("torch").trace(net, [TensorSpec((3, 12, 12))]).prepare(torch.get_num_threads())
    network = IncrementalNetwork(model, OcclusionGrid((12, 12), (3, 3), (3, 3)))
    views = network.materialise(torch.randn(1, 3, 12, 12).contiguous(memory_format=torch.channels_last))
    before = {name: tensor.clone() for name, tensor in views.tensors.items()}
    for _ in network.outputs(views, torch.zeros(3), batch_size=9):
        pass
    for name, tensor in views.tensors.items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    held = {tensor.data_ptr(): tensor.nbytes for tensor in (*views.tensors.values(), *views._padded.values())}
    copied = 16 * (10 + 2) ** 2 * 4  # what the last layer reads, with its padding
    assert sum(held.values()) == sum(tensor.nbytes for tensor in views.tensors.values()) + copied


def test_buckets_have_every_place_once_and_stay_inside() -> None:
    model, grid = small(lambda: nn.MaxPool2d(2)), OcclusionGrid((12, 12), (3, 3), (2, 2))
    patches = IncrementalNetwork(model, grid).patches
    cut = buckets(patches, 0, 3)
    assert sorted(np.concatenate([bucket.places for bucket in cut])) == list(range(grid.shape[0]))
    for bucket in cut:
        for name, starts in bucket.starts.items():
            span = patches.spans[name][0]
            assert (starts >= 0).all()
            assert (starts + bucket.lengths[name] <= patches.extent(name, 0)).all()
            assert (starts <= span.start[bucket.places]).all()
            assert (starts + bucket.lengths[name] >= span.stop[bucket.places]).all()
