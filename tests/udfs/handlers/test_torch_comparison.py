"""Opened models train like the user's: a module whose code tracers do not record stays whole, or the model does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradient_reversal import Reverse
from torch import nn
from torch.utils.checkpoint import checkpoint

from optimizer.graph import materialisable
from udfs.handlers import ModelTrainer, TensorSpec, open_adapted, open_session
from udfs.handlers.torch import _kept_modules
from udfs.training import BatchWeights

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, BATCH, WIDTH, CLASSES = 24, 8, 8, 3
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, WIDTH)).astype(np.float32)
Y = DRAW.integers(0, CLASSES, ROWS)
CALLS = 0


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the results for earlier models, as in a new process."""
    monkeypatch.setattr(_kept_modules, "_RESULTS", {})


class Part(nn.Module):
    """A layer that learns, and a norm; subclasses have a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)

    def normed(self, z: Any) -> Any:
        return torch.tanh(self.norm(z))


class StopGradient(Part):
    def forward(self, x: Any) -> Any:
        z = self.layer(x)
        with torch.no_grad():
            gate = torch.sigmoid(z * 3)
        return z * gate


class Decorated(Part):
    @torch.no_grad()
    def gate(self, z: Any) -> Any:
        return torch.sigmoid(z * 3)

    def forward(self, x: Any) -> Any:
        z = self.layer(x)
        return z * self.gate(z)


class InferenceRegion(Part):
    def forward(self, x: Any) -> Any:
        with torch.inference_mode():
            scale = self.layer(x).abs().mean(1, keepdim=True)
        return self.layer(x) * (1 + scale.clone())


class Reversed(Part):
    def forward(self, x: Any) -> Any:
        return Reverse.apply(self.layer(x))


class TensorHook(Part):
    def forward(self, x: Any) -> Any:
        z = self.layer(x)
        if z.requires_grad:
            z.register_hook(lambda gradient: gradient * 0.5)
        return z


class Autocast(Part):
    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.layer(x)
        return z.float()


class Checkpointed(Part):
    def forward(self, x: Any) -> Any:
        return checkpoint(self.normed, self.layer(x), use_reentrant=False)


class Reentrant(Part):
    def forward(self, x: Any) -> Any:
        return checkpoint(self.normed, self.layer(x), use_reentrant=True)


class Cooling(Part):
    def __init__(self) -> None:
        super().__init__()
        self.temperature = 1.0

    def forward(self, x: Any) -> Any:
        if self.training:
            self.temperature *= 0.9
        return self.layer(x) * self.temperature


class Warmup(Part):
    """Counts in a variable of its module, and in training alone."""

    def forward(self, x: Any) -> Any:
        global CALLS  # noqa: PLW0603 - as users write it
        z = self.layer(x)
        if not self.training:
            return z
        CALLS += 1
        return z * min(1.0, CALLS / 10)


class ReplacedBuffer(Part):
    def __init__(self) -> None:
        super().__init__()
        self.mean: Any
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Any) -> Any:
        z = self.layer(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * z.detach().mean(0)
        return z - self.mean


class OwnGenerator(Part):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def forward(self, x: Any) -> Any:
        z = self.layer(x)
        return z + torch.randn(z.shape, generator=self.generator) if self.training else z


class Listed(Part):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: Any) -> Any:
        if self.training:
            self.seen.append(1)
        return self.layer(x) * (1 + len(self.seen) / 10)


# Modules that stay whole while the frozen layers below them are stored, and those whose state no checkpoint has.
KEPT = (StopGradient, Decorated, Reversed, TensorHook, Autocast, Checkpointed, Reentrant)
STATEFUL = (Cooling, Warmup, ReplacedBuffer, OwnGenerator, Listed)


class Net(nn.Module):
    """A frozen trunk, a part, and a head."""

    def __init__(self, part: type[Part], parts: int = 1) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.trunk = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).requires_grad_(False)
        self.parts = nn.ModuleList([Plain() for _ in range(parts - 1)] + [part()])
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Any) -> Any:
        z = self.trunk(x)
        for part in self.parts:
            z = part(z)
        return self.head(self.drop(torch.tanh(z)))


class Plain(Part):
    """A part that can be opened."""

    def forward(self, x: Any) -> Any:
        return self.normed(self.layer(x))


def trainer_fn(build: Callable[[], nn.Module]) -> Callable[[dict[str, Any]], ModelTrainer]:
    def make(_params: dict[str, Any]) -> ModelTrainer:
        model = build()
        solver = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.3)
        return ModelTrainer(model=model, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=BATCH)

    return make


def opened(build: Callable[[], nn.Module], inputs: tuple[TensorSpec, ...] = (TensorSpec((WIDTH,)),)) -> Any:
    columns = [f"c{place}" for place in range(len(inputs))]
    return open_adapted(trainer_fn(build), {}, 0, inputs=inputs, columns=columns)


def trained(session: Any, inputs: list[tuple[Any, ...]]) -> dict[str, np.ndarray]:
    """Train two epochs on batches, and return all weights and buffers."""
    torch.manual_seed(5)
    for _ in range(2):
        session.begin()
        for place, batch in enumerate(inputs):
            session.step(batch, (Y[place * BATCH : (place + 1) * BATCH],), BatchWeights(float(BATCH)))
    return {name: tensor.numpy().copy() for name, tensor in session.model.state_dict().items()}


def assert_trains_alike(build: Callable[[], nn.Module], adapted: Any, *arrays: np.ndarray) -> None:
    global CALLS  # noqa: PLW0603
    batches = [tuple(array[start : start + BATCH] for array in arrays) for start in range(0, ROWS, BATCH)]
    parts = [adapted.trunk(dict(zip(adapted.graph.inputs, batch, strict=True)), adapted.feeds) for batch in batches]
    CALLS = 0
    whole = trained(open_session(trainer_fn(build), {}, 0), batches)
    CALLS = 0
    branch = trained(adapted.session, [tuple(part[name] for name in adapted.feeds) for part in parts])
    for name, value in whole.items():
        np.testing.assert_array_equal(branch[name], value, err_msg=name)


@pytest.mark.parametrize("part", KEPT)
def test_the_smallest_module_that_tracers_do_not_record_stays_whole(part: type[Part]) -> None:
    def build() -> nn.Module:
        return Net(part, parts=2)

    adapted = opened(build)
    assert not adapted.whole
    assert adapted.feeds == ("trunk.1",)
    names = [layer.name for layer in adapted.graph]
    assert "parts.1" in names, "whole"
    assert "parts.0.layer" in names, "opened"
    assert_trains_alike(build, adapted, X)
    known = opened(build)
    assert [layer.name for layer in known.graph] == names


@pytest.mark.parametrize("part", [*KEPT, *STATEFUL, InferenceRegion])
def test_a_model_whose_own_forward_is_not_recorded_trains_whole(part: type[Part]) -> None:
    class Root(part):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.layer = nn.Sequential(nn.Linear(WIDTH, WIDTH).requires_grad_(False), nn.Linear(WIDTH, WIDTH))

    adapted = opened(Root)
    assert "Root" in adapted.whole
    assert adapted.feeds == adapted.graph.inputs
    assert opened(Root).whole == adapted.whole, "the same reason in each process, and for each candidate"
    assert_trains_alike(Root, adapted, X)


@pytest.mark.parametrize("part", STATEFUL)
def test_state_in_python_keeps_the_whole_model(part: type[Part]) -> None:
    adapted = opened(lambda: Net(part))
    assert adapted.whole
    assert_trains_alike(lambda: Net(part), adapted, X)


def test_a_wrapped_model_is_compared_as_the_one_within() -> None:
    adapted = opened(lambda: nn.DataParallel(Net(StopGradient, parts=2)))
    assert not adapted.whole
    assert {"parts.1", "parts.0.layer"} < {layer.name for layer in adapted.graph}


class Hooked:
    """A hook with state."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, module: Any, inputs: Any, output: Any) -> Any:
        self.calls += module.training
        return output / (1 + 0.1 * self.calls) if module.training else output


