"""Meta device on which weights are not drawn."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

__all__ = ["UndrawnWeights"]

# Torch computes these on the meta device by its own Python references, which import its compiler first.
_DRAWS = frozenset(
    {
        torch.Tensor.cauchy_,
        torch.Tensor.exponential_,
        torch.Tensor.geometric_,
        torch.Tensor.log_normal_,
        torch.Tensor.normal_,
        # These call the methods above, which a mode does not see.
        nn.init.kaiming_normal_,
        nn.init.normal_,
    }
)


class UndrawnWeights(TorchFunctionMode):
    """Context in which a draw of random numbers into a tensor on the meta device does nothing.

    Such a tensor has no numbers. The draw would take 1.5 seconds in each process, for the imports of torch's compiler.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Return the tensor as it is, or call any other function."""
        kwargs = kwargs or {}
        if func in _DRAWS:
            tensor = args[0] if args else kwargs.get("tensor")
            if isinstance(tensor, torch.Tensor) and tensor.is_meta:
                return tensor
        return func(*args, **kwargs)
