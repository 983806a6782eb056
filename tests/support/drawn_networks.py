"""Random networks of PyTorch from a seed, with blocks, views, lists, hooks, types and several inputs.

The oracle of each is the framework's own call for one record at a time.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # torch's own habit
from torch import nn

from udfs.handlers import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Drawn", "draw_torch", "plain_torch"]


_WRAPPINGS = ("none",) * 14 + ("half", "double", "bfloat16", "compiled", "replicas", "frozen", "lazy")


class Heads(NamedTuple):
    scores: torch.Tensor
    features: torch.Tensor


class Network(nn.Module):
    """Network of steps over one tensor, each a function of the network and the earlier tensors, and a head."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self.steps: list[Callable[[Network, list[torch.Tensor]], torch.Tensor]] = []
        self.blocks = nn.ModuleList()
        self.named = nn.ModuleDict()
        self.weights = nn.ParameterList()
        self.head: nn.Module = nn.Identity()
        self.ending = ending

    def forward(self, image: torch.Tensor, other: torch.Tensor | None = None) -> Any:
        values = [image] if other is None else [image + other.mean((2, 3), keepdim=True)]
        for step in self.steps:
            values.append(step(self, values))
        last = values[-1]
        vector = last.flatten(2).mean(2) if last.dim() > 2 else last
        scores = self.head(vector)
        returned: dict[str, Any] = {
            "tensor": scores, "tuple": (scores, vector), "list": [scores], "dict": {"scores": scores, "vector": vector},
            "named tuple": Heads(scores, vector), "nested": {"out": (scores, None), "text": "x"},
        }  # fmt: skip
        return returned[self.ending]


@dataclass
class Drawn:
    """Random network with its inputs and expectations.

    Attributes
    ----------
    build : callable
        Makes the network, in training mode as users do; the same weights at the same state of torch's generator.
    inputs : tuple of TensorSpec
    kinds : list of str
    refusable : set of str
        Kinds for which a refusal is right; without any the network has to work.
    refused : set of str
        Kinds that have to be refused.
    layers : list of str
        Modules that users would name.
    """

    build: Callable[[], nn.Module]
    inputs: tuple[TensorSpec, ...]
    kinds: list[str] = field(default_factory=list)
    refusable: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    layers: list[str] = field(default_factory=lambda: ["head"])


# Steps that keep (channels, height, width) or change it; each gives a module or a function, and the new shape.
Shape = tuple[int, ...]


