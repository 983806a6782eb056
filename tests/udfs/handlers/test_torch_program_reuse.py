"""Programs of torch.export that serve a later model alike, and no other."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from udfs.handlers import ModelTrainer, TensorSpec, open_adapted
from udfs.handlers.torch import _fx, _program_reuse
from udfs.shards import Tensors
from udfs.training import batch_weights

if TYPE_CHECKING:
    from collections.abc import Callable

INPUTS = [TensorSpec((6,))]
SCALE = [1.0]


class Settings:
    """As a configuration of transformers: an object in an attribute."""

    def __init__(self, power: int) -> None:
        self.power = power


class Net(nn.Module):
    """Chooses by a shape, which torch.fx cannot follow."""

    def __init__(self, *, power: int = 2, rate: float = 0.5, learns: str = "fc", tied: bool = False) -> None:
        super().__init__()
        self.below, self.middle, self.drop = nn.Linear(6, 5), nn.Linear(5, 5), nn.Dropout(rate)
        self.above, self.norm, self.fc = nn.Linear(5, 5), nn.LayerNorm(5), nn.Linear(5, 3)
        if tied:
            self.above.weight = self.middle.weight
        self.settings = Settings(power)
        self.requires_grad_(requires_grad=False)
        for name in (learns, "norm"):
            self.get_submodule(name).requires_grad_(requires_grad=True)

    def forward(self, x: Any) -> Any:
        x = self.middle(self.below(x) * SCALE[0])
        if x.shape[1] > 3:
            x = x**self.settings.power
        return self.fc(self.norm(self.above(self.drop(x))))


@pytest.fixture(autouse=True)
def exports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what is exported, from a process without programs on."""
    made: list[str] = []
    export = _fx._by_export

    def counted(model: Any, *args: Any, **options: Any) -> Any:
        made.append(type(model).__name__)
        return export(model, *args, **options)

    monkeypatch.setattr(_fx, "_by_export", counted)
    monkeypatch.setattr(_program_reuse, "_PROGRAMS", {})
    return made


def opened(make: Callable[[], nn.Module], seed: int = 1) -> Any:
    def trainer_fn(_: Any) -> ModelTrainer:
        torch.manual_seed(seed)
        net = make()
        solver = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.1)
        return ModelTrainer(model=net, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=4)

    return open_adapted(trainer_fn, {}, 1, inputs=INPUTS, columns=["x"])


def trained(adapted: Any) -> dict[str, Any]:
    """Take two steps and evaluate."""
    random = np.random.default_rng(0)
    rows, labels = random.standard_normal((8, 6)).astype(np.float32), random.integers(0, 3, 8)
    feeds = tuple(adapted.trunk({adapted.graph.inputs[0]: rows}, adapted.feeds).values())
    data = Tensors(feeds, (labels,), 8)
    adapted.session.begin()
    torch.manual_seed(3)
    for batch in (slice(0, 4), slice(4, 8)):
        weights = batch_weights(data, batch, 4)
        adapted.session.step(tuple(feed[batch] for feed in feeds), (labels[batch],), weights)
    sums = adapted.session.end(ends_epoch=True)
    return {
        "sums": {name: np.asarray(own).tolist() for name, own in sums.items()},
        "evaluated": str(adapted.session.evaluate(data)),
        "weights": {name: tensor.tolist() for name, tensor in adapted.model.state_dict().items()},
    }


def test_the_next_model_alike_is_not_exported_and_trains_as_if_it_were(
    exports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(Net)
    assert (first.whole, first.feeds, len(exports)) == ("", ("pow",), 2)
    again = opened(Net, seed=2)
    assert len(exports) == 2
    # Its own weights, in its own model.
    learned = trained(again)
    assert learned["weights"] != trained(first)["weights"]

    monkeypatch.setattr(_program_reuse, "_PROGRAMS", {})
    alone = opened(Net, seed=2)
    assert len(exports) == 4
    assert (list(alone.graph), alone.feeds) == (list(again.graph), again.feeds)
    assert trained(alone) == learned


@pytest.mark.parametrize("difference", [{"power": 3}, {"rate": 0.25}, {"learns": "above"}, {"tied": True}])
def test_a_model_that_differs_in_one_thing_is_exported(difference: dict[str, Any], exports: list[str]) -> None:
    opened(Net)
    opened(lambda: Net(**difference), seed=2)
    assert len(exports) == 4


def test_a_global_variable_that_changed_is_noticed(exports: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SCALE", [1.0])
    opened(Net)
    SCALE[0] = 2.0
    scaled = opened(Net)
    assert len(exports) == 4
    rows = np.ones((2, 6), np.float32)
    (features,) = scaled.trunk({scaled.graph.inputs[0]: rows}, scaled.feeds).values()
    net = scaled.model
    expected = net.middle(net.below(torch.from_numpy(rows)) * 2.0) ** 2
    assert np.array_equal(features, expected.detach().numpy())


def test_a_program_keeps_no_model(exports: list[str]) -> None:
    adapted = opened(Net)
    weight = weakref.ref(adapted.model.below.weight)
    del adapted
    gc.collect()
    assert weight() is None
    assert len(exports) == 2
