"""Incremental inference gives what the whole network gives for every place of the patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # torch's own habit
from torch import nn

from optimizer.occlusion import OcclusionGrid, PatchError
from udfs.handlers import TensorSpec, framework
from udfs.incremental import IncrementalNetwork, buckets
from vista_spark.roster import card, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from udfs.handlers.torch import TorchModel


@pytest.fixture(autouse=True, scope="module")
def _in_parts() -> Iterator[None]:
    """Also where it does not pay, as in most networks of a few pixels."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("udfs.incremental._network._WORTH", 0.0)
        yield


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
    with pytest.raises(PatchError, match="precision must be float32 for this network; bfloat16 fails"):
        IncrementalNetwork(model, grid, bfloat16=True).materialise(image)


def slow(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "name",
    ["mobilenet_v2", "resnet18", *map(slow, ["squeezenet1_1", "inception_v3", "alexnet", "vgg16", "resnet50"])],
)
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


class Forward(nn.Module):
    """A convolution, a function of its output and the module's constants, a convolution and a sum."""

    def __init__(self, function: Callable[..., torch.Tensor], axes: int, **held: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
        self.function, self.axes = function, axes
        self.first, self.last = convolution(2, 4, 3, padding=1), convolution(4, 3, 3, padding=1)
        for name, value in held.items():
            if isinstance(value, nn.Module):
                self.add_module(name, value)
            else:
                self.register_buffer(name, value)
        self.eval()

    def forward(self, image: torch.Tensor, *beside: torch.Tensor) -> torch.Tensor:
        between = self.function(self, self.first(image), *beside)
        return self.last(between).flatten(1)


def compared(
    net: nn.Module,
    shape: tuple[int, ...],
    patch: int = 2,
    beside: torch.Tensor | None = None,
    *,
    tolerance: float = 1e-5,
) -> IncrementalNetwork:
    """Incremental and naive inference equal the untouched network, one place at a time; returns the network."""
    specs = [TensorSpec(shape), *([] if beside is None else [TensorSpec(tuple(beside.shape[1:]))])]
    model = framework("torch").trace(net, specs)
    others = {} if beside is None else {model.graph.inputs[1]: beside}
    axes, patch = len(shape) - 1, 2
    grid = OcclusionGrid(shape[1:], (patch,) * axes, (3,) * axes)
    image, fill = torch.randn(1, *shape), torch.randn(shape[0])
    network = IncrementalNetwork(model, grid, source=model.graph.inputs[0])
    (name,) = model.graph.outputs
    views = network.materialise(image, others)
    with torch.no_grad():
        theirs = {}
        for index in np.ndindex(*grid.shape):
            occluded = image.clone()
            at = (
                slice(int(grid.starts(axis)[place]), int(grid.starts(axis)[place]) + patch)
                for axis, place in enumerate(index)
            )
            occluded[(slice(None), slice(None), *at)] = fill.reshape(1, -1, *(1,) * axes)
            theirs[index] = net(occluded, *others.values()).numpy().ravel()
    spread = max(float(np.abs(value).max()) for value in theirs.values())
    for results in (
        network.outputs(views, fill, batch_size=5),
        network.naive(image, fill, batch_size=5, others=others),
    ):
        count = 0
        for index, outputs in results:
            for place, output in zip(index, outputs[name], strict=True):
                count += 1
                difference = np.abs(output.detach().numpy().ravel() - theirs[tuple(place)]).max()
                assert difference <= tolerance * spread, (tuple(place), difference, spread)
        assert count == grid.count
    return network


SHAPES = {1: (2, 15), 2: (2, 9, 11), 3: (2, 6, 7, 8)}


@pytest.mark.parametrize("axes", SHAPES)
@pytest.mark.parametrize("full", ["first", "last", "all", "channels", "rank"])
def test_constants_with_spatial_axes_are_cut_with_the_patch(axes: int, full: str) -> None:
    """Position maps, masks and bounds: full along some axes, one element along others, without the leading ones."""
    extents = SHAPES[axes][1:]
    shape = {
        "first": (4, extents[0], *(1,) * (axes - 1)),
        "last": (1, 1, *(1,) * (axes - 1), extents[-1]),
        "all": (1, *extents),
        "channels": (4, *(1,) * axes),
        "rank": extents[-1:],
    }[full]
    functions: list[Callable[..., torch.Tensor]] = [
        lambda self, x: x + self.map,
        lambda self, x: (self.map * 2 - 1) * x,
        lambda self, x: self.map - x / (self.map + 1),
        lambda self, x: x.clamp(min=-self.map, max=self.map),
        lambda self, x: torch.maximum(x, torch.exp(self.map) - 1.5),
        lambda self, x: torch.where(self.map > 0.5, x, x * 0.1),
    ]
    for function in functions:
        network = compared(Forward(function, axes, map=torch.rand(shape)), SHAPES[axes])
        assert network.patches.frontier == ("last",), "the constant ends the incremental part"


@pytest.mark.parametrize("axes", SHAPES)
@pytest.mark.parametrize("full", ["first", "last", "all", "none"])
def test_a_second_input_may_broadcast_along_some_axes(axes: int, full: str) -> None:
    extents = SHAPES[axes][1:]
    shape = {
        "first": (4, extents[0], *(1,) * (axes - 1)),
        "last": (1, *(1,) * (axes - 1), extents[-1]),
        "all": (1, *extents),
        "none": (4, *(1,) * axes),
    }[full]
    for function in (lambda _, x, y: x * y.sigmoid(), lambda _, x, y: torch.maximum(y, x)):
        network = compared(Forward(function, axes), SHAPES[axes], beside=torch.randn(1, *shape))
        assert network.patches.frontier == ("last",)


def test_constants_that_are_not_of_places_are_left_whole() -> None:
    """A slope per channel, with as many channels as columns; and a number of records."""
    shape = (2, 9, 4)
    slopes = torch.rand(4)
    network = compared(Forward(lambda self, x: F.prelu(x, self.slopes), 2, slopes=slopes), shape)
    assert network.patches.frontier == ("last",)
    compared(Forward(lambda _, x: x / x.size(0), 2), shape)
    norm = nn.BatchNorm2d(4)
    nn.init.normal_(norm.running_mean)
    assert compared(Forward(lambda self, x: self.norm(x), 2, norm=norm), shape).patches.frontier == ("last",)


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: torch.hypot(x, self.map),
        lambda _, x: x / x.abs().max(),
        lambda _, x: x - x.mean(),
        lambda _, x: x - x.mean(0, keepdim=True) / 2,
        lambda _, x: x + x.softmax(0),
        lambda _, x: x * x.shape[-1] / x.size(2),
    ],
)
def test_what_is_not_elementwise_is_computed_in_full_and_for_one_place_alone(function: Callable[..., Any]) -> None:
    network = compared(Forward(function, 2, map=torch.rand(9, 11)), SHAPES[2])
    assert "first" in network.patches.frontier


