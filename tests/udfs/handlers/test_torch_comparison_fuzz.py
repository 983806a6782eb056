"""Drawn modules with code that tracers of torch do not record, opened and trained against the user's own model."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradient_reversal import Reverse
from torch import nn
from torch.utils.checkpoint import checkpoint

from udfs.handlers import ModelTrainer, TensorSpec, open_adapted, open_session
from udfs.training import BatchWeights

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK, MANY = 12, 200
ROWS, BATCH, TOKENS, WIDTH, CLASSES = 16, 8, 3, 6, 3
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, TOKENS, WIDTH)).astype(np.float32)
LENGTHS = DRAW.integers(1, TOKENS + 1, (ROWS, 1))
Y = DRAW.integers(0, CLASSES, ROWS)
INPUTS = (TensorSpec((TOKENS, WIDTH)), TensorSpec((1,), "int64"))


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x * 4).round() / 4

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


class Drawn(nn.Module):
    """Operations in a drawn order; each method is one of them."""

    def __init__(self, operations: list[str]) -> None:
        super().__init__()
        self.operations = operations
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in operations)
        self.norm, self.drop = nn.BatchNorm1d(WIDTH), nn.Dropout(0.3)
        self.place = nn.Parameter(torch.full((1, 1, WIDTH), 0.1))
        self.temperature, self.calls = 1.0, 0

    def forward(self, z: Any) -> Any:
        for operation, layer in zip(self.operations, self.layers, strict=True):
            z = getattr(self, f"by_{operation}")(layer, z)
        return z

    def normed(self, z: Any) -> Any:
        return torch.tanh(self.norm(z.transpose(1, 2)).transpose(1, 2))

    @torch.no_grad()
    def gate(self, z: Any) -> Any:
        return torch.sigmoid(z * 2)

    def by_layer(self, layer: nn.Module, z: Any) -> Any:
        return torch.tanh(layer(z))

    def by_norm(self, layer: nn.Module, z: Any) -> Any:
        return self.normed(layer(z))

    def by_dropout(self, layer: nn.Module, z: Any) -> Any:
        return self.drop(layer(z))

    def by_noise(self, layer: nn.Module, z: Any) -> Any:
        z = layer(z)
        return z + 0.1 * torch.randn_like(z) if self.training else z

    def by_place(self, layer: nn.Module, z: Any) -> Any:
        return layer(z) + self.place.expand(z.shape[0], -1, -1)

    def by_no_grad(self, layer: nn.Module, z: Any) -> Any:
        z = layer(z)
        with torch.no_grad():
            gate = torch.sigmoid(z * 3)
        return z * gate

    def by_decorated(self, layer: nn.Module, z: Any) -> Any:
        z = layer(z)
        return z * self.gate(z)

    def by_detached(self, layer: nn.Module, z: Any) -> Any:
        z = layer(z)
        return z * torch.sigmoid(z).detach()

    def by_reverse(self, layer: nn.Module, z: Any) -> Any:
        return Reverse.apply(layer(z))

    def by_straight_through(self, layer: nn.Module, z: Any) -> Any:
        return StraightThrough.apply(layer(z))

    def by_hook(self, layer: nn.Module, z: Any) -> Any:
        z = layer(z)
        if z.requires_grad:
            z.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        return z

    def by_autocast(self, layer: nn.Module, z: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = layer(z)
        return z.float()

    def by_checkpoint(self, layer: nn.Module, z: Any) -> Any:
        return checkpoint(layer, z, use_reentrant=False)

    def by_norm_in_checkpoint(self, layer: nn.Module, z: Any) -> Any:
        return checkpoint(self.normed, layer(z), use_reentrant=False)

    def by_dropout_in_checkpoint(self, layer: nn.Module, z: Any) -> Any:
        return checkpoint(self.drop, layer(z), use_reentrant=False)

    def by_number(self, layer: nn.Module, z: Any) -> Any:
        if self.training:
            self.temperature *= 0.9
        return layer(z) * self.temperature

    def by_warmup(self, layer: nn.Module, z: Any) -> Any:
        if not self.training:
            return layer(z)
        self.calls += 1
        return layer(z) * min(1.0, self.calls / 4)


RECORDED = ("layer", "norm", "dropout", "noise", "place", "detached")
OTHERS = (
    *("no_grad", "decorated", "reverse", "straight_through", "hook", "autocast", "checkpoint"),
    *("norm_in_checkpoint", "dropout_in_checkpoint", "number", "warmup"),
)


def drawn_part(draw: random.Random, likely: float) -> Drawn:
    """Draw a part of a class of its own, as the modules of a user have."""
    operations = [draw.choice(OTHERS if draw.random() < likely else RECORDED) for _ in range(draw.randint(1, 3))]
    return type(f"Part{draw.randrange(4)}", (Drawn,), {})(operations)


class Net(nn.Module):
    """Drawn parts, the lowest of them frozen; in some the model's own forward has an operation too."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        parts = [drawn_part(draw, 0.25) for _ in range(draw.randint(2, 4))]
        for part in parts[: draw.randint(1, len(parts) - 1)]:
            part.requires_grad_(False)
        self.nested = draw.random() < 0.3
        self.parts: Any = nn.ModuleList([nn.Sequential(*parts)] if self.nested else parts)
        self.last = drawn_part(draw, 0.1)
        self.picks = draw.choice(["mean", "last", "first"])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Any, length: Any) -> Any:
        z = x
        for part in self.parts:
            z = part(z)
        for operation, layer in zip(self.last.operations, self.last.layers, strict=True):
            z = getattr(self.last, f"by_{operation}")(layer, z)
        if self.picks == "last":
            z = z[torch.arange(x.shape[0]), length[:, 0] - 1]
        elif self.picks == "first":
            z = z[:, 0]
        else:
            z = z.mean(1)
        return self.head(z)


