"""A record alone and in a batch: networks whose records see each other, or that draw random numbers, are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional

from udfs.handlers import TensorSpec, UntraceableModelError, check_records, framework, with_neighbours
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE = TensorSpec((3, 12, 12))


class Net(nn.Module):
    """A convolution, and a function of its vectors."""

    def __init__(self, ending: Callable[[Any, torch.Tensor], torch.Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.low, self.fc, self.ending = nn.Conv2d(3, 8, 3), nn.Linear(8, 2), ending
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ending(self, self.low(x).relu())


def vectors(h: torch.Tensor) -> torch.Tensor:
    return h.mean((2, 3))


def places(h: torch.Tensor) -> torch.Tensor:
    return h.flatten(2).transpose(1, 2)


def checked(net: nn.Module, *inputs: TensorSpec) -> None:
    check_records(framework("torch").trace(net.eval(), inputs or [IMAGE]), inputs or [IMAGE])


MIXING = {
    "mean of the batch": (lambda: Net(lambda n, h: n.fc(vectors(h) - vectors(h).mean(0))), "sub"),
    "a layer norm hides it": (lambda: Net(lambda _, h: functional.layer_norm(vectors(h) - h.mean(), (8,))), "sub"),
    "turned round": (lambda: Net(lambda n, h: n.fc(vectors(h) + vectors(h).flip(0))), "flip"),
    "from the first record": (lambda: Net(lambda n, h: n.fc(vectors(h) - vectors(h)[:1])), "sub"),
    "from the last record": (lambda: Net(lambda n, h: n.fc(vectors(h) - vectors(h)[-1:])), "sub"),
    "summed from record to record": (lambda: Net(lambda n, h: n.fc(vectors(h).cumsum(0))), "cumsum"),
    "softmax over records": (lambda: Net(lambda n, h: n.fc(vectors(h)).softmax(0)), "softmax"),
    "no running statistics": (lambda: Net(lambda n, h: n.n(h), n=nn.BatchNorm2d(8, track_running_stats=False)), "n"),
    "records as a sequence": (lambda: Net(lambda n, h: n.rnn(places(h))[0].mean(1), rnn=nn.LSTM(8, 4)), "rnn"),
    "attention to records": (lambda: Net(lambda n, h: n.t(places(h)), t=nn.TransformerEncoderLayer(8, 2, 8)), "t"),
    "half, by a third": (lambda: Net(lambda _, h: vectors(h) - vectors(h).mean(0) / 3).half(), "sub"),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", MIXING)
def test_mixed_records_are_refused_with_the_layer(name: str) -> None:
    torch.manual_seed(0)
    build, layer = MIXING[name]
    with pytest.raises(UntraceableModelError, match=rf"layer '{layer}[^']*' .* mixes the records of a batch"):
        checked(build())


class Unregistered(nn.Module):
    """A half-precision network with a tensor that stays in single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.factor = nn.Linear(3, 2), torch.ones(3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc((x.to(self.fc.weight.dtype) * self.factor).mean((2, 3)))


def test_what_does_not_run_is_refused_with_the_reason() -> None:
    with pytest.raises(UntraceableModelError, match=r"does not run: RuntimeError.*Float and Half.*not registered"):
        checked(Unregistered().half())


def test_a_record_that_is_the_largest_of_its_batch_hides_nothing() -> None:
    def ending(_: Any, h: torch.Tensor) -> torch.Tensor:
        normed = functional.layer_norm(vectors(h), (8,))
        return normed / (normed.amax() + 1)

    torch.manual_seed(28)  # the first record has the largest number, with both draws
    with pytest.raises(UntraceableModelError, match=r"'truediv'.* mixes the records of a batch"):
        checked(Net(ending))


def test_random_numbers_are_refused_with_the_layer() -> None:
    with pytest.raises(UntraceableModelError, match=r"'dropout' .* other numbers each time.*training=self.training"):
        checked(Net(lambda n, h: n.fc(functional.dropout(vectors(h)))))


APART = {
    "batch norm": lambda: Net(lambda n, h: n.n(h), n=nn.BatchNorm2d(8)),
    "instance norm of one place": lambda: Net(lambda n, h: n.n(h), n=nn.GroupNorm(8, 8)),
    "recurrent": lambda: Net(lambda n, h: n.rnn(places(h))[0].mean(1), rnn=nn.GRU(8, 4, batch_first=True)),
    "by the number of records": lambda: Net(lambda n, h: n.fc(h.reshape(h.size(0), 8, -1).amax(2))),
    "a choice of one record": lambda: Net(lambda n, h: n.fc(functional.one_hot(vectors(h).argmax(1), 8).float())),
    "half": lambda: Net(lambda n, h: n.fc(n.n(h).mean((2, 3))), n=nn.BatchNorm2d(8)).half(),
    "overflows": lambda: Net(lambda n, h: n.fc(vectors(h) * 1e38 * 1e5)),
}


@pytest.mark.parametrize("name", APART)
def test_records_that_do_not_see_each_other_pass(name: str) -> None:
    torch.manual_seed(0)
    checked(APART[name]())


def test_tokens_are_drawn_within_any_vocabulary() -> None:
    class Text(nn.Module):
        def __init__(self, *, mixes: bool) -> None:
            super().__init__()
            self.words, self.mixes = nn.Embedding(2, 4), mixes

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            h = (self.words(ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            return h - h.amax(0) if self.mixes else h

    tokens = [TensorSpec((5,), "int64")] * 2
    checked(Text(mixes=False), *tokens)
    with pytest.raises(UntraceableModelError, match="sub"):
        checked(Text(mixes=True), *tokens)


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_1", "mobilenet_v2"])
def test_networks_of_the_roster_pass(name: str) -> None:
    card = roster.card(name)
    inputs = card.preprocessing.with_size(64).inputs
    checked(framework("torch").build(card.builder, inputs, 0), *inputs)


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("name", [name for name in roster.names() if roster.card(name).kind == "image"])
def test_all_networks_of_the_roster_pass(name: str) -> None:
    card = roster.card(name)
    # The compact networks have no pooling before their heads, so they read images of one size only.
    is_fixed = name.startswith("compact_")
    inputs = (card.preprocessing if is_fixed else card.preprocessing.with_size(128)).inputs
    own = framework(card.framework)
    check_records(own.trace(own.build(card.builder, inputs, 0), inputs), inputs)


def test_neighbours_of_a_record_are_other_ones() -> None:
    record = np.arange(4, dtype=np.int64)[None]
    batch = with_neighbours(record)
    assert batch.dtype == np.int64
    assert len({row.tobytes() for row in batch}) == 4
    assert batch[1].tobytes() == record.tobytes()
    assert (batch.min(), batch.max()) == (0, 3)
