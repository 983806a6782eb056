"""The torch handler: the contract on small networks, and what torch's own ways of writing a network make hard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # torch's own habit
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from optimizer.errors import UnknownLayerError
from optimizer.graph import Window
from udfs.handlers import (
    ModelTrainer,
    TensorSpec,
    UnknownOutputError,
    UntraceableModelError,
    framework,
    open_session,
)
from udfs.handlers.torch import FRAMEWORK
from udfs.shards import Tensors
from udfs.testing import FrameworkContract, Refusal, Sample, TrainingSample, assert_same_bits, records
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.handlers import TracedModel

IMAGE = TensorSpec((3, 8, 8))


class Forward(nn.Module):
    """Modules by name, and a forward given as a function of them: each model below on a few lines."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *xs: torch.Tensor) -> Any:
        return self.function(self, *xs)


def built(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """The model in inference mode with seeded weights and batch-norm statistics that do something."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make().eval()
        for inner in model.modules():
            if isinstance(inner, nn.BatchNorm2d) and inner.running_mean is not None:
                inner.running_mean.normal_()
                inner.running_var.uniform_(0.5, 2)
    return model


def own(model: nn.Module, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the model itself says."""
    with torch.inference_mode():
        result = model(*(torch.from_numpy(array.copy()) for array in arrays))
    return [tensor.numpy() for tensor in (result if isinstance(result, (tuple, list)) else [result])]


def state(model: nn.Module) -> object:
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    values = {
        name: (tensor.data_ptr(), tensor.stride(), tensor.detach().numpy().tobytes(), tensor.requires_grad)
        for name, tensor in tensors.items()
    }
    flags = [(inner.training, getattr(inner, "inplace", None), sorted(vars(inner))) for inner in model.modules()]
    return values, flags


def nudge(path: str) -> Callable[[nn.Module], None]:
    def perturb(model: nn.Module) -> None:
        with torch.no_grad():
            model.get_parameter(path).view(-1)[-1] += 0.5

    return perturb


def sample(
    name: str, make: Callable[[], nn.Module], inputs: Sequence[TensorSpec], variants: Any = (), **known: Any
) -> Sample:
    return Sample(
        name=name,
        build=lambda: built(make),
        inputs=tuple(inputs),
        call=own,
        state=state,
        variants=tuple((lambda variant=variant: built(variant)) for variant in variants),
        **known,
    )


def chain(pool: nn.Module | None = None, *, inplace: bool = False, classes: int = 10) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace),
        pool or nn.AvgPool2d(3, 2, 1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def residual() -> nn.Module:
    """As torchvision writes it: in-place ReLU on a batch norm, ``+=``, in-place ReLU on the sum."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        identity = self.stem(x)
        out = self.bn(self.conv(self.relu(identity.clone())))
        out = self.relu(out)
        out = self.bn(self.conv2(out))
        out += identity
        return self.head(torch.flatten(self.relu(out).mean((2, 3)), 1))

    return Forward(
        forward,
        stem=nn.Conv2d(3, 4, 3),
        conv=nn.Conv2d(4, 4, 3, padding=1, bias=False),
        conv2=nn.Conv2d(4, 4, 3, padding=1, bias=False),
        bn=nn.BatchNorm2d(4),
        relu=nn.ReLU(inplace=True),
        head=nn.Linear(4, 2),
    )


def dense(order: str = "aba") -> nn.Module:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = F.relu(self.b(torch.cat([x, a], 1)))
        return self.c(torch.cat([{"a": a, "b": b}[key] for key in order], 1))

    return Forward(forward, a=nn.Conv2d(3, 2, 1), b=nn.Conv2d(5, 2, 3, padding=1), c=nn.Conv2d(6, 2, 1))


def twins(sign: int = 1) -> nn.Module:
    def forward(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.join(torch.cat([self.left(x), self.right(y)], 1) * sign) - x

    return Forward(forward, left=nn.Linear(4, 3), right=nn.Linear(2, 3), join=nn.Linear(6, 4))


def branches() -> nn.Module:
    def forward(self: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        low, high = self.body(x).chunk(2, dim=1)
        return self.one(low), torch.sigmoid(high), low

    return Forward(forward, body=nn.Linear(4, 6), one=nn.Linear(3, 2))


def twice() -> nn.Module:
    return Forward(lambda self, x: self.fc(self.relu(self.fc(x))), fc=nn.Linear(4, 4), relu=nn.ReLU())


def lenet() -> nn.Module:
    """As it is written most often: ``view`` after the last pooling."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        return self.fc2(F.relu(self.fc1(x)))

    return Forward(
        forward,
        conv1=nn.Conv2d(3, 4, 3, padding=1),
        conv2=nn.Conv2d(4, 4, 3, padding=1),
        fc1=nn.Linear(16, 6),
        fc2=nn.Linear(6, 2),
    )


def exported() -> nn.Module:
    """What the quick tracer refuses, with a flatten that ``torch.export`` writes as a view."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = self.bn(self.conv(x))
        z = y
        z += x.mean(1, keepdim=True)
        return F.normalize(self.fc(torch.flatten(self.relu(z), 1) + torch.flatten(y, 1)))

    return Forward(
        forward, conv=nn.Conv2d(3, 4, 3, padding=1), bn=nn.BatchNorm2d(4), relu=nn.ReLU(inplace=True),
        fc=nn.Linear(256, 2),
    )  # fmt: skip


# FLOPs: 2 x kernel x channels in x channels out x positions. Bytes: 4 a float, 8 for num_batches_tracked.
_BN = 4 * 4 * 4 + 8
SAMPLES = (
    sample(
        "chain",
        chain,
        [IMAGE],
        [
            lambda: chain(nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
            lambda: chain(nn.MaxPool2d(3, 2, 1)),
            lambda: chain(nn.AvgPool2d(3, 2, 1, divisor_override=8)),
        ],
        output_shapes=((10,),),
        flops=2 * 27 * 4 * 64 + 2 * 64 * 10,
        param_bytes=4 * (27 * 4 + 4) + _BN + 4 * 650,
        perturb=nudge("0.weight"),
        modules={"0": (4, 8, 8), "3": (4, 4, 4), "5": (10,)},
    ),
    sample(
        "residual, in place",
        residual,
        [IMAGE],
        output_shapes=((2,),),
        flops=2 * 27 * 4 * 36 + 2 * (2 * 36 * 4 * 36) + 2 * 4 * 2,
        param_bytes=4 * (27 * 4 + 4) + 2 * 4 * 36 * 4 + 2 * (_BN - 8) + 4 * 10,
        perturb=nudge("stem.weight"),
        modules={"stem": (4, 6, 6), "bn": (4, 6, 6), "head": (2,)},
    ),
    sample(
        "dense",
        dense,
        [IMAGE],
        [lambda: dense("abb"), lambda: dense("baa"), lambda: dense("bab")],
        output_shapes=((2, 8, 8),),
        flops=2 * 64 * (3 * 2 + 5 * 9 * 2 + 6 * 2),
        param_bytes=4 * (3 * 2 + 2 + 5 * 9 * 2 + 2 + 6 * 2 + 2),
        perturb=nudge("a.bias"),
        modules={"a": (2, 8, 8), "c": (2, 8, 8)},
    ),
    sample(
        "two inputs",
        twins,
        [TensorSpec((4,)), TensorSpec((2,))],
        [lambda: twins(-1)],
        output_shapes=((4,),),
        flops=2 * (12 + 6 + 24),
        param_bytes=4 * (15 + 9 + 28),
        perturb=nudge("right.weight"),
        modules={"right": (3,), "left": (3,)},
    ),
    sample(
        "several outputs",
        branches,
        [TensorSpec((4,))],
        output_shapes=((2,), (3,), (3,)),
        output_keys=(0, 1, 2),
        flops=2 * (24 + 6),
        param_bytes=4 * (30 + 8),
        perturb=nudge("one.weight"),
        modules={"one": (2,), "body": (6,)},
    ),
    sample(
        "called twice",
        twice,
        [TensorSpec((4,))],
        output_shapes=((4,),),
        flops=2 * 32,
        param_bytes=2 * 80,
        perturb=nudge("fc.weight"),
        modules={"fc": (4,), "relu": (4,)},
    ),
    sample(
        "LeNet",
        lenet,
        [IMAGE],
        output_shapes=((2,),),
        flops=2 * (27 * 4 * 64 + 36 * 4 * 16 + 16 * 6 + 6 * 2),
        param_bytes=4 * (27 * 4 + 4 + 36 * 4 + 4 + 17 * 6 + 7 * 2),
        perturb=nudge("conv1.weight"),
        modules={"conv1": (4, 8, 8), "fc2": (2,)},
    ),
    sample(
        "exported, with views",
        exported,
        [IMAGE],
        output_shapes=((2,),),
        flops=2 * (27 * 4 * 64 + 256 * 2),
        param_bytes=4 * (27 * 4 + 4 + 257 * 2) + _BN - 8,
        perturb=nudge("conv.weight"),
        modules={"conv": (4, 8, 8)},
    ),
)


def branchy() -> nn.Module:
    return Forward(lambda _, x: x if x.sum() > 0 else -x)


def _partly_training() -> nn.Module:
    model = built(chain)
    model[1].train()
    return model


def trainer(params: dict[str, Any]) -> ModelTrainer:
    hidden = params.get("hidden", 8)
    model = nn.Sequential(
        nn.Linear(4, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, 2)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=params.get("lr", 0.02))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    return ModelTrainer(
        model=model, optimizer=optimizer, loss=nn.CrossEntropyLoss(), batch_size=16, scheduler=scheduler
    )


def weights(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: parameter.detach().cpu().numpy().copy() for name, parameter in model.named_parameters()}


def tensors(rows: int = 72) -> Tensors:
    inputs = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    return Tensors((inputs,), ((inputs.sum(axis=1) > 0).astype(np.int64),), rows)


class TestContract(FrameworkContract):
    framework = FRAMEWORK
    samples = SAMPLES
    refusals = (
        Refusal("branch on a value", lambda: built(branchy), (TensorSpec((4,)),), "data-dependent"),
        Refusal("training mode", lambda: built(chain).train(), (IMAGE,), "training mode"),
        Refusal("one module in training mode", _partly_training, (IMAGE,), "1 is in training mode"),
        Refusal("not a module", lambda: "resnet50", (IMAGE,), "got str"),
        Refusal("batch fixed", lambda: built(lambda: Forward(lambda _, x: x.view(2, 192))), (IMAGE,), "batch size"),
        Refusal("batch known", lambda: built(lambda: Forward(lambda _, x: x.view(len(x), -1))), (IMAGE,), "batch size"),
        Refusal("too many inputs", lambda: built(twice), (IMAGE, IMAGE), "argument"),
        Refusal("nothing a record", lambda: built(lambda: Forward(lambda _, x: x.mean(0))), (IMAGE,), "leading axis"),
        Refusal("wrong shape", lambda: built(chain), (TensorSpec((5, 8, 8)),), "another shape"),
    )
    training = TrainingSample(trainer, tensors(), weights)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
class TestContractOnAGpu(TestContract):
    device = "cuda"

    @pytest.fixture(autouse=True)
    def precise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)

    def test_whole_is_the_models_own_call_bit_for_bit(self, sample: Sample) -> None:
        """Within rounding: the sample's own call is on the CPU."""
        traced = self.trace(sample)
        fed = {
            name: records(spec, seed=i)
            for i, (name, spec) in enumerate(zip(traced.graph.inputs, sample.inputs, strict=True))
        }
        expected = sample.call(sample.build(), list(fed.values()))
        for name, array in zip(traced.graph.outputs, expected, strict=True):
            np.testing.assert_allclose(traced.run(fed, [name])[name], array, rtol=1e-4, atol=1e-5)


def check(
    model: nn.Module,
    inputs: Sequence[TensorSpec],
    cuts: Callable[[Sequence[str]], Sequence[str]] | None = None,
    *,
    prepared: bool = False,
) -> TracedModel:
    """Trace; the whole equals the model's own call, and each cut continued equals the whole, bit for bit."""
    arrays = [records(spec, seed=i) for i, spec in enumerate(inputs)]
    expected = own(model, arrays)
    traced = FRAMEWORK.trace(model, inputs)
    graph = traced.graph
    fed = dict(zip(graph.inputs, arrays, strict=True))
    whole = traced.run(fed, graph.outputs)
    for name, array in zip(graph.outputs, expected, strict=True):
        assert_same_bits(whole[name], array, name)
    for again in (False, True)[: 1 + prepared]:
        if again:
            traced.prepare(torch.get_num_threads())
            whole = traced.run(fed, graph.outputs)
            for name, array in zip(graph.outputs, expected, strict=True):
                np.testing.assert_allclose(whole[name], array, rtol=1e-3, atol=1e-4 * np.abs(array).max())
        for name in graph.names if cuts is None else cuts(graph.names):
            cut = graph.cut([name])
            kept = traced.run(fed, cut.live) | {key: fed[key] for key in cut.above if key in fed}
            stored = {key: np.array(array, order="C") for key, array in kept.items()}
            for output, array in traced.run(stored, graph.outputs).items():
                assert_same_bits(array, whole[output], f"{output} after a cut at {name}")
    return traced


# MACs of the ImageNet models, in units of 1e9 (torchvision's table of models, fvcore and the papers).
PUBLISHED = {
    "alexnet": 0.71,
    "vgg16": 15.47,
    "resnet18": 1.81,
    "resnet50": 4.09,
    "inception_v3": 5.71,
    "mobilenet_v2": 0.30,
    "squeezenet1_1": 0.35,
}
SMALL = {"inception_v3": 80}


# Each of the two has a smaller network of its kind beside it.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in {"vgg16", "resnet50"} else ()) for name in PUBLISHED]
)
def test_roster_model_cut_anywhere_is_the_whole_bit_for_bit(name: str) -> None:
    model = roster.load(name)
    inputs = [TensorSpec((3, SMALL.get(name, 64), SMALL.get(name, 64)))]
    random = np.random.default_rng(0)
    check(model, inputs, lambda names: random.choice(names, 8, replace=False).tolist(), prepared=True)