class _Generator:
    """Random plan of a network, from which equal networks are built."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # no secret
        self.side = self.draw.choice((8, 9, 12))
        self.shape: Shape = (3, self.side, self.side)
        self.plan: list[Callable[[Network], None]] = []
        self.drawn = Drawn(nn.Identity, (TensorSpec(self.shape),))

    def make(self) -> Drawn:
        self.steps()
        draw, drawn = self.draw, self.drawn
        ending = draw.choice(("tensor", "tensor", "tensor", "tuple", "list", "dict", "named tuple", "nested"))
        drawn.kinds.append(ending)
        if draw.random() < 0.12:
            drawn.inputs = (*drawn.inputs, TensorSpec((3, 5, 5)))
            drawn.kinds.append("two images")
        wrapping = draw.choice(
            ("none",) * 14 + ("half", "double", "bfloat16", "compiled", "replicas", "frozen", "lazy")
        )
        drawn.kinds.append(wrapping)
        if wrapping == "bfloat16":
            drawn.refused.add(wrapping)
        if wrapping in ("half", "double"):
            drawn.refusable.add(wrapping)
        drawn.build = partial(_built, list(self.plan), self.shape[0], ending, wrapping)
        return drawn

    def steps(self) -> None:
        usual = [name for name in dir(self) if name.startswith("usual_")]
        odd = [name for name in dir(self) if name.startswith("odd_")]
        for _ in range(self.draw.randint(2, 6)):
            self.step(self.draw.choice(usual))
        if self.draw.random() < 0.4:
            self.step(self.draw.choice(odd))
            if self.draw.random() < 0.5:
                self.step(self.draw.choice(usual))

    def step(self, name: str) -> None:
        kind = name.partition("_")[2]
        before = len(self.plan)
        getattr(self, name)()
        if len(self.plan) > before:
            self.drawn.kinds.append(kind)
            if name.startswith("odd_"):
                self.drawn.refusable.add(kind)

    def add(self, function: Callable[[Network, list[torch.Tensor]], torch.Tensor]) -> None:
        self.plan.append(lambda net: net.steps.append(function))

    def module(self, make: Callable[[], nn.Module], shape: Shape | None = None) -> None:
        """Add a module as an attribute, in a list or in a dictionary."""
        own = self.draw.choice(("list", "list", "dict", "attribute"))
        number = len(self.plan)

        def plan(net: Network) -> None:
            part = make()
            if own == "list":
                net.blocks.append(part)
                at = len(net.blocks) - 1
                net.steps.append(lambda n, values: n.blocks[at](values[-1]))
            elif own == "dict":
                net.named[f"part{number}"] = part
                net.steps.append(lambda n, values: n.named[f"part{number}"](values[-1]))
            else:
                setattr(net, f"part{number}", part)
                net.steps.append(lambda n, values: getattr(n, f"part{number}")(values[-1]))

        self.plan.append(plan)
        self.shape = self.shape if shape is None else shape

    @property
    def is_map(self) -> bool:
        return len(self.shape) == 3

    def flat(self) -> None:
        """Flatten the places of a map to a sequence of shape (records, length, channels)."""
        if self.is_map:
            channels, height, width = self.shape
            self.add(lambda _, values: values[-1].flatten(2).transpose(1, 2))
            self.shape = (height * width, channels)

    def back(self) -> None:
        """Restore a map from a sequence."""
        length, channels = self.shape
        side = round(length**0.5)
        self.add(lambda _, values: values[-1].transpose(1, 2).reshape(-1, channels, side, side))
        self.shape = (channels, side, side)

    def usual_convolution(self) -> None:
        channels, height, width = self.shape
        out, stride = self.draw.choice((4, 6, 8)), self.draw.choice((1, 1, 2)) if min(height, width) > 3 else 1
        norm, bias = self.draw.random() < 0.6, self.draw.random() < 0.5
        activation = self.draw.choice((nn.ReLU, lambda: nn.ReLU(inplace=True), nn.SiLU, nn.GELU, nn.Identity))
        mode = self.draw.choice(("zeros", "zeros", "reflect", "circular")) if min(height, width) > 1 else "zeros"
        self.module(
            lambda: nn.Sequential(
                nn.Conv2d(channels, out, 3, stride, 1, bias=bias, padding_mode=mode),
                nn.BatchNorm2d(out) if norm else nn.Identity(),
                activation(),
            ),
            (out, -(-height // stride), -(-width // stride)),
        )

    def usual_functional(self) -> None:
        channels, *sides = self.shape

        def plan(net: Network) -> None:
            net.weights.append(nn.Parameter(torch.randn(4, channels, 1, 1) / 2))
            at = len(net.weights) - 1
            net.steps.append(lambda n, values: F.conv2d(values[-1], n.weights[at]).tanh())

        self.plan.append(plan)
        self.shape = (4, *sides)

    def usual_residual(self) -> None:
        channels = self.shape[0]
        gain = self.draw.choice((0.5, 1.0))

        def plan(net: Network) -> None:
            net.blocks.append(nn.Conv2d(channels, channels, 3, padding=1))
            at = len(net.blocks) - 1

            def step(n: Network, values: list[torch.Tensor]) -> torch.Tensor:
                y = n.blocks[at](values[-1])
                y += values[-1] * gain
                return F.relu(y, inplace=True)

            net.steps.append(step)

        self.plan.append(plan)

    def usual_dense(self) -> None:
        channels, *sides = self.shape
        self.add(lambda _, values: torch.cat([values[-1], values[-1].sigmoid()], dim=1))
        self.shape = (2 * channels, *sides)

    def usual_squeeze(self) -> None:
        self.add(lambda _, values: values[-1] * values[-1].mean((2, 3), keepdim=True).sigmoid())

    def usual_norm(self) -> None:
        channels, *sides = self.shape
        kinds: list[Callable[[], nn.Module]] = [
            lambda: nn.BatchNorm2d(channels),
            lambda: nn.GroupNorm(1, channels),
            lambda: nn.LayerNorm([channels, *sides]),
        ]
        self.module(self.draw.choice(kinds))

    def usual_view(self) -> None:
        channels, height, width = self.shape
        views: list[Callable[[torch.Tensor], torch.Tensor]] = [
            lambda x: x.view(x.size(0), -1).view(-1, channels, height, width) * 2,
            lambda x: x.reshape(x.shape[0], channels, height * width).view(x.shape[0], channels, height, width) + 1,
            lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).abs(),
            lambda x: torch.flatten(x, 1).unflatten(1, (channels, height, width)).exp().clamp(max=5),
            lambda x: x.transpose(2, 3),
            lambda x: torch.stack(x.unbind(1), 1) - 0.5,
        ]
        function = self.draw.choice(views)
        self.add(lambda _, values: function(values[-1]))

    def usual_pool(self) -> None:
        channels, height, width = self.shape
        if min(height, width) >= 4:
            kind = self.draw.choice((nn.MaxPool2d, nn.AvgPool2d))
            self.module(lambda: kind(2), (channels, height // 2, width // 2))

    def usual_resize(self) -> None:
        channels, height, width = self.shape
        mode = self.draw.choice(("nearest", "bilinear"))
        if height * width <= 100:
            self.add(lambda _, values: F.interpolate(values[-1], scale_factor=2, mode=mode))
            self.shape = (channels, 2 * height, 2 * width)

    def usual_choice(self) -> None:
        self.add(lambda _, values: torch.where(values[-1] > 0, values[-1], values[-1] * 0.1))

    def usual_split(self) -> None:
        channels, *sides = self.shape
        if channels % 2 == 0:
            self.add(lambda _, values: F.glu(values[-1], dim=1))
            self.shape = (channels // 2, *sides)

    def usual_dropout(self) -> None:
        self.module(nn.Dropout)

    def usual_by_shape(self) -> None:
        self.add(lambda _, values: values[-1] * 2 if values[-1].shape[-1] > 4 else values[-1] / 2)

    def usual_rolled(self) -> None:
        self.add(lambda _, values: torch.roll(values[-1], (1, 1), (2, 3)) + values[-1].flip(-1))

    def usual_tensor_attribute(self) -> None:
        channels = self.shape[0]
        number = len(self.plan)

        def plan(net: Network) -> None:
            setattr(net, f"scale{number}", torch.rand(channels, 1, 1))
            net.steps.append(lambda n, values: values[-1] * getattr(n, f"scale{number}"))

        self.plan.append(plan)
        self.drawn.refusable.add("tensor_attribute")

    def usual_buffer(self) -> None:
        channels = self.shape[0]
        number = len(self.plan)

        def plan(net: Network) -> None:
            net.register_buffer(f"shift{number}", torch.rand(channels, 1, 1), persistent=number % 2 == 0)
            net.steps.append(lambda n, values: values[-1] - getattr(n, f"shift{number}"))

        self.plan.append(plan)

    def usual_attention(self) -> None:
        self.flat()
        channels = self.shape[1]
        self.module(lambda: nn.TransformerEncoderLayer(channels, 1, 8, batch_first=True), self.shape)
        self.back()

    def usual_recurrent(self) -> None:
        self.flat()
        channels = self.shape[1]
        kind = self.draw.choice((nn.LSTM, nn.GRU))

        def plan(net: Network) -> None:
            net.blocks.append(kind(channels, channels, batch_first=True))
            at = len(net.blocks) - 1
            net.steps.append(lambda n, values: n.blocks[at](values[-1])[0])

        self.plan.append(plan)
        self.back()

    def usual_matmul(self) -> None:
        channels = self.shape[0]

        def plan(net: Network) -> None:
            net.weights.append(nn.Parameter(torch.randn(channels, channels) / 2))
            at = len(net.weights) - 1
            net.steps.append(lambda n, values: torch.einsum("bchw,cd->bdhw", values[-1], n.weights[at]))

        self.plan.append(plan)

    def usual_normed_weight(self) -> None:
        channels = self.shape[0]
        norm = self.draw.choice((
            torch.nn.utils.parametrizations.weight_norm,
            torch.nn.utils.parametrizations.spectral_norm,
        ))  # fmt: skip
        self.module(lambda: norm(nn.Conv2d(channels, channels, 1)))

    def usual_hook(self) -> None:
        channels = self.shape[0]
        kind = self.draw.choice(("after", "before", "looks"))

        def make() -> nn.Module:
            inner = nn.Conv2d(channels, channels, 1)
            if kind == "after":
                inner.register_forward_hook(lambda _m, _i, y: y * 2 + 1)
            elif kind == "before":
                inner.register_forward_pre_hook(lambda _m, args: (args[0] - 1,))
            else:
                inner.register_forward_hook(lambda *_: None)
            return inner

        self.module(make)

    def usual_inplace(self) -> None:
        function = self.draw.choice((
            lambda x: (x + 1).mul_(2), lambda x: x.clone().add_(x), lambda x: F.relu_(x * 1),
            lambda x: (x * 2).sigmoid_(),
        ))  # fmt: skip
        self.add(lambda _, values: function(values[-1]))

    def usual_twice(self) -> None:
        channels = self.shape[0]

        def plan(net: Network) -> None:
            net.blocks.append(nn.Conv2d(channels, channels, 3, padding=1))
            at = len(net.blocks) - 1
            net.steps.append(lambda n, values: n.blocks[at](n.blocks[at](values[-1]).relu()))

        self.plan.append(plan)

    def usual_written_in(self) -> None:
        def step(_: Network, values: list[torch.Tensor]) -> torch.Tensor:
            y = values[-1].clone()
            y[:, :1] = y[:, :1] * 3
            return y

        self.add(step)

    # --- what may be refused, or has to be

    def odd_list(self) -> None:
        channels, as_dict = self.shape[0], self.draw.random() < 0.5
        number = len(self.plan)

        def plan(net: Network) -> None:
            parts = [nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels)]
            setattr(net, f"plain{number}", {"parts": parts} if as_dict else parts)

            def step(n: Network, values: list[torch.Tensor]) -> torch.Tensor:
                held = getattr(n, f"plain{number}")
                x = values[-1]
                for part in held["parts"] if as_dict else held:
                    x = part(x)
                return x

            net.steps.append(step)

        self.plan.append(plan)
        self.drawn.refused.add("list")

    def odd_mixing(self) -> None:
        function = self.draw.choice((
            lambda x: x - x.mean(0), lambda x: x - 0.5 * x.mean(0, keepdim=True), lambda x: x.softmax(0) + x,
            lambda x: x / (x.abs().amax() + 1), lambda x: (x - x.mean()) / (x.std() + 1), lambda x: x + x.flip(0),
            lambda x: x.cumsum(0), lambda x: F.batch_norm(x, None, None, training=True),
            lambda x: x + torch.roll(x, 1, 0) / 3,
        ))  # fmt: skip
        self.add(lambda _, values: function(values[-1]))
        self.drawn.refused.add("mixing")

    def odd_sequence_of_records(self) -> None:
        self.flat()
        channels = self.shape[1]
        if self.draw.random() < 0.5:
            self.module(lambda: nn.TransformerEncoderLayer(channels, 1, 8), self.shape)
        else:
            self.module(lambda: _First(nn.GRU(channels, channels)), self.shape)
        self.back()
        self.drawn.refused.add("sequence_of_records")

    def odd_random(self) -> None:
        function = self.draw.choice((
            lambda x: F.dropout(x, 0.5), lambda x: x + torch.randn_like(x), lambda x: x * torch.rand(1)
        ))  # fmt: skip
        self.add(lambda _, values: function(values[-1]))
        self.drawn.refused.add("random")

    def odd_branch(self) -> None:
        function = self.draw.choice((
            lambda x: x * 2 if x.sum() > 0 else -x, lambda x: x * float(x.max()), lambda x: x * x.max().item(),
            lambda x: torch.from_numpy(np.tanh(x.detach().numpy())), lambda x: x[x.mean((1, 2, 3)) > -9],
        ))  # fmt: skip
        self.add(lambda _, values: function(values[-1]))
        self.drawn.refused.add("branch")

    def odd_fixed(self) -> None:
        channels, height, _ = self.shape
        self.add(
            lambda _, values: values[-1].reshape(1, -1).reshape(values[-1].shape) + torch.ones(1, channels, height, 1)
        )

    def odd_state(self) -> None:
        number = len(self.plan)

        def plan(net: Network) -> None:
            net.register_buffer(f"calls{number}", torch.zeros(()))

            def step(n: Network, values: list[torch.Tensor]) -> torch.Tensor:
                calls = getattr(n, f"calls{number}")
                calls += 1
                return values[-1] + calls

            net.steps.append(step)

        self.plan.append(plan)
        self.drawn.refused.add("state")

    def odd_numbers(self) -> None:
        function = self.draw.choice((
            lambda x: torch.log(x - 0.2), lambda x: x / (x - x), lambda x: (x * 60).exp().square().square(),
            lambda x: (x - 0.3).sqrt(),
        ))  # fmt: skip
        self.add(lambda _, values: function(values[-1]))
        self.drawn.refusable.discard("numbers")

    def odd_scripted(self) -> None:
        channels = self.shape[0]
        self.module(lambda: torch.jit.script(nn.Conv2d(channels, channels, 1)))
        self.drawn.refused.add("scripted")

    def odd_quantised(self) -> None:
        channels = self.shape[0]
        self.flat()
        self.module(
            lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(channels, channels)).eval()),
            self.shape,
        )
        self.back()
        self.drawn.refused.add("quantised")

    def odd_closure(self) -> None:
        channels = self.shape[0]

        def make() -> nn.Module:
            weight = torch.rand(channels, channels, 1, 1)

            class Closed(nn.Module):
                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    return F.conv2d(x, weight)

            return Closed()

        self.module(make)

    def odd_checkpointed(self) -> None:
        from torch.utils.checkpoint import checkpoint

        channels = self.shape[0]

        def plan(net: Network) -> None:
            net.blocks.append(nn.Conv2d(channels, channels, 1))
            at = len(net.blocks) - 1
            net.steps.append(lambda n, values: checkpoint(n.blocks[at], values[-1], use_reentrant=False))

        self.plan.append(plan)

    def odd_loop(self) -> None:
        self.add(lambda _, values: torch.stack([row * 2 for row in values[-1]]))

    def odd_printed(self) -> None:
        self.add(lambda _, values: values[-1] * len(str(values[-1].shape[1:])))

    def odd_typed(self) -> None:
        self.add(lambda _, values: values[-1].double().float() + values[-1].to(torch.float64).mean().float() * 0)


class _First(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first: torch.Tensor = self.inner(x)[0]
        return first


def _built(plan: list[Callable[[Network], None]], channels: int, ending: str, wrapping: str) -> nn.Module:
    net = Network(ending)
    for add in plan:
        add(net)
    net.head = nn.LazyLinear(4) if wrapping == "lazy" else nn.Linear(channels, 4)
    for norm in net.modules():
        if isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None and norm.running_var is not None:
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 1.5)
    return _wrapped(net, wrapping)


def _wrapped(net: Network, wrapping: str) -> nn.Module:
    if wrapping == "frozen":
        return net.requires_grad_(False).eval()
    if wrapping in ("half", "double", "bfloat16"):
        return {"half": net.half, "double": net.double, "bfloat16": net.bfloat16}[wrapping]()
    if wrapping == "compiled":
        return torch.compile(net)  # type: ignore[return-value]
    return nn.DataParallel(net) if wrapping == "replicas" else net


def draw_torch(seed: int) -> Drawn:
    """Draw a random network of torch."""
    return _Generator(seed).make()


def plain_torch(net: nn.Module, records: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Call a network with all records, then one at a time, and return the outputs of the latter by key."""
    inner: Any = getattr(net, "_orig_mod", getattr(net, "module", net))
    inner.eval()
    kind = next((held.dtype for held in inner.parameters()), torch.float32)
    whole = [torch.from_numpy(array).to(kind) for array in records]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if any(isinstance(held, nn.parameter.UninitializedParameter) for held in inner.parameters()):
            inner(*(torch.zeros(2, *tensor.shape[1:]) for tensor in whole))
        inner(*whole)  # some run on one record alone
        return [_listed(inner(*(tensor[row : row + 1] for tensor in whole))) for row in range(len(records[0]))]


def _listed(returned: Any, key: str = "") -> dict[str, np.ndarray]:
    if isinstance(returned, torch.Tensor):
        return {key: returned.float().numpy()[0]}
    entries = returned.items() if isinstance(returned, dict) else enumerate(returned)
    found: dict[str, np.ndarray] = {}
    for name, value in entries:
        if isinstance(value, (torch.Tensor, tuple, list, dict)):
            found |= _listed(value, f"{key}.{name}" if key else str(name))
    return found
