"""Layouts of layers: networks with the channels first, last, and in tokens, by both tracers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from optimizer.errors import InvalidArgumentError
from udfs.handlers import LayerLayout, TensorSpec
from udfs.handlers.torch import FRAMEWORK

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE = 64
WIDTH = 24


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(self.norm(x)).relu()


class Attention(nn.Module):
    """Attention over tokens in the form of timm's transformers: queries, keys and values by one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, count, width = x.shape
        q, k, v = self.qkv(x).reshape(n, count, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.proj(mixed.transpose(1, 2).reshape(n, count, width))


class Windows(nn.Module):
    """Attention within 4 x 4 windows, and a merge of 2 x 2 places, as Swin's."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.merge = Attention(), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, height, width, channels = x.shape
        x = torch.roll(x, (-2, -2), (1, 2)).reshape(n, height // 4, 4, width // 4, 4, channels)
        x = self.attention(x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, channels))
        x = x.reshape(n, height // 4, width // 4, 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(n, height, width, channels)
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.merge(torch.cat(parts, -1))


class Net(nn.Module):
    """Patches, then a body."""

    def __init__(self, body: nn.Module, prepare: Callable[[torch.Tensor], torch.Tensor], classes: int = 0) -> None:
        super().__init__()
        self.patches, self.body, self.prepare = nn.Conv2d(3, WIDTH, 8, 8), body, prepare
        self.classes = nn.Parameter(torch.randn(1, classes, WIDTH)) if classes else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.prepare(self.patches(x))
        if self.classes is not None:
            x = torch.cat([self.classes.expand(x.shape[0], -1, -1), x], 1)
        return self.body(x)


class Exported(nn.Module):
    """The same network with a branch over a shape, which torch.fx cannot follow, so that torch.export traces it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) if x.shape[-1] > 1 else x


class Mixer(nn.Module):
    """Layers over the places of tokens, by a transposition and by a convolution with a kernel of 1."""

    def __init__(self) -> None:
        super().__init__()
        self.transposed, self.convolved = nn.Linear(64, 64), nn.Conv1d(64, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.transposed(x.transpose(1, 2)).transpose(1, 2)
        return x + self.convolved(x)


def patchified(x: torch.Tensor) -> torch.Tensor:
    n, channels = x.shape[:2]
    x = x.reshape(n, channels, 4, 2, 4, 2).permute(0, 2, 4, 3, 5, 1)
    return x.reshape(n, 16, 4 * channels)[..., :WIDTH]


NETWORKS: dict[str, tuple[Callable[[], nn.Module], LayerLayout]] = {
    "channels first": (lambda: Net(nn.Conv2d(WIDTH, 5, 3), lambda x: x), LayerLayout((1, 2))),
    "channels last": (lambda: Net(Block(), lambda x: x.permute(0, 2, 3, 1)), LayerLayout((0, 1))),
    "moved": (lambda: Net(Block(), lambda x: torch.movedim(x, 1, -1)), LayerLayout((0, 1))),
    "windows": (lambda: Net(Windows(), lambda x: x.permute(0, 2, 3, 1)), LayerLayout((0, 1))),
    "back again": (
        lambda: Net(Block(), lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 2, 1).transpose(1, 3)),
        LayerLayout((0, 1)),
    ),
    "tokens": (lambda: Net(Attention(), lambda x: x.flatten(2).transpose(1, 2)), LayerLayout((0,), (8, 8))),
    "channels before tokens": (lambda: Net(nn.Identity(), lambda x: x.flatten(2) + 1), LayerLayout((1,), (8, 8))),
    "class token": (
        lambda: Net(Attention(), lambda x: x.flatten(2).transpose(1, 2), 1),
        LayerLayout((0,), (8, 8), 1),
    ),
    "class token and registers": (
        lambda: Net(nn.Sequential(Attention(), Block()), lambda x: x.flatten(2).transpose(1, 2), 5),
        LayerLayout((0,), (8, 8), 5),
    ),
    "mixer": (lambda: Net(Mixer(), lambda x: x.flatten(2).transpose(1, 2)), LayerLayout((0,), (8, 8))),
    "patches by reshape": (lambda: Net(Block(), patchified), LayerLayout((0,), (4, 4))),
    "library's encoder": (
        lambda: Net(
            nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True), lambda x: x.flatten(2).transpose(1, 2), 1
        ),
        LayerLayout((0,), (8, 8), 1),
    ),
    "global pooling": (lambda: Net(nn.AdaptiveAvgPool2d(1), lambda x: x), LayerLayout((1, 2))),
    "gate": (lambda: Net(nn.Identity(), lambda x: x * x.mean((2, 3), keepdim=True).sigmoid()), LayerLayout((1, 2))),
    "mean of tokens": (lambda: Net(nn.Linear(WIDTH, 3), lambda x: x.flatten(2).mean(2)), LayerLayout()),
    "class token alone": (
        lambda: Net(nn.Sequential(Attention(), _First()), lambda x: x.flatten(2).transpose(1, 2), 1),
        LayerLayout(),
    ),
    "flattened": (lambda: Net(nn.Flatten(), lambda x: x), LayerLayout()),
}