@pytest.mark.parametrize("name", PUBLISHED)
def test_roster_flops_are_the_published_ones(name: str) -> None:
    side = roster.card(name).preprocessing.crop
    with torch.device("meta"):
        model = roster.card(name).builder().eval()
    graph = FRAMEWORK.trace(model, [TensorSpec((3, side, side))]).graph
    assert graph.flops() / 2e9 == pytest.approx(PUBLISHED[name], rel=0.03)
    assert all(layer in graph for layer in graph.outputs)


def test_pre_activation_keeps_what_an_in_place_relu_overwrites() -> None:
    """Kaiming He's second ResNet: the shortcut reads what the ReLU wrote, and so does the sum."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        for conv, bn in zip(self.convs, self.bns, strict=True):
            x = x + conv(self.relu(bn(self.relu(x))))
        return x

    def make() -> nn.Module:
        convs = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))
        bns = nn.ModuleList(nn.BatchNorm2d(3) for _ in range(2))
        return Forward(forward, convs=convs, bns=bns, relu=nn.ReLU(inplace=True))

    check(built(make), [IMAGE])


def _alias(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = identity = self.a(x)
    y += x
    return y * identity


def _alias_by_view(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = self.a(x)
    flat = y.view(-1, 4)
    y.mul_(2)
    return flat + 1


def _slice_write(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = self.a(x)
    y[:, 1] = 0
    return y


def _seen(write: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Write to a tensor, then read it again."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        return write(y) + 2 * y

    return forward


@pytest.mark.parametrize(
    "forward",
    [
        _alias,
        _alias_by_view,
        _slice_write,
        lambda self, x: torch.relu_(self.a(x) + 0) + x,
        _seen(lambda y: F.relu(y, inplace=True)),
        _seen(lambda y: F.relu(y, True)),
        _seen(lambda y: torch.add(y, 1, out=y)),
        _seen(F.relu_),
        lambda self, x: self.leaky(x[:, :2]) + x[:, :2],
        lambda self, x: self.dropout(self.a(x)) * self.leaky(self.a(x)),
        lambda self, x: F.relu(self.a(x), inplace=True),
    ],
)
def test_in_place_operations_say_what_the_model_says(forward: Callable[..., Any]) -> None:
    def make() -> nn.Module:
        return Forward(
            forward, a=nn.Linear(4, 4), leaky=nn.LeakyReLU(0.3, inplace=True), dropout=nn.Dropout(inplace=True)
        )

    check(built(make), [TensorSpec((4,))])


def test_torchvision_style_in_place_networks_stay_with_the_quick_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.handlers.torch._fx._by_export", lambda *_: pytest.fail("exported"))

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn(self.conv(x)))
        out = self.bn(self.conv(out))
        out += x
        return self.relu(out)

    check(
        built(
            lambda: Forward(
                forward, conv=nn.Conv2d(3, 3, 3, padding=1), bn=nn.BatchNorm2d(3), relu=nn.ReLU(inplace=True)
            )
        ),
        [IMAGE],
    )


class Odd(nn.Module):
    """Buffers, a parameter used directly, a keyword default that is asked about, attributes set on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.register_buffer("shift", torch.arange(4.0))
        self.register_buffer("idle", None)
        self.table = nn.Embedding(2, 4)
        self.last: Any = None

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, power: int = 2) -> torch.Tensor:
        self.last = x
        if mask is not None:
            x = x * mask
        return (x * self.scale + self.shift) ** power


