"""Context in which torch allocates tensors in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from udfs.offloading.scratch import Scratch

if TYPE_CHECKING:
    import os

__all__ = ["FileAllocation"]

# Functions by which layers make the tensors that become their weights; the first two leave their pages untouched.
_UNSET = frozenset({torch.empty, torch.empty_like})
_FACTORIES = _UNSET | {
    *(torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye, torch.arange),
    *(torch.zeros_like, torch.ones_like, torch.full_like, torch.rand_like, torch.randn_like),
    *(torch.clone, torch.Tensor.clone),
}


class FileAllocation(TorchFunctionMode):
    """Context of :meth:`DiskOffload.allocate`."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        super().__init__()
        self._scratch = Scratch(folder)

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Call a function, and allocate in a file what it would allocate in memory."""
        made = func(*args, **(kwargs or {}))
        if func not in _FACTORIES or not self._scratch.takes(made) or made.grad_fn is not None:
            return made
        file = self._scratch.empty(made) if func in _UNSET else self._scratch.moved(made)
        return file.requires_grad_(made.requires_grad)
