"""Verification of networks that compute in lower precision inside, and messages that never fail themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from udfs.occlusion import VerificationError
from udfs.occlusion._verification import Verification
from vista_spark import explain_tensor

IMAGE = np.random.default_rng(0).normal(size=(3, 32, 32)).astype("float32")


class Lower(nn.Module):
    """Its convolutions compute in a lower precision than its inputs and outputs."""

    def __init__(self, precision: torch.dtype, *, returns: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 5)
        self.precision, self.returns = precision, returns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kind = self.precision
        x = nn.functional.conv2d(x.to(kind), self.first.weight.to(kind), self.first.bias.to(kind), padding=1).relu()
        x = nn.functional.conv2d(x, self.second.weight.to(kind), self.second.bias.to(kind), padding=1).relu()
        return self.head(x.to(torch.float32).mean((2, 3))).to(self.returns)


class Autocast(nn.Module):
    """Network with an autocast region in its forward pass, which tracers do not record."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU())
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = self.inner(x)
        return self.head(x.float().mean((2, 3)))


@pytest.mark.parametrize("mode", ["exact", "naive", "approximate"])
@pytest.mark.parametrize(
    "build",
    [
        lambda: Lower(torch.bfloat16),
        lambda: Lower(torch.float16),
        lambda: Lower(torch.float32, returns=torch.bfloat16),
        Autocast,
    ],
    ids=["bfloat16", "float16", "bfloat16 output", "autocast"],
)
def test_the_tolerance_is_that_of_the_lowest_precision(build: Any, mode: str) -> None:
    torch.manual_seed(0)
    network = build().eval()
    verify = {} if mode == "approximate" else {"verify": 4}
    explanation = explain_tensor(network, IMAGE, patch=8, stride=4, mode=mode, output="logit", **verify)
    assert np.isfinite(explanation.heat_map).all()
    assert explanation.difference < 0.1


class Drawing(nn.Module):
    """Another value each time: no tolerance hides it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x.bfloat16().float()).mean((2, 3))
        return self.head(x) + torch.rand(5)


def test_noise_is_not_taken_for_rounding() -> None:
    with pytest.raises(VerificationError, match="run once more it gives another value"):
        explain_tensor(Drawing().eval(), IMAGE, patch=8, stride=8, output="logit", verify=4)


def test_a_search_for_the_reason_that_fails_does_not_hide_the_difference() -> None:
    def failing(*_: Any) -> str:
        raise TypeError("Got unsupported ScalarType BFloat16")

    verification = Verification(lambda _: np.ones(3), lambda _: None, failing, 1.0)
    expected = r"target 2 has 0 at place 1, where .* has 1: no layer can be named \(TypeError: Got .*verify=0"
    with pytest.raises(VerificationError, match=expected):
        verification(np.zeros((1, 4), np.float32), [2], [(1,)])