def test_buffers_parameters_and_defaults() -> None:
    model = built(Odd)
    before = state(model)
    one = check(model, [TensorSpec((4,))])
    both = check(model, [TensorSpec((4,)), TensorSpec((4,))])
    assert (len(one.graph.inputs), len(both.graph.inputs)) == (1, 2)
    assert one.graph.param_bytes() == 32
    model.last = None
    assert state(model) == before


def test_integer_inputs() -> None:
    check(
        built(lambda: Forward(lambda self, x: self.table(x).sum(1), table=nn.Embedding(2, 4))),
        [TensorSpec((5,), "int64")],
    )


@pytest.mark.parametrize("exported", [False, True])
def test_outputs_are_found_by_the_keys_of_what_the_model_returns(
    monkeypatch: pytest.MonkeyPatch, *, exported: bool
) -> None:
    if exported:
        monkeypatch.setattr("udfs.handlers.torch._fx._by_fx", lambda *_: 1 / 0)

    def forward(self: Any, x: torch.Tensor) -> Any:
        return {"second": self.b(x), "first": (self.a(x), self.a(x).mean())}

    model = built(lambda: Forward(forward, a=nn.Linear(4, 3), b=nn.Linear(4, 2)))
    traced = FRAMEWORK.trace(model, [TensorSpec((4,))])
    for opened in (traced, traced.fused(), traced.bfloat16()):
        assert opened.output_keys == ("second", "first.0")
        assert opened.graph[opened.output_layer("second")].output_shape == (2,)
        assert opened.graph[opened.output_layer("first.0")].output_shape == (3,)
        with pytest.raises(
            UnknownOutputError, match=r"output must be one of 'second.*, got 'secon'; did you mean 'second'\?"
        ):
            opened.output_layer("secon")
        with pytest.raises(UnknownOutputError, match=r"output must be one of .*got True"):
            opened.output_layer(True)
    one = FRAMEWORK.trace(built(chain), [IMAGE])
    with pytest.raises(UnknownOutputError, match="the network returns one tensor"):
        one.output_layer(0)
    pair = FRAMEWORK.trace(built(branches), [TensorSpec((4,))])
    assert pair.output_layer(np.int64(0)) == "one"


