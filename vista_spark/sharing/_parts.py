"""Parts of a shared model: the trunk and the upper parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from pathlib import Path

    from udfs.serving import Head

__all__ = ["TRUNK", "SharedPart", "save_head"]

TRUNK = "trunk"
"""Name of the part that all others depend on."""


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Part of a shared model: the trunk, or the upper part of an attribute.

    Parameters
    ----------
    name : str
        ``"trunk"``, or the name of the attribute.
    reads : tuple of str
        Parts whose output it reads: none for the trunk, the trunk for all others.
    nbytes : int
        Bytes of its weights in memory.
    flops : int
        Floating-point operations per image, two for each multiply-accumulate.
    """

    name: str
    reads: tuple[str, ...]
    nbytes: int
    flops: int


def save_head(head: Head, file: Path) -> Path:
    """Write a head as the state dict of ``torch.nn.Linear``; return the file."""
    save_file({"weight": np.ascontiguousarray(head.weight), "bias": np.ascontiguousarray(head.bias)}, file)
    return file