def trainer_fn(seed: int) -> Callable[[dict[str, Any]], ModelTrainer]:
    def make(_params: dict[str, Any]) -> ModelTrainer:
        model = Net(seed)
        solver = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], 0.2, momentum=0.9)
        return ModelTrainer(model=model, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=BATCH)

    return make


def tensors(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def trained(session: Any, batches: list[tuple[Any, ...]]) -> list[Any]:
    """Train two epochs and predict in between: weights, buffers and outputs after each."""
    results: list[Any] = []
    torch.manual_seed(5)
    for _ in range(2):
        session.begin()
        for place, batch in enumerate(batches):
            session.step(batch, (Y[place * BATCH : (place + 1) * BATCH],), BatchWeights(float(BATCH)))
        results += [tensors(session.model), {"outputs": session.predict(batches[0])[0]}]
    return results


def check(seed: int) -> str:
    """Open a drawn model, and train it and the whole model; return the reason why it trains whole, or its layers."""
    adapted = open_adapted(trainer_fn(seed), {}, 0, inputs=INPUTS, columns=["x", "length"])
    whole = open_session(trainer_fn(seed), {}, 0)
    np.testing.assert_equal(tensors(adapted.model), tensors(whole.model), "opening moved a weight")
    batches = [(X[start : start + BATCH], LENGTHS[start : start + BATCH]) for start in range(0, ROWS, BATCH)]
    fed = []
    for batch in batches:
        part = adapted.trunk(dict(zip(adapted.graph.inputs, batch, strict=True)), adapted.feeds)
        fed.append(tuple(part[name] for name in adapted.feeds))
    for mine, theirs in zip(trained(adapted.session, fed), trained(whole, batches), strict=True):
        for name, value in theirs.items():
            np.testing.assert_array_equal(mine[name], value, err_msg=f"{name} of seed {seed} ({adapted.whole})")
    return adapted.whole


def test_drawn_modules_train_as_the_users_model() -> None:
    reasons = [check(seed) for seed in range(QUICK)]
    assert any(reasons)
    assert not all(reasons)


@pytest.mark.slow
def test_many_drawn_modules_train_as_the_users_model() -> None:
    reasons = [check(seed) for seed in range(MANY)]
    assert sum(map(bool, reasons)) > MANY // 10
    assert sum(not reason for reason in reasons) > MANY // 4