def test_the_original_is_the_users_module_as_it_was() -> None:
    model = built(chain)
    before = state(model)
    traced = FRAMEWORK.trace(model, [IMAGE])
    traced.prepare(torch.get_num_threads())
    assert traced.original is traced.fused().original is traced.bfloat16().original is model
    traced.fused().tensors({"input_1": torch.zeros(1, *IMAGE.shape)}, traced.fused().graph.outputs)
    assert state(model) == before


def test_recurrent_network_with_tuples_within() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        steps, (hidden, _) = self.lstm(x)
        return self.head(steps[:, -1]) + self.head(hidden[-1])

    model = built(lambda: Forward(forward, lstm=nn.LSTM(3, 4, batch_first=True), head=nn.Linear(4, 2)))
    traced = check(model, [TensorSpec((6, 3))])
    assert traced.graph.outputs


def test_outputs_without_a_record_axis_are_left_out() -> None:
    model = built(lambda: Forward(lambda self, x: (self.a(x), x.mean(), 3), a=nn.Linear(4, 2)))
    graph = FRAMEWORK.trace(model, [TensorSpec((4,))]).graph
    assert [graph[name].output_shape for name in graph.outputs] == [(2,)]


def test_control_flow_on_shapes() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, _ = x.shape
        total = x.new_zeros(batch, channels)
        for row in range(height):
            total = total + x[:, :, row].mean(-1)
        return self.a(total.view(x.size(0), -1)) if height > 4 else total

    check(built(lambda: Forward(forward, a=nn.Linear(3, 2))), [IMAGE])


@pytest.mark.parametrize(
    "size",
    [lambda x: x.size(0), lambda x: x.shape[0], lambda x: x.size()[0], lambda x: x.size(dim=0)],
    ids=["size", "shape", "indexed", "keyword"],
)
def test_input_is_not_kept_alive_for_its_batch_size(size: Callable[[torch.Tensor], int]) -> None:
    model = built(lambda: Forward(lambda self, x: self.a(x).relu().view(size(x), -1), a=nn.Conv2d(3, 2, 3)))
    graph = check(model, [IMAGE]).graph
    assert graph.cut([graph.layers[1].name]).live == (graph.layers[1].name,)


