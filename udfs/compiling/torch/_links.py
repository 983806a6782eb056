"""Modules of functions from scores to quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import Apply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Operator

__all__ = ["MODULES"]

# Beyond it float32 has no exponential.
_LARGEST = 88.7


def _exp_rounded(x: torch.Tensor) -> torch.Tensor:
    """Return the exponential, correctly rounded to float32; torch's own is sometimes off by one unit."""
    return torch.exp(x.to(torch.float64)).to(torch.float32)


def _logistic(x: torch.Tensor) -> torch.Tensor:
    return 1 / (_exp_rounded(torch.clamp(-x, max=_LARGEST)) + 1)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    shares = _exp_rounded(x - x.amax(dim=1, keepdim=True))
    return shares / shares.to(torch.float64).sum(dim=1, keepdim=True).to(torch.float32)


_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "softplus": lambda x: torch.log1p(torch.exp(x)),
    "signed square": lambda x: x * torch.abs(x),
    "logistic of float32": _logistic,
    "softmax of float32": _softmax,
}


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Link: lambda operator: Apply(_FUNCTIONS[operator.kind]),
    ops.NarrowIntegers: lambda _: torch.nn.Identity(),
    ops.ReadAs: lambda _: torch.nn.Identity(),
}
"""Constructors of modules, by operator class."""