def test_state_in_a_hook_of_a_layer_keeps_the_whole_model() -> None:
    def build() -> nn.Module:
        net = Net(Plain)
        net.get_submodule("parts.0.layer").register_forward_hook(Hooked())
        return net

    adapted = opened(build)
    assert "calls" in adapted.whole
    assert_trains_alike(build, adapted, X)


def test_opening_restores_the_model_and_the_process() -> None:
    def build() -> nn.Module:
        net = Net(Checkpointed)
        net.head.weight.grad = torch.ones_like(net.head.weight)
        return net.train()

    made = trainer_fn(build)({})
    before = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
    global CALLS  # noqa: PLW0603
    CALLS = 4
    states: list[Any] = []

    def remembered(_params: dict[str, Any]) -> ModelTrainer:
        torch.manual_seed(3)
        states[:] = [torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()]
        return made

    modes = {name: module.training for name, module in made.model.named_modules()}
    adapted = open_adapted(remembered, {}, 0, inputs=[TensorSpec((WIDTH,))], columns=["x"])
    assert not adapted.whole
    for name, tensor in made.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert made.model.head.weight.grad is not None
    assert torch.equal(made.model.head.weight.grad, torch.ones_like(made.model.head.weight))
    assert made.model.head.bias.grad is None
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    np.testing.assert_array_equal(np.random.get_state()[1], states[2])
    assert {name: module.training for name, module in made.model.named_modules()} == dict.fromkeys(modes, False)
    assert CALLS == 4


