"""What is remembered from one opening of a model to the next: never of another computation, never of other weights."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import fx, nn

from udfs.handlers import ModelTrainer, TensorSpec, _record_checks, open_adapted
from udfs.handlers.torch import _fingerprint, _measure_reuse
from udfs.handlers.torch._fx import capture, capture_training
from udfs.handlers.torch._measure import BATCHES, Measure, measure

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE, VECTOR = [TensorSpec((3, 8, 8))], [TensorSpec((6,))]

WIDTH = [1]


def widened(x: Any) -> Any:
    return torch.cat([x] * WIDTH[0], 1)


fx.wrap("widened")


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Begin as a new process does; what a test calls has it forget again."""

    def forgotten() -> None:
        monkeypatch.setattr(_measure_reuse, "_KNOWN", {})
        monkeypatch.setattr(_fingerprint, "_FOUND", {})
        monkeypatch.setattr(_record_checks, "_passed", set())

    forgotten()
    return forgotten


class Net(nn.Module):
    """A frozen convolution, and a part that learns above it; each argument is one thing that a model may differ in."""

    def __init__(
        self,
        *,
        stride: int = 1,
        eps: float = 1e-5,
        constant: float = 2.0,
        power: int = 2,
        shift: tuple[int, ...] = (4, 1, 1),
        rate: float = 0.5,
        bias: bool = True,
        learns: tuple[str, ...] = ("mix", "norm", "fc"),
        momentum: float = 0.1,
        statistics: bool = True,
        dtype: Any = torch.float32,
        activation: Callable[..., Any] = torch.relu,
    ) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 4, 3, stride=stride), nn.BatchNorm2d(4, eps=eps), nn.ReLU())
        self.register_buffer("shift", torch.zeros(shift))
        self.drop, self.mix = nn.Dropout(rate), nn.Conv2d(4, 4, 1, bias=bias)
        self.norm = nn.BatchNorm2d(4, momentum=momentum, track_running_stats=statistics)
        self.fc = nn.Linear(4, 3)
        self.constant, self.power, self.activation = constant, power, activation
        self.requires_grad_(False)
        for name in learns:
            self.get_submodule(name).requires_grad_(True)
        self.to(dtype)

    def forward(self, x: Any) -> Any:
        x = (self.trunk(x) * self.constant + self.shift) ** self.power
        x = self.activation(self.norm(self.mix(self.drop(x))))
        return self.fc(x.mean((2, 3)))


DIFFERENCES: dict[str, dict[str, Any]] = {
    "a stride": {"stride": 2},
    "eps": {"eps": 1e-3},
    "a number in forward": {"constant": 3.0},
    "a whole number in forward": {"power": 3},
    "a number of another type": {"power": 2.0},
    "the shape of a buffer": {"shift": (1, 1, 1)},
    "a rate of dropout": {"rate": 0.25},
    "no dropout": {"rate": 0.0},
    "a bias": {"bias": False},
    "a frozen convolution": {"learns": ("norm", "fc")},
    "a frozen norm": {"learns": ("mix", "fc")},
    "a frozen classifier": {"learns": ("mix", "norm")},
    "all that is above frozen": {"learns": ("fc",)},
    "momentum": {"momentum": 0.2},
    "no running statistics": {"statistics": False},
    "a type": {"dtype": torch.float64},
    "a function": {"activation": torch.tanh},
    "a function of other memory": {"activation": torch.nn.functional.silu},
}


def opened(make: Callable[[], nn.Module], inputs: list[TensorSpec] = IMAGE, seed: int = 1) -> Any:
    def trainer_fn(_: Any) -> ModelTrainer:
        torch.manual_seed(seed)
        net = make()
        solver = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.1)
        return ModelTrainer(model=net, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=4)

    return open_adapted(trainer_fn, {}, 1, inputs=inputs, columns=["x"])


def described(adapted: Any) -> dict[str, Any]:
    rows = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype(np.float32)
    features = adapted.trunk({adapted.graph.inputs[0]: rows}, adapted.feeds)
    return {
        "layers": list(adapted.graph),
        "outputs": adapted.graph.outputs,
        "feeds": adapted.feeds,
        "whole": adapted.whole,
        "held": sorted(adapted.session.saved_tensors()),
        "features": {name: (array.dtype, array.tobytes()) for name, array in features.items()},
    }