def test_sizes_of_an_input_are_constants() -> None:
    model = built(lambda: Forward(lambda self, x: self.a(x).relu() / x.size(-1) * x.shape[1], a=nn.Conv2d(3, 2, 3)))
    graph = check(model, [IMAGE]).graph
    assert graph.cut(["a"]).live == ("a",)


def test_attention() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch, self.qkv, self.out = nn.Conv2d(3, 8, 2, 2), nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patch(x).flatten(2).transpose(1, 2)
            q, k, v = self.qkv(x).view(x.size(0), 16, 3, 2, 4).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.size(0), 16, 8)
            return x + self.out(y)

    check(built(Block), [IMAGE], prepared=True)
    # As a part of a model: by itself, torch's layer takes a fused path that rounds in other places.
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    check(built(lambda: Forward(lambda self, x: self.a(x), a=encoder)), [TensorSpec((5, 8))])


def test_heads_of_attention_are_configuration() -> None:
    """``repr`` of a MultiheadAttention does not tell them."""

    def expression(heads: int) -> str:
        model = built(
            lambda: Forward(lambda self, x: self.a(x, x, x)[0], a=nn.MultiheadAttention(8, heads, batch_first=True))
        )
        graph = FRAMEWORK.trace(model, [TensorSpec((5, 8))]).graph
        return graph.expression(graph.outputs[0])

    assert expression(2) == expression(2) != expression(4)


def test_order_of_folded_values_is_part_of_the_expression() -> None:
    def expression(sign: int) -> str:
        def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
            _, (h, c) = self.lstm(x)
            return h[0] - c[0] if sign > 0 else c[0] - h[0]

        graph = FRAMEWORK.trace(
            built(lambda: Forward(forward, lstm=nn.LSTM(3, 3, batch_first=True))), [TensorSpec((2, 3))]
        ).graph
        return graph.expression(graph.outputs[0])

    assert expression(1) == expression(1) != expression(-1)


def test_no_layer_is_run_needlessly() -> None:
    model = built(residual)
    traced = FRAMEWORK.trace(model, [IMAGE])
    graph = traced.graph
    for name in graph.names:
        cut = graph.cut([name])
        layers = {node.name for node, _ in traced._schedule(frozenset(cut.live), graph.outputs)}
        names = {traced._nodes[layer].name for layer in graph.part(cut.live, graph.outputs).layers}
        parameters = {node for node in layers if node not in {traced._nodes[layer].name for layer in graph.names}}
        assert layers - parameters == names


def test_values_are_freed_after_their_last_reader() -> None:
    traced = FRAMEWORK.trace(built(chain), [IMAGE])
    schedule = traced._schedule(frozenset(traced.graph.inputs), traced.graph.outputs)
    assert [node.name for node in schedule[0][1]] == [traced._nodes[traced.graph.inputs[0]].name]
    assert sum(len(freed) for _, freed in schedule) == len(traced.graph) - 1