class Momentum(nn.Module):
    """A frozen encoder that follows one that learns, in forward."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.trunk = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.head = nn.Linear(WIDTH, CLASSES)

    @torch.no_grad()
    def follow(self) -> None:
        for query, key in zip(self.query.parameters(), self.key.parameters(), strict=True):
            key.mul_(0.9).add_(query, alpha=0.1)

    def forward(self, x: Any) -> Any:
        if self.training:
            self.follow()
        z = self.trunk(x)
        return self.head(self.query(z) * self.key(z))


class DataMomentum(Momentum):
    def follow(self) -> None:
        for query, key in zip(self.query.parameters(), self.key.parameters(), strict=True):
            key.data = key.data * 0.9 + query.data * 0.1


class Clipped(Momentum):
    def follow(self) -> None:
        for weight in self.head.parameters():
            weight.data.clamp_(-0.05, 0.05)


@pytest.mark.parametrize("network", [Momentum, DataMomentum, Clipped])
def test_a_forward_that_writes_to_weights_trains_whole_from_the_users_weights(network: type[Momentum]) -> None:
    for _ in range(2):  # the second is known
        adapted = opened(network)
        assert adapted.whole
        assert_trains_alike(network, adapted, X)


class Logarithm(Part):
    """Drawn records have no logarithm, and NaN would equal NaN."""

    def forward(self, x: Any) -> Any:
        z = self.layer(torch.log(x[:, :WIDTH] + 0.1))
        with torch.no_grad():
            gate = torch.sigmoid(z)
        return z * gate


def test_models_of_positive_numbers_are_compared_on_these() -> None:
    class Root(Logarithm):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.layer = nn.Sequential(nn.Linear(WIDTH, WIDTH).requires_grad_(False), nn.Linear(WIDTH, WIDTH))

    adapted = opened(Root)
    assert "gradient" in adapted.whole
    assert_trains_alike(Root, adapted, np.abs(X))


def test_a_model_that_runs_on_no_drawn_records_trains_whole() -> None:
    class Root(Net):
        def __init__(self) -> None:
            super().__init__(Plain)

        def forward(self, x: Any) -> Any:
            if isinstance(x, torch.Tensor) and not torch.compiler.is_compiling() and bool((x[:, 0] < 100).all()):
                raise ValueError("the first feature must be a year")
            return super().forward(x)

    adapted = opened(Root)
    assert adapted.whole


class Transposed(Plain):
    """A frozen norm of transposed tokens, whose memory torch's fake tensors lay out otherwise than the CPU."""

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.norm(self.layer(x).transpose(1, 2)).transpose(1, 2))