class _First(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0]


def layout(network: nn.Module) -> LayerLayout | None:
    traced: Any = FRAMEWORK.trace(network.eval().requires_grad_(False), [TensorSpec((3, SIDE, SIDE))])
    return traced.layout(traced.graph.outputs[0])


@pytest.mark.parametrize("wrap", [lambda net: net, Exported], ids=["fx", "export"])
@pytest.mark.parametrize("name", NETWORKS)
def test_layout_is_recognised(name: str, wrap: Callable[[nn.Module], nn.Module]) -> None:
    build, expected = NETWORKS[name]
    assert layout(wrap(build())) == expected


def test_tokens_without_the_class_token_are_places_alone() -> None:
    class Rest(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, 1:]

    body = nn.Sequential(Attention(), Rest())
    assert layout(Net(body, lambda x: x.flatten(2).transpose(1, 2), 1)) == LayerLayout((0,), (8, 8))


def test_tokens_behind_the_places_are_left_out_too() -> None:
    class Prompted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prompt = nn.Parameter(torch.zeros(1, 2, WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, self.prompt.expand(x.shape[0], -1, -1)], 1)

    assert layout(Net(Prompted(), lambda x: x.flatten(2).transpose(1, 2))) == LayerLayout((0,), (8, 8), 0, 2)


@pytest.mark.parametrize("count", [5, 64])
def test_learned_queries_are_no_places_of_a_grid(count: int) -> None:
    """Also where there are as many as tokens."""

    class Perceiver(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.queries = nn.Parameter(torch.randn(1, count, WIDTH))
            self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(self.queries.expand(x.shape[0], -1, -1), x, x, need_weights=False)[0]

    assert layout(Net(Perceiver(), lambda x: x.flatten(2).transpose(1, 2))) == LayerLayout((0,))


def test_a_map_out_of_a_vector_has_channels_first() -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(6, 5, 2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.up(x.mean((2, 3)).reshape(-1, 6, 2, 2))

    assert layout(Net(Decoder(), lambda x: x)) == LayerLayout((1, 2))


def test_mixed_tokens_are_ambiguous() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    assert layout(Net(Mixed(), lambda x: x.flatten(2))) is None


def test_what_follows_the_size_of_the_image_is_places() -> None:
    """The graph does not explain an unusual operation; shapes at two image sizes do."""

    class Unusual(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x, dim=-1, n=2 * x.shape[-1] - 2).abs()

    assert layout(Net(Unusual(), lambda x: x)) == LayerLayout((1, 2))


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("channels_first", (5, 7, 7), LayerLayout((1, 2))),
        ("channels_last", (7, 7, 5), LayerLayout((0, 1))),
        ("tokens", (49, 5), LayerLayout((0,), (7, 7))),
        ("tokens", (50, 5), LayerLayout((0,))),
        ("tokens+1", (50, 5), LayerLayout((0,), (7, 7), 1)),
        ("tokens+5", (54, 5), LayerLayout((0,), (7, 7), 5)),
        ("vector", (7, 7, 5), LayerLayout()),
    ],
)
def test_layouts_that_are_stated(text: str, shape: tuple[int, ...], expected: LayerLayout) -> None:
    assert LayerLayout.stated(text, shape) == expected


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("NCHW", (5, 7, 7), r"layout must be one of channels_first, channels_last, tokens, .*, got 'NCHW'"),
        ("tokens", (7, 7, 5), r"shape \(7, 7, 5\), got 'tokens'"),
        ("channels_last", (5,), "State another layout, such as 'vector'"),
        ("tokens+50", (50, 5), "must leave at least one token"),
    ],
)
def test_impossible_layouts_are_refused(text: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        LayerLayout.stated(text, shape)


def test_descriptions() -> None:
    assert LayerLayout((0, 1)).describe((7, 7, 5)) == "map of 7 x 7 places, channels last"
    assert LayerLayout((1, 2)).describe((5, 7, 7)) == "map of 7 x 7 places, channels first"
    tokens = LayerLayout((0,), (7, 7), 1).describe((50, 5))
    assert tokens == "49 tokens (7 x 7) and 1 class or other token, which pooling leaves out"
    assert LayerLayout().describe((5,)) == "vector of 5"


def test_pooled_tokens_are_the_mean_of_the_patches() -> None:
    from udfs.inference import pool

    network = Net(Attention(), lambda x: x.flatten(2).transpose(1, 2), 1).eval()
    found = layout(network)
    assert found is not None
    image = torch.randn(2, 3, SIDE, SIDE)
    with torch.no_grad():
        tokens = network(image)
    np.testing.assert_allclose(pool(tokens.numpy(), "mean", found), tokens[:, 1:].mean(1), rtol=1e-5, atol=1e-6)
