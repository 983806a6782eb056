"""Full float32 precision on accelerators that round to TF32 by default."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["full_float32"]


@contextmanager
def full_float32(device: str) -> Iterator[None]:
    """Disable TF32, whose 10 bits mean errors of 1e-3, for convolutions and matrix products of a block on a GPU.

    Torch allows TF32 for convolutions by default.
    """
    if torch.device(device).type != "cuda":
        yield
        return
    settings = _settings()
    before = [getattr(owner, name) for owner, name, _ in settings]
    try:
        for owner, name, precise in settings:
            setattr(owner, name, precise)
        yield
    finally:
        for (owner, name, _), value in zip(settings, before, strict=True):
            setattr(owner, name, value)


def _settings() -> list[tuple[Any, str, Any]]:
    """Return owner, name and precise value of each setting; torch's older and newer settings must not be mixed."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if not hasattr(cudnn, "conv"):  # before torch 2.9
        return [(cudnn, "allow_tf32", False), (matmul, "allow_tf32", False)]
    return [(owner, "fp32_precision", "ieee") for owner in (cudnn.conv, cudnn.rnn, matmul)]