def test_stored_layers_are_laid_out_in_memory_as_in_the_model() -> None:
    def build() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(
            Transposed().requires_grad_(False), nn.Linear(WIDTH, WIDTH), nn.Flatten(), nn.Linear(40, 3)
        )

    for _ in range(2):  # the second is known, and not compared
        adapted = opened(build, (SEQUENCE[0],))
        (feed,) = adapted.feeds
        assert adapted.traced.strides_of([feed]) == {feed: build()[0](torch.from_numpy(TOKENS)).stride()}
        assert_trains_alike(build, adapted, TOKENS)


def test_an_older_spectral_norm_is_opened() -> None:
    def build() -> nn.Module:
        torch.manual_seed(0)
        trunk = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        return nn.Sequential(trunk, nn.Tanh(), nn.utils.spectral_norm(nn.Linear(WIDTH, CLASSES)))

    adapted = opened(build)
    assert not adapted.whole
    assert_trains_alike(build, adapted, X)


def test_an_error_within_the_opening_trains_the_model_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("an operation of torch without a meta kernel")

    monkeypatch.setattr("udfs.handlers.torch._adapted_trainer.layer_graph", fail)
    adapted = opened(lambda: Net(Plain))
    assert "Net" in adapted.whole
    assert "without a meta kernel" in adapted.whole


TOKENS, LENGTHS = DRAW.normal(size=(ROWS, 5, WIDTH)).astype(np.float32), DRAW.integers(1, 6, (ROWS, 1))
SEQUENCE = (TensorSpec((5, WIDTH)), TensorSpec((1,), "int64"))


class LastToken(nn.Module):
    """A classifier of each record's last token, with the place of the record in its batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.trunk, self.cls = (
            nn.Linear(WIDTH, WIDTH).requires_grad_(False),
            nn.Parameter(torch.zeros(1, 1, WIDTH), False),
        )
        self.above, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def tokens(self, x: Any) -> Any:
        z = self.trunk(x)
        return self.above(torch.cat([self.cls.expand(z.shape[0], -1, -1), z], 1))


class ByArange(LastToken):
    def forward(self, x: Any, length: Any) -> Any:
        return self.head(self.tokens(x)[torch.arange(x.shape[0]), length[:, 0]])


class ByOnes(LastToken):
    def forward(self, x: Any, length: Any) -> Any:
        z = self.tokens(x)
        return self.head(z[torch.ones_like(length[:, 0]).cumsum(0) - 1, length[:, 0]])


class ByFlatIndex(LastToken):
    def forward(self, x: Any, length: Any) -> Any:
        z = self.tokens(x)
        place = torch.arange(x.shape[0]) * (x.shape[1] + 1) + length[:, 0]
        return self.head(z.reshape(-1, z.shape[2])[place])


@pytest.mark.parametrize("network", [ByArange, ByOnes, ByFlatIndex])
def test_a_value_of_the_batch_alone_is_not_stored_with_a_record(network: type[LastToken]) -> None:
    adapted = opened(network, SEQUENCE)
    stored = [name for name in materialisable(adapted.graph) if name in adapted.feeds]
    if network is ByFlatIndex:
        assert "mixes the records" in adapted.whole, "an index into the batch"
    else:
        assert not adapted.whole
        assert not any(word in name for name in stored for word in ("arange", "expand", "ones_like", "cumsum"))
    assert_trains_alike(network, adapted, TOKENS, LENGTHS)
    # Stored records are read in another order.
    batch = dict(zip(adapted.graph.inputs, (TOKENS[:BATCH], LENGTHS[:BATCH]), strict=True))
    fed = adapted.trunk(batch, adapted.feeds)
    order = np.roll(np.arange(BATCH), 3)
    outputs = adapted.session.predict(tuple(fed[name][order] for name in adapted.feeds))[0]
    whole = open_session(trainer_fn(network), {}, 0)
    whole.model.load_state_dict(adapted.model.state_dict())
    np.testing.assert_allclose(outputs, whole.predict((TOKENS[:BATCH][order], LENGTHS[:BATCH][order]))[0], rtol=1e-5)