@pytest.mark.parametrize("exported", [False, True])
def test_windows_of_modules_and_functions_agree(monkeypatch: pytest.MonkeyPatch, *, exported: bool) -> None:
    if exported:
        monkeypatch.setattr("udfs.handlers.torch._fx._by_fx", lambda *_: 1 / 0)

    def modules(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.d(self.c(self.b(self.a(x))))

    def functions(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x, self.a.weight, self.a.bias, stride=2, padding=1)
        x = F.conv2d(F.max_pool2d(x, (3, 2), stride=1, padding=1), self.c.weight, padding="same", dilation=2)
        return F.avg_pool2d(x, 2)

    parts = {
        "a": nn.Conv2d(3, 2, 3, 2, 1),
        "b": nn.MaxPool2d((3, 2), 1, 1),
        "c": nn.Conv2d(2, 2, 3, padding="same", dilation=2, bias=False),
        "d": nn.AvgPool2d(2),
    }
    expected = [
        Window((3, 3), (2, 2), (1, 1), (1, 1)),
        Window((3, 2), (1, 1), (1, 1), (1, 1)),
        Window((3, 3), (1, 1), (2, 2), (2, 2)),
        Window((2, 2), (2, 2), (0, 0), (1, 1)),
    ]
    for forward in (modules, functions):
        graph = FRAMEWORK.trace(Forward(forward, **parts).eval(), [TensorSpec((3, 16, 16))]).graph
        assert [layer.window for layer in graph if layer.window] == expected


def test_other_things_with_a_kernel_have_no_window() -> None:
    for layer in (nn.ConvTranspose2d(3, 3, 2), nn.LPPool2d(2, 2), nn.FractionalMaxPool2d(2, output_size=4)):
        graph = FRAMEWORK.trace(Forward(lambda self, x: self.a(x), a=layer).eval(), [IMAGE]).graph
        assert all(found.window is None for found in graph)


def test_module_that_is_called_twice_resolves_to_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [TensorSpec((4,))]
    quick = FRAMEWORK.trace(built(twice), inputs)
    assert quick.layer("fc") == quick.graph.layers[1].name
    monkeypatch.setattr("udfs.handlers.torch._fx._by_fx", lambda *_: 1 / 0)
    exported = FRAMEWORK.trace(built(twice), inputs)
    assert exported.layer("fc") == exported.graph.layers[1].name


def test_patched_forward_and_hooks_are_part_of_the_model() -> None:
    model = built(twice)
    model.forward = lambda x: model.fc(x) - 1  # type: ignore[method-assign]
    check(model, [TensorSpec((4,))])
    model = built(twice)
    model.register_forward_hook(lambda _, __, y: y + 1)
    check(model, [TensorSpec((4,))])


def test_writing_to_a_buffer_is_refused_and_leaves_it_alone() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x + self.calls

    model = Counter().eval()
    with pytest.raises(UntraceableModelError):
        FRAMEWORK.trace(model, [TensorSpec((4,))])
    assert model.calls == 0


def test_the_fused_network_is_the_same_and_the_original_untouched() -> None:
    """Shared modules: a ReLU of which one use has another reader beside it, a convolution before two batch norms."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        first = self.norm(self.conv(x))
        second = self.relu(first)
        third = self.relu(self.other(self.twice(second)))
        fourth = self.relu(self.last(self.twice(third)))
        return first + second + third + fourth

    def make() -> nn.Module:
        return Forward(
            forward, conv=nn.Conv2d(3, 4, 3, padding=1), norm=nn.BatchNorm2d(4), relu=nn.ReLU(),
            twice=nn.Conv2d(4, 4, 3, padding=1), other=nn.BatchNorm2d(4), last=nn.BatchNorm2d(4),
        )  # fmt: skip

    model = built(make)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    traced = FRAMEWORK.trace(model, [IMAGE])
    fused = traced.fused()
    assert "norm" in traced.graph.names
    assert [name for name in ("norm", "other", "last") if name in fused.graph.names] == ["other", "last"]
    arrays = [np.random.default_rng(3).normal(size=(2, 3, 8, 8)).astype(np.float32)]
    (source,), (output,) = fused.graph.inputs, fused.graph.outputs
    kept = arrays[0].copy()
    found = fused.run({source: arrays[0]}, [output])[output]
    np.testing.assert_allclose(found, own(model, arrays)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(arrays[0], kept)
    assert not model.relu.inplace
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    np.testing.assert_array_equal(traced.run({source: arrays[0]}, [output])[output], own(model, arrays)[0])


def test_the_network_in_bfloat16_keeps_its_last_layers_and_leaves_the_original_alone() -> None:
    torch.manual_seed(0)
    net = Forward(
        lambda self, x: self.left(self.body(x)) + self.right(self.middle(self.body(x))) + self.tied(self.tied(x)),
        **{name: nn.Linear(4, 4) for name in ("body", "middle", "left", "right", "tied")},
    ).eval()
    traced = FRAMEWORK.trace(net, [TensorSpec((4,))])
    lean = traced.bfloat16()
    kept = {name for name, held in lean._module.named_parameters() if held.dtype == torch.float32}
    assert {name.split(".")[0] for name in kept} == {"left", "right"}
    assert {held.dtype for held in net.parameters()} == {torch.float32}
    (source,), (output,) = lean.graph.inputs, lean.graph.outputs
    x = torch.randn(5, 4)
    found = lean.tensors({source: x.bfloat16()}, [output])[output]
    assert found.dtype == torch.float32
    exact = traced.tensors({source: x}, [output])[output]
    assert torch.equal(exact, net(x))
    torch.testing.assert_close(found, exact, atol=0.05, rtol=0.05)
    assert not torch.equal(found, exact)


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.conv(x).view(x.size(0), 4, -1),
        lambda self, x: self.conv(x).view_as(self.conv(x).flatten(1)),
        lambda self, x: self.conv(x).as_strided((x.size(0), 64), (256, 4), 0),
        lambda self, x: self.conv(x).view(torch.int32).float(),
        lambda self, x: self.conv(x) * (2.0 if self.conv(x).is_contiguous() else 3.0),
        lambda self, x: self.conv(x) + x.mean(1, keepdim=True).expand(-1, 4, -1, -1).contiguous().view(-1, 4, 8, 8),
    ],
)
def test_what_reads_memory_gives_the_same_where_the_layout_is_chosen(forward: Callable[..., Any]) -> None:
    check(built(lambda: Forward(forward, conv=nn.Conv2d(3, 4, 3, padding=1))), [IMAGE], prepared=True)


def test_a_module_that_reads_memory_leaves_channels_last() -> None:
    class Rows(nn.Flatten):  # of torch.nn by name: both tracers call it as it is
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(x.size(0), -1)

    Rows.__module__ = "torch.nn.modules.flatten"
    model = built(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), Rows(), nn.Linear(144, 2)))
    x = records(IMAGE)
    traced = FRAMEWORK.trace(model, [IMAGE]).prepare(torch.get_num_threads())
    for opened in (traced, traced.fused()):
        result = opened.run({"input_1": x}, ["2"])["2"]
        np.testing.assert_allclose(result, own(model, [x])[0], rtol=1e-4, atol=1e-5)
        assert opened._layout is torch.contiguous_format


def test_volumes_beside_images_are_prepared() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.deep(self.flat(x)[:, None])

    model = built(lambda: Forward(forward, flat=nn.Conv2d(3, 4, 3), deep=nn.Conv3d(1, 2, 3)))
    check(model, [IMAGE], prepared=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile on its own internals
@pytest.mark.parametrize("within", [False, True])
def test_compiled_modules_are_opened_as_what_they_wrap(*, within: bool) -> None:
    model = built(chain)
    compiled = nn.Sequential(torch.compile(model)).eval() if within else torch.compile(model)
    traced = FRAMEWORK.trace(compiled, [IMAGE])
    assert traced.original is (compiled if within else model)
    x = records(IMAGE)
    outputs = traced.prepare(1).run({"input_1": x}, traced.graph.outputs)
    np.testing.assert_allclose(outputs[traced.graph.outputs[0]], own(model, [x])[0], rtol=1e-4, atol=1e-5)
    assert len(traced.graph) == len(FRAMEWORK.trace(model, [IMAGE]).graph)


def _with_computed_weights() -> dict[str, Callable[[], nn.Module]]:
    def each(norm: Callable[[nn.Module], nn.Module]) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(
            norm(nn.Conv2d(3, 4, 3)), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), norm(nn.Linear(144, 5))
        )

    return {
        "weight_norm, old form": each(torch.nn.utils.weight_norm),
        "spectral_norm, old form": each(lambda inner: torch.nn.utils.spectral_norm(inner, n_power_iterations=5)),
        "weight_norm": each(torch.nn.utils.parametrizations.weight_norm),
        "spectral_norm": each(torch.nn.utils.parametrizations.spectral_norm),
        "orthogonal": each(torch.nn.utils.parametrizations.orthogonal),
        "pruned": each(lambda inner: torch.nn.utils.prune.l1_unstructured(inner, "weight", 0.5)),
    }


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("kind", _with_computed_weights())
def test_computed_weights_are_those_of_inference_and_the_original_keeps_its_own(kind: str) -> None:
    model = _with_computed_weights()[kind]().train()
    with torch.no_grad():
        model(torch.randn(8, 3, 8, 8))  # spectral norms learn their vectors; a hook leaves a weight with a history
    model(torch.randn(8, 3, 8, 8))
    model.eval()
    model(torch.randn(8, 3, 8, 8))
    before, types = state(model), [type(inner) for inner in model.modules()]
    held = {name: value for name, value in vars(model[0]).items() if isinstance(value, torch.Tensor)}
    x = records(IMAGE)
    traced = FRAMEWORK.trace(model, [IMAGE])
    (output,) = traced.graph.outputs
    expected = own(model, [x])[0]
    for opened in (traced, traced.fused(), traced.prepare(1), traced.fused()):
        np.testing.assert_allclose(opened.run({"input_1": x}, [output])[output], expected, rtol=1e-4, atol=1e-5)
    assert "1" not in traced.fused().graph.names, "the batch norm is folded"
    own(model, [x])
    assert [type(inner) for inner in model.modules()] == types
    assert state(model)[0] == before[0]  # type: ignore[index]
    assert {name for name in vars(model[0]) if isinstance(vars(model[0])[name], torch.Tensor)} == set(held)
    model.train()(torch.randn(8, 3, 8, 8)).sum().backward()  # still trainable


def test_hooks_are_honoured_where_layers_are_fused() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))

    x = records(IMAGE)
    plain = own(built(make), [x])[0]
    hooks: list[Callable[[nn.Module], Any]] = [
        lambda model: model[0].register_forward_hook(lambda _, __, y: y * 2),
        lambda model: model[0].register_forward_pre_hook(lambda _, args: (args[0] + 1,)),
        lambda model: model[1].register_forward_hook(lambda _, __, y: y * y),
        lambda model: model[1].register_forward_pre_hook(lambda _, args, __: ((args[0] + 1,), {}), with_kwargs=True),
        lambda model: model[2].register_forward_hook(lambda _, args, y: y - args[0]),
        lambda model: setattr(model[0], "forward", lambda y: y[:, :1, 1:-1, 1:-1].expand(-1, 4, -1, -1)),
        lambda _: torch.nn.modules.module.register_module_forward_hook(
            lambda inner, _, y: y + 1 if isinstance(inner, nn.Conv2d) else None
        ),
    ]
    for number, register in enumerate(hooks):
        model = built(make)
        handle = register(model)
        try:
            expected = own(model, [x])[0]
            assert not np.allclose(expected, plain), number
            traced = FRAMEWORK.trace(model, [IMAGE])
            (source,), (output,) = traced.graph.inputs, traced.graph.outputs
            for opened in (traced, traced.fused()):
                result = opened.run({source: x}, [output])[output]
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5, err_msg=str(number))
        finally:
            if handle is not None:
                handle.remove()


def test_a_fused_network_gives_each_record_what_it_gets_alone() -> None:
    def modules(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.bn(self.conv(x)).relu().flatten(1))

    def functions(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = F.batch_norm(self.conv(x), None, None, self.bn.weight, self.bn.bias, training=True)
        return self.fc(x.relu().flatten(1))

    def by_export(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        y = self.bn(x)
        y += 0 * x
        return self.fc(y.relu().flatten(1))

    for forward in (modules, functions, by_export):
        bn = nn.BatchNorm2d(4, track_running_stats=False)
        nn.init.normal_(bn.weight)
        model = built(
            lambda forward=forward, bn=bn: Forward(forward, conv=nn.Conv2d(3, 4, 3), bn=bn, fc=nn.Linear(144, 2))
        )
        x = records(IMAGE)
        alone = np.concatenate([own(model, [x[at : at + 1]])[0] for at in range(len(x))])
        fused = FRAMEWORK.trace(model, [IMAGE]).fused()
        (source,), (output,) = fused.graph.inputs, fused.graph.outputs
        np.testing.assert_allclose(fused.run({source: x}, [output])[output], alone, rtol=1e-4, atol=1e-5)
        assert "PerRecordNorm" in [layer.op for layer in fused.graph]


@pytest.mark.parametrize("exported", [False, True])
def test_functions_are_fused_as_the_modules_that_do_the_same(
    monkeypatch: pytest.MonkeyPatch, *, exported: bool
) -> None:
    if exported:
        monkeypatch.setattr("udfs.handlers.torch._fx._by_fx", lambda *_: 1 / 0)

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(F.pad(x, (1, 2, 0, 1), value=0.5), self.conv.weight * 2, self.conv.bias, dilation=2)
        x = self.norm(self.conv2(x))
        x = F.avg_pool2d(F.max_pool2d(x, 2, stride=1, padding=1), (2, 1), count_include_pad=False)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1) + x.mean((-1, 2)))

    model = built(
        lambda: Forward(
            forward, conv=nn.Conv2d(3, 4, 3), conv2=nn.Conv2d(4, 4, 1), norm=nn.BatchNorm2d(4), fc=nn.Linear(4, 2)
        )
    )
    fused = FRAMEWORK.trace(model, [IMAGE]).fused()
    (source,), (output,) = fused.graph.inputs, fused.graph.outputs
    kinds = [layer.op for layer in fused.graph]
    expected = ["ConstantPad2d", "Conv2d", "Conv2d", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "Mean"]
    assert [kind for kind in kinds if kind in {*expected, "BatchNorm2d"}] == expected
    x = records(IMAGE)
    np.testing.assert_allclose(fused.run({source: x}, [output])[output], own(model, [x])[0], rtol=1e-4, atol=1e-5)


def test_weights_are_shared_until_the_layout_changes() -> None:
    model = built(chain)
    traced = FRAMEWORK.trace(model, [IMAGE])
    theirs = {tensor.data_ptr() for tensor in model.parameters()}
    assert {tensor.data_ptr() for tensor in traced._module.parameters()} == theirs
    ours = {tensor.data_ptr() for tensor in traced.prepare(1)._module.parameters()}
    assert len(ours & theirs) == len(theirs) - 1  # the convolution's weight


def test_arrays_of_any_memory_are_taken() -> None:
    traced = FRAMEWORK.trace(built(chain), [IMAGE])
    (name,), outputs = traced.graph.inputs, traced.graph.outputs
    x = records(IMAGE)
    expected = traced.run({name: x}, outputs)
    frozen = np.frombuffer(x.tobytes(), np.float32).reshape(x.shape)
    mirrored = np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1]
    for other in (frozen, mirrored, np.asfortranarray(x)):
        assert_same_bits(traced.run({name: other}, outputs)[outputs[0]], expected[outputs[0]], "other memory")


def test_handler_is_looked_up() -> None:
    with pytest.raises(ValueError, match="did you mean 'torch'"):
        framework("torhc")


STEPS = st.lists(
    st.tuples(st.sampled_from(["conv", "relu", "add", "cat", "pool", "bn"]), st.integers(0, 9)), min_size=1, max_size=8
)


@settings(max_examples=25, deadline=None)
@given(STEPS, st.booleans(), st.integers(0, 2**16))
def test_random_networks(steps: list[tuple[str, int]], inplace: bool, seed: int) -> None:
    """Each step reads the last tensor and one picked among all earlier ones."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        tensors = [x]
        for i, (kind, pick) in enumerate(steps):
            other, y = tensors[pick % len(tensors)], tensors[-1]
            if kind == "add" and inplace and len(tensors) > 1:
                y += other
            elif kind == "add":
                y = y + other
            elif kind == "cat":
                y = self.get_submodule(f"cat{i}")(torch.cat([y, other], 1))
            else:
                y = self.get_submodule(f"{kind}{i}")(y)
            tensors.append(y)
        return self.head(tensors[-1].flatten(1))

    makers = {
        "conv": lambda: nn.Conv2d(2, 2, 3, padding=1),
        "relu": lambda: nn.ReLU(inplace),
        "cat": lambda: nn.Conv2d(4, 2, 1),
        "pool": lambda: nn.MaxPool2d(3, 1, 1),
        "bn": lambda: nn.BatchNorm2d(2),
    }

    def make() -> nn.Module:
        parts = {f"{kind}{i}": makers[kind]() for i, (kind, _) in enumerate(steps) if kind in makers}
        return Forward(forward, **parts, head=nn.Linear(2 * 25, 3))

    check(built(make, seed), [TensorSpec((2, 5, 5))])


class InATuple(nn.Module):
    """A block as ``transformers`` has them: its tensor in a tuple, beside one that is asked for at times."""

    def __init__(self, *, both: bool = False) -> None:
        super().__init__()
        self.inner, self.both = nn.Linear(3, 3), both

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.inner(x) + x
        return (x, x * 2) if self.both else (x,)


class OfTuples(nn.Module):
    def __init__(self, *, both: bool = False) -> None:
        super().__init__()
        self.block, self.head = InATuple(both=both), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(sum(self.block(x)))


def test_a_module_that_returns_its_one_tensor_in_a_tuple_is_a_layer() -> None:
    model = OfTuples().eval()
    traced = FRAMEWORK.trace(model, [TensorSpec((3,))])
    batch = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    (found,) = traced.run({traced.graph.inputs[0]: batch}, [traced.layer("block")]).values()
    np.testing.assert_allclose(found, model.block(torch.from_numpy(batch))[0].detach().numpy(), rtol=1e-6)
    with pytest.raises(UnknownLayerError, match="no layer 'block'"):
        FRAMEWORK.trace(OfTuples(both=True).eval(), [TensorSpec((3,))]).layer("block")


def test_networks_in_bfloat16_inherit() -> None:
    """numpy has no such type."""

    def half(params: dict[str, Any]) -> ModelTrainer:
        net = nn.Linear(3, params["outputs"], dtype=torch.bfloat16)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        return ModelTrainer(model=net, optimizer=optimizer, loss=nn.MSELoss(), task="regression")

    parent, child = (open_session(half, {"outputs": outputs}, outputs) for outputs in (2, 4))
    child.inherit(parent.checkpoint())
    assert child.model.weight.dtype == torch.bfloat16
    assert torch.equal(child.model.weight[:2], parent.model.weight)
