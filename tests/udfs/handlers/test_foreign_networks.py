"""Networks as people write them: each gives what a plain call gives, or is refused in a sentence with a way out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional

from udfs.handlers import TensorSpec, UntraceableModelError, framework
from udfs.inference import ModelSource

if TYPE_CHECKING:
    from collections.abc import Callable

TORCH = framework("torch")
IMAGE = TensorSpec((3, 10, 10))


class Scores(NamedTuple):
    scores: torch.Tensor
    features: torch.Tensor


class Net(nn.Module):
    """A convolution, a norm, and what ``middle`` makes of it."""

    def __init__(self, middle: Callable[[Any, torch.Tensor], torch.Tensor] = lambda _, h: h, channels: int = 3) -> None:
        super().__init__()
        self.low, self.norm, self.fc = nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)
        self.middle = middle

    def forward(self, x: torch.Tensor) -> Any:
        return self.fc(self.middle(self, self.norm(self.low(x)).relu()).mean((2, 3)))


def with_parts(middle: Callable[[Any, torch.Tensor], torch.Tensor], **parts: Any) -> nn.Module:
    net = Net(middle)
    for name, part in parts.items():
        setattr(net, name, part)
    return net


def closing_over_a_tensor() -> nn.Module:
    weight = torch.randn(4, 4, 1, 1)

    class Closed(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(functional.conv2d(self.low(x), weight).mean((2, 3)))

    return Closed()


def loaded() -> nn.Module:
    with torch.device("cpu"):
        trained = Net()
        nn.init.constant_(trained.low.weight, 0.1)
    net = Net()
    net.load_state_dict(trained.state_dict())
    nn.init.constant_(net.low.bias, 0.5)
    return net


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low, self.norm, self.fc = nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.LazyLinear(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.low(x)).flatten(1))


class Named(Net):
    def forward(self, x: torch.Tensor) -> Scores:
        h = self.low(x).mean((2, 3))
        return Scores(features=h, scores=self.fc(h))


class Recurrent(Net):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.rnn(self.low(x).flatten(2).transpose(1, 2))[0][:, -1])


WORKING: dict[str, Callable[[], nn.Module]] = {
    "an attribute that is a tensor": lambda: with_parts(lambda n, h: h * n.scale, scale=torch.rand(4, 1, 1)),
    "tensors in a list": lambda: with_parts(lambda n, h: functional.conv2d(h, n.ws[0]), ws=[torch.rand(4, 4, 1, 1)]),
    "a list of modules without weights": lambda: with_parts(lambda n, h: n.acts[0](h), acts=[nn.GELU(), nn.ReLU()]),
    "a tensor of a closure": closing_over_a_tensor,
    "load_state_dict in the builder": loaded,
    "Lazy modules": Lazy,
    "half": lambda: Net().half(),
    "double": lambda: Net().double(),
    "a named tuple": Named,
    "a recurrent layer": Recurrent,
    "replicas": lambda: nn.DataParallel(Net()),
}


def pictures(batch: int = 3) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, *IMAGE.shape)).astype(np.float32)


def source(build: Callable[[], nn.Module], name: str) -> ModelSource:
    """Describe a network as the driver does: its weights from a builder, its skeleton on the meta device."""
    return ModelSource(
        name, "torch", (IMAGE,), lambda: TORCH.build(build, (IMAGE,), 0), lambda: TORCH.skeleton(build, (IMAGE,))
    )


@pytest.fixture(autouse=True)
def _cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
@pytest.mark.parametrize("name", WORKING)
def test_a_network_gives_what_its_author_gets(name: str) -> None:
    build = WORKING[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        plain = build()
        if name == "Lazy modules":  # whose first run draws the weights
            plain.eval()(torch.zeros(2, *IMAGE.shape))
    kind = next(plain.parameters()).dtype
    with torch.no_grad():
        returned = plain.eval()(torch.from_numpy(pictures()).to(kind))
    expected = (returned[0] if isinstance(returned, tuple) else returned).float().numpy()
    model = source(build, name).open().prepare(1)
    (found, *_) = (model.run({model.graph.inputs[0]: pictures()}, [model.layer("fc")])).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3 if kind == torch.float16 else 1e-6)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "blocks in a list": (
        lambda: with_parts(lambda n, h: n.blocks[0](h), blocks=[nn.Conv2d(4, 4, 3)]), r"Net.blocks .*nn.ModuleList"
    ),
    "blocks in lists of a dictionary": (
        lambda: with_parts(lambda n, h: n.b["a"][0](h), b={"a": [nn.Conv2d(4, 4, 3)]}), r"Net.b .* dict.*ModuleDict"
    ),
    "a dropout in a list": (
        lambda: with_parts(lambda n, h: n.drops[0](h), drops=[nn.Dropout()]), r"Net.drops .*nn.ModuleList"
    ),
    "one channel": (lambda: Net(channels=1), r"1 channels and is given red, green and blue.*mean\(1"),
    "scripted": (lambda: torch.jit.trace(Net().eval(), torch.zeros(2, 3, 10, 10)), "torch.jit.* give the"),
    "quantised": (
        lambda: torch.ao.quantization.quantize_dynamic(Net().eval(), {nn.Linear}), r"Net.fc is quantised.*give the"
    ),
    "bfloat16": (lambda: Net().bfloat16(), r"weights in bfloat16.*call .float\(\)"),
    "two precisions": (
        lambda: with_parts(lambda n, h: n.mid(h), mid=nn.Conv2d(4, 4, 1).double()), "several precisions"
    ),
    "chooses by values": (lambda: Net(lambda _, h: h if h.sum() > 0 else -h), r"Net cannot .*torch.where"),
    "leaves torch": (lambda: Net(lambda _, h: torch.from_numpy(h.detach().numpy())), "leaves torch"),
    "another size": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(7, 2)), r"another shape.*Preprocessing\(crop"),
    "two inputs": (lambda: nn.Bilinear(3, 3, 2), r"takes 2 inputs.*\(input1, input2\), 1 described"),
    "a builder that raises": (lambda: {}["net"], r"builder .* raised KeyError: 'net'; it has to"),
    "a builder without a network": (lambda: "resnet", r"returned str: it has to return a torch.nn.Module"),
    "a lock": (lambda: with_parts(lambda _, h: h, lock=threading.Lock()), r"Net cannot be copied.*locks"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_one_sentence_with_the_way_out(name: str) -> None:
    build, words = REFUSED[name]
    with pytest.raises(UntraceableModelError, match=words) as raised:
        _ = source(build, name).open().prepare(1).graph
    assert "\n" not in str(raised.value)


def test_what_is_given_unbuilt_is_refused() -> None:
    net = Lazy().eval()
    with pytest.raises(UntraceableModelError, match="has no weights yet: run the network once"):
        TORCH.trace(net, [IMAGE])


def test_a_builder_may_return_its_authors_own_network() -> None:
    own = Net().train()
    built = TORCH.build(lambda: own, (IMAGE,), 0)
    assert own.training
    assert all(weight.requires_grad for weight in own.parameters())
    assert not any(weight.requires_grad for weight in built.parameters())
    assert not built.training
    shared = zip(own.parameters(), built.parameters(), strict=True)
    assert all(mine.data_ptr() == theirs.data_ptr() for mine, theirs in shared), "no copy of the weights"


def test_a_module_in_a_list_that_is_registered_too_is_known() -> None:
    net = with_parts(lambda n, h: n.order[0](h), block=nn.Conv2d(4, 4, 3))
    net.order = [net.block]
    model = TORCH.trace(net.eval(), [IMAGE])
    expected = net(torch.from_numpy(pictures())).detach().numpy()
    np.testing.assert_allclose(model.run({"x": pictures()}, ["fc"])["fc"], expected, rtol=1e-5, atol=1e-6)


def test_from_pretrained_in_a_builder(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 4], depths=[1, 1], layer_type="basic")
    made = transformers.ResNetForImageClassification(config).eval()
    made.save_pretrained(tmp_path / "net")

    def build() -> Any:
        return transformers.ResNetForImageClassification.from_pretrained(str(tmp_path / "net"))

    model = source(build, "pretrained").open()
    with torch.no_grad():
        expected = made(torch.from_numpy(pictures())).logits.numpy()
    found = model.run({model.graph.inputs[0]: pictures()}, [model.output_layer("logits")])
    np.testing.assert_allclose(*found.values(), expected, rtol=1e-5, atol=1e-6)
    assert "resnet.encoder.stages.1" in TORCH.paths(TORCH.skeleton(build, (IMAGE,)), (IMAGE,))


def test_a_module_of_several_tensors_is_its_first_one() -> None:
    model = TORCH.trace(Recurrent().eval(), [IMAGE])
    assert model.graph[model.layer("rnn")].output_shape == (64, 4)
    assert "rnn" in TORCH.paths(TORCH.skeleton(Recurrent, (IMAGE,)), (IMAGE,))