@pytest.mark.parametrize("affine", [False, True])
def test_a_batch_norm_without_running_statistics_sees_one_place_at_a_time(*, affine: bool) -> None:
    norm = nn.BatchNorm2d(4, track_running_stats=False, affine=affine)
    network = compared(Forward(lambda self, x: self.norm(x), 2, norm=norm), SHAPES[2])
    assert network.patches.ended_by == (("norm", "PerRecordNorm"),)
    by_export = Forward(lambda self, x: self.norm(x).mul_(2) + x.add_(1), 2, norm=norm)
    compared(by_export, SHAPES[2])


@pytest.mark.parametrize("kind", ["hook", "pre-hook", "kwargs", "forward", "global"])
def test_a_module_with_hooks_reads_its_whole_input(kind: str) -> None:
    norm = nn.BatchNorm2d(4)
    nn.init.normal_(norm.running_mean)
    net = Forward(lambda self, x: self.norm(self.conv(x)), 2, conv=nn.Conv2d(4, 4, 3, padding=1), norm=norm)
    conv: Any = net.conv
    handle = None
    if kind == "hook":
        conv.register_forward_hook(lambda _, __, y: y - y.mean((2, 3), keepdim=True))
    elif kind == "pre-hook":
        conv.register_forward_pre_hook(lambda _, args: (args[0].flip(-1),))
    elif kind == "kwargs":
        conv.register_forward_hook(lambda _, args, __, y: y + args[0].amax(), with_kwargs=True)
    elif kind == "forward":
        conv.forward = lambda x: x.flip(-1)
    else:
        handle = torch.nn.modules.module.register_module_forward_hook(
            lambda inner, _, y: y.flip(-1) if inner.__class__.__name__ == "Conv2d" else None
        )
    try:
        compared(net, SHAPES[2])
    finally:
        if handle is not None:
            handle.remove()


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weights_that_norms_compute() -> None:
    for norm in (
        torch.nn.utils.weight_norm,
        torch.nn.utils.spectral_norm,
        torch.nn.utils.parametrizations.weight_norm,
        torch.nn.utils.parametrizations.spectral_norm,
    ):
        net = Forward(lambda self, x: self.conv(x), 2, conv=norm(nn.Conv2d(4, 4, 3, padding=1)))
        assert compared(net, SHAPES[2]).patches.frontier == ("last",)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: self.valid(x),
        lambda self, x: self.same(x),
        lambda self, x: self.uneven(x),
        lambda self, x: self.valid(self.pad(x)),
        lambda self, x: self.constant(x).relu(),
        lambda _, x: F.pad(x, (0, 2)),
        lambda _, x: F.pad(x, (1, 0, 2, 1), value=0.5).relu(),
        lambda _, x: F.max_pool2d(x, 3, 2, 1),
        lambda _, x: F.avg_pool2d(x, 2),
        lambda self, x: F.conv2d(x, self.same.weight * 2, self.same.bias, padding=2, dilation=2),
        lambda self, x: F.batch_norm(x, self.mean, self.mean + 1),
        lambda self, x: self.same(x).mul_(2) + F.max_pool2d(x, 3, 1, 1),  # by torch.export
    ],
)
def test_what_is_computed_by_parts(function: Callable[..., Any]) -> None:
    net = Forward(
        function, 2,
        valid=nn.Conv2d(4, 4, 3, padding="valid"), same=nn.Conv2d(4, 4, 3, padding="same"),
        uneven=nn.Conv2d(4, 4, (2, 4), padding="same", dilation=(1, 3)),
        pad=nn.ZeroPad2d((2, 1, 0, 3)), constant=nn.ConstantPad2d((0, 1, 2, 0), -3.0), mean=torch.rand(4),
    )  # fmt: skip
    ((_, op),) = compared(net, SHAPES[2]).patches.ended_by
    assert op in {"flatten", "reshape"}, "the head, which is not of places"