@pytest.mark.parametrize("difference", DIFFERENCES.values(), ids=list(DIFFERENCES))
def test_models_that_differ_in_one_thing_share_nothing_of_it(
    difference: dict[str, Any], forget: Callable[[], None]
) -> None:
    alone = described(opened(lambda: Net(**difference)))
    forget()
    usual = described(opened(Net))
    after = described(opened(lambda: Net(**difference)))

    assert not usual["whole"]
    assert after == alone
    assert after["layers"] != usual["layers"]
    # The other way round too.
    assert described(opened(Net)) == usual


def sizes(measured: Measure) -> dict[str, Any]:
    def told(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.shape, value.stride(), value.dtype, value.requires_grad
        return tuple(map(told, value)) if isinstance(value, (tuple, list)) else value

    return {
        name: (told(value), measured.flops[name], measured.effects[name])
        for name, value in measured.values.items()
        if name != "output"
    }


class Attention(nn.Module):
    """Attention to itself, and to a copy of itself: torch takes another way for one tensor given three times."""

    def __init__(self, *, own: bool) -> None:
        super().__init__()
        self.attention, self.own = nn.MultiheadAttention(6, 2, batch_first=True), own
        self.same = nn.Identity()

    def forward(self, x: Any) -> Any:
        x = x[:, None]
        other = self.same(x) if self.own else x + 0
        return self.attention(x, other, other)[0]


class ClassToken(nn.Module):
    """Attention that reads an expanded parameter itself, as its query, its keys or all three."""

    def __init__(self, reads: str, *, first: bool = True) -> None:
        super().__init__()
        self.token, self.reads, self.first = nn.Parameter(torch.ones(1, 1, 6)), reads, first
        self.attention, self.head = nn.MultiheadAttention(6, 2, batch_first=first), nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        x, token = x[:, None], self.token.expand(x.shape[0], -1, -1)
        if not self.first:
            x, token = x.transpose(0, 1), token.transpose(0, 1)
        query, keys = {"query": (token, x), "keys": (x, token), "all": (token, token)}[self.reads]
        attended = self.attention(query, keys, keys, need_weights=False)[0] + x
        return self.head(attended[:, 0] if self.first else attended[0])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("reads", ["query", "keys", "all"])
def test_an_expanded_parameter_needs_no_gradient_hooks(
    reads: str, first: bool, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch finds no gradient function of such a view, depending on what the process measured before."""
    from torch.utils import module_tracker

    def refused(*_: object) -> None:
        raise AssertionError("Expected gradient function to be set")

    net = ClassToken(reads, first=first).eval()
    expected = measure(capture(net, VECTOR), VECTOR, 3).flops
    forget()
    monkeypatch.setattr(module_tracker, "register_multi_grad_hook", refused)
    measured = measure(capture(net, VECTOR), VECTOR, 3)
    assert measured.flops == expected
    assert sum(measured.flops.values()) > 2 * 3 * 6 * 3  # more than the head's


@pytest.mark.parametrize("way", ["one tensor", "three tensors", "encoder", "function"])
def test_attention_is_counted_in_full_on_every_path(way: str) -> None:
    """Fused kernels of the CPU count as their projections and products do."""

    class Attended(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
            self.encoder = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)

        def forward(self, x: Any) -> Any:
            if way == "encoder":
                return self.encoder(x)
            if way == "function":
                return nn.functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])
            return self.attention(x, *((x, x) if way == "one tensor" else (x + 1, x + 2)), need_weights=False)[0]

    inputs = [TensorSpec((4, 6))]
    measured = measure(capture(Attended().eval(), inputs), inputs, 3)
    products, projections, forward = 2 * 3 * 4 * 4 * 12, 2 * 3 * 4 * 4 * 36, 2 * 3 * 4 * 2 * 6 * 8
    wanted = {"encoder": products + projections + forward, "function": products}
    assert sum(measured.flops.values()) == wanted.get(way, products + projections)


class Split(nn.Module):
    def forward(self, x: Any) -> Any:
        one, other = torch.split(x, x.shape[1] // 2, 1)[0], x.chunk(3, -1)[1]
        largest, top = x.max(1), torch.topk(x, 2)
        numbers = largest.values + x.sum(1), top[1] + largest.indices[:, None]
        return one.t().contiguous().t(), other.unsqueeze(1).expand(-1, 2, -1), *numbers


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = (kind(6, 6, 2, batch_first=True, dropout=0.2) for kind in (nn.LSTM, nn.GRU))

    def forward(self, x: Any) -> Any:
        return self.gru(self.lstm(x[:, None])[0])[0]


GRAPHS: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: Attention(own=True),
    "attention to another": lambda: Attention(own=False),
    "views": Split,
    "recurrent": Recurrent,
    "a block": lambda: nn.TransformerEncoderLayer(6, 2, 8, batch_first=True),
    "a block without dropout": lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
    "a frozen block": lambda: nn.TransformerEncoderLayer(6, 2, 8, batch_first=True).requires_grad_(False),
    "norms": lambda: nn.Sequential(nn.BatchNorm1d(6), nn.BatchNorm1d(6, track_running_stats=False), nn.PReLU()),
    "a flattened linear": lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Linear(3, 3), nn.Flatten()),
}


@pytest.mark.parametrize("learning", [True, False])
def test_what_is_remembered_is_what_a_run_would_give(*, learning: bool, forget: Callable[[], None]) -> None:
    def graph(name: str) -> Any:
        inputs = [TensorSpec((1, 6))] if "block" in name else VECTOR
        net = GRAPHS[name]() if learning else GRAPHS[name]().eval()
        module = capture_training(net, inputs, training=True) if learning else capture(net, inputs)
        return module, inputs

    graphs = {name: graph(name) for name in GRAPHS}
    alone = {}
    for name, (module, inputs) in graphs.items():
        forget()
        alone[name] = [sizes(measure(module, inputs, batch, learning=learning)) for batch in BATCHES]
    for _ in range(2):
        for name, (module, inputs) in graphs.items():
            assert [sizes(measure(module, inputs, batch, learning=learning)) for batch in BATCHES] == alone[name]


class Shares(nn.Module):
    """Divides whole numbers, which gives numbers of torch's usual type."""

    def forward(self, x: Any) -> Any:
        return x.long() / 3


def test_a_setting_of_torch_is_no_other() -> None:
    module = capture(Shares().eval(), VECTOR)
    usual = measure(module, VECTOR, 3).values["truediv"].dtype
    torch.set_default_dtype(torch.float64)
    try:
        other = measure(module, VECTOR, 3).values["truediv"].dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert (usual, other) == (torch.float32, torch.float64)
    assert measure(module, VECTOR, 3).values["truediv"].dtype == torch.float32


class Widened(nn.Module):
    """Calls a function of the user's that torch.fx does not look into."""

    def __init__(self) -> None:
        super().__init__()
        self.below = nn.Linear(6, 5).requires_grad_(False)
        self.fc = nn.Linear(5 * WIDTH[0], 3)

    def forward(self, x: Any) -> Any:
        return self.fc(widened(self.below(x)))


def test_a_function_of_the_users_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "WIDTH", [1])
    assert opened(Widened, VECTOR).graph["widened"].output_shape == (5,)
    WIDTH[0] = 3
    assert opened(Widened, VECTOR).graph["widened"].output_shape == (15,)


def test_the_next_candidate_runs_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    run = Measure._run

    def counted(self: Any, node: Any) -> Any:
        ran.append(node.name)
        return run(self, node)

    monkeypatch.setattr(Measure, "_run", counted)
    opened(Net, seed=1)
    first = len(ran)
    opened(Net, seed=2)
    assert len(ran) == first
    # Another rate: its node alone, at two batch sizes.
    opened(lambda: Net(rate=0.25))
    assert ran[first:] == ["drop", "drop"]


def _scaled(weight: Any) -> None:
    with torch.no_grad():
        weight.mul_(2)


def _swapped_data(weight: Any) -> None:
    weight.data = weight.data.flip(0)


def _through_data(weight: Any) -> None:
    weight.data[-1, -1] *= -1


def _through_numpy(weight: Any) -> None:
    # The last bit of the last number, of which torch hears nothing.
    weight.detach().numpy().view(np.uint8).reshape(-1)[-4] ^= 1


@pytest.mark.parametrize("change", [_scaled, _swapped_data, _through_data, _through_numpy])
def test_weights_that_change_in_place_have_another_expression(change: Callable[[Any], None]) -> None:
    torch.manual_seed(0)
    # More than one part.
    base = nn.Linear(6, _fingerprint._PART // 16)
    assert base.weight.nbytes > _fingerprint._PART

    def shared() -> nn.Module:
        return nn.Sequential(base.requires_grad_(False), nn.Linear(base.out_features, 3))

    def expression() -> str:
        graph = opened(shared, VECTOR).graph
        return graph.expression("0")

    before, known = expression(), base.weight.detach().clone()
    assert expression() == before
    change(base.weight)
    changed = expression()
    assert changed != before
    base.weight.data.copy_(known)
    assert expression() == before
    change(base.weight)
    assert expression() == changed


class Centred(nn.Module):
    def __init__(self, *, mixes: bool) -> None:
        super().__init__()
        self.below, self.mixes = nn.Linear(6, 5).requires_grad_(False), mixes
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        x = self.below(x)
        return self.fc(x - x.mean(0) if self.mixes else x - x.mean(1, keepdim=True))


def test_layers_above_those_that_passed_are_still_checked() -> None:
    below = opened(lambda: nn.Sequential(nn.Linear(6, 5).requires_grad_(False), nn.Linear(5, 3)), VECTOR)
    assert not below.whole
    assert not opened(lambda: Centred(mixes=False), VECTOR).whole
    assert "mixes the records" in opened(lambda: Centred(mixes=True), VECTOR).whole


def test_lambdas_of_a_frozen_layer_are_told_apart() -> None:
    """All have one name: what they do, what they close over and their defaults decide who shares a stored layer."""

    def scaled(factor: Any) -> Callable[[Any], Any]:
        return lambda x: torch.relu(x) * factor

    def repeated(x: Any, times: int = 2) -> Any:
        return repeated(torch.tanh(x), times - 1) if times else x

    def encoder(activation: Callable[[Any], Any]) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(
            nn.TransformerEncoderLayer(6, 2, 8, activation=activation, batch_first=True).requires_grad_(
                requires_grad=False
            ),
            nn.Flatten(),
            nn.Linear(24, 2),
        )

    functions = [
        lambda x: torch.relu(x) + 0,
        lambda x: torch.tanh(x) + 0,
        scaled(1.0),
        scaled(2.0),
        scaled(torch.ones(8)),
        scaled(torch.zeros(8)),
        repeated,
        lambda x, a=1: x * a,
        lambda x, *, a=1: x * a,
        lambda x, *, a=2: x * a,
        lambda x: x * (x.ndim in {1, 2}),
        lambda x: x * (x.ndim in {1, 3}),
    ]
    expressions = [expression_of(encoder(function)) for function in functions]
    assert len(set(expressions)) == len(functions)
    assert expression_of(encoder(scaled(2.0))) == expressions[3]


def expression_of(make: Callable[[], nn.Module]) -> str:
    adapted = opened(make, [TensorSpec((4, 6))])
    assert not adapted.whole
    return str(adapted.graph.expression(adapted.feeds[-1]))


class Slow(nn.Module):
    """A network whose forward waits, so that other threads run in the middle of its trace."""

    def __init__(self, entered: threading.Event, leave: threading.Event) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.events = [entered, leave]

    def __deepcopy__(self, memo: dict[int, Any]) -> Slow:
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.events[0].set()
        assert self.events[1].wait(60)
        return self.layer(x)


def test_other_threads_run_and_open_networks_during_a_trace() -> None:
    entered, leave = threading.Event(), threading.Event()
    plain, call = nn.Sequential(nn.Linear(6, 3), nn.ReLU()).eval(), nn.Module.__call__
    tensor = torch.ones(2, 6)
    expected = plain(tensor)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(capture, Slow(entered, leave).eval(), VECTOR)
        assert entered.wait(60)
        assert nn.Module.__call__ is not call  # the trace is in progress
        during = plain(tensor)
        other = pool.submit(capture, plain, VECTOR)
        leave.set()
        assert [node.op for node in slow.result().graph.nodes] == ["placeholder", "call_module", "output"]
        assert "call_module" in [node.op for node in other.result().graph.nodes]
    assert torch.equal(during, expected)
    assert nn.Module.__call__ is call