def test_a_crop_is_computed_in_full() -> None:
    network = compared(Forward(lambda _, x: F.pad(x, (-1, 2, 0, 0)), 2), SHAPES[2])
    assert network.patches.frontier == ("first",)


@pytest.mark.parametrize(
    "head",
    [
        lambda self, x: self.fc(self.pool(x).flatten(1)),
        lambda self, x: self.fc(F.adaptive_avg_pool2d(x, (1, 1))[:, :, 0, 0]),
        lambda self, x: self.fc(x.mean((2, 3))),
        lambda self, x: self.fc(x.mean(dim=[-1, -2], keepdim=True).flatten(1)) + self.fc(x.mean((2, 3))),
    ],
)
def test_a_mean_over_places_moves_by_what_the_patch_changes(head: Callable[..., Any]) -> None:
    class Headed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.fc, self.pool = nn.Conv2d(2, 4, 3), nn.Linear(4, 3), nn.AdaptiveAvgPool2d(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return head(self, self.conv(x).relu() + 100)

    network = compared(Headed().eval(), (2, 24, 24), tolerance=1e-6)
    assert network.patches.means
    assert network.patches.frontier == (), "the whole tensor is not needed"
    assert {op for _, op in network.patches.ended_by} <= {"Mean", "AdaptiveAvgPool2d"}
    # A mean over one axis, or over channels, is no such mean.
    for over in ((2,), (1, 2, 3)):
        plain = compared(Forward(lambda _, x, over=over: x - x.mean(over, keepdim=True), 2), SHAPES[2])
        assert not plain.patches.means


def test_the_patches_say_what_ended_them() -> None:
    gate = Forward(lambda self, x: x * self.squeeze(x.mean((2, 3), keepdim=True)), 2, squeeze=nn.Conv2d(4, 4, 1))
    patches = compared(gate, SHAPES[2]).patches
    assert patches.ended_by == (("mul", "mul"),), "the mean that the gate is made of ends nothing"
    assert "ended by" in patches.explain()
    assert "mul (mul)" in patches.explain()
    residual = Forward(lambda self, x: x + self.norm(x), 2, norm=nn.GroupNorm(2, 4))
    assert compared(residual, SHAPES[2]).patches.ended_by == (("norm", "GroupNorm"),)


def test_a_network_without_flops() -> None:
    net = nn.Sequential(nn.MaxPool2d(2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()).eval()
    patches = compared(net, (2, 12, 12)).patches
    assert patches.speedup == patches.centre_speedup == patches.uniform_speedup == patches.overall_speedup == 1
    assert "speed-up 1.00" in patches.explain()


def test_what_does_not_pay_runs_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("udfs.incremental._network._WORTH", 1.05)
    net = nn.Sequential(nn.InstanceNorm2d(2), nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)).eval()
    net(torch.zeros(1, 2, 12, 12))
    network = compared(net, (2, 12, 12))
    assert network.in_full
    assert network.patches.ended_by == (("0", "InstanceNorm2d"),)


def test_views_serve_all_patches_also_those_that_run_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large patch changes everything; the views that it made are read for a small one."""
    monkeypatch.setattr("udfs.incremental._network._WORTH", 1.5)
    model = small(lambda: nn.Conv2d(4, 4, 3))
    image, fill = torch.randn(1, 1, 12, 12), torch.zeros(1)
    large, little = (
        IncrementalNetwork(model, OcclusionGrid((12, 12), (size, size), (step, step)))
        for size, step in ((11, 1), (1, 4))
    )
    assert large.in_full
    assert not little.in_full
    views = large.materialise(image)
    for network in (large, little):
        (name,) = model.graph.outputs
        theirs = naive(model, image, fill, network.patches.grid)
        for index, outputs in network.outputs(views, fill, batch_size=4):
            np.testing.assert_allclose(outputs[name].detach().numpy(), theirs[tuple(index.T)], atol=1e-5)


def test_views_of_another_network_know_that_records_mix() -> None:
    model = framework("torch").trace(Forward(lambda _, x: x - x.mean(), 2), [TensorSpec(SHAPES[2])])
    grids = [OcclusionGrid(SHAPES[2][1:], (size, size), (4, 4)) for size in (2, 3)]
    first, second = (IncrementalNetwork(model, grid) for grid in grids)
    image, fill = torch.randn(1, *SHAPES[2]), torch.zeros(2)
    theirs = naive(model, image, fill, grids[1])
    (name,) = model.graph.outputs
    for index, outputs in second.outputs(first.materialise(image), fill, batch_size=4):
        np.testing.assert_allclose(outputs[name].detach().numpy(), theirs[tuple(index.T)], atol=1e-5)
