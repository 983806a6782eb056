"""Pace of bfloat16 on this device: one layer of a network is measured in it and in float32."""

from __future__ import annotations

import copy
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from udfs.handlers.torch import TorchModel

__all__ = ["bfloat16_slowdown"]

_RUNS = 5

# FLOPs of a run, at least: shorter ones measure how threads are started.
_FLOPS, _MOST_RECORDS = 5e8, 64
_IMAGE_RANK = 4


def bfloat16_slowdown(model: TorchModel) -> float:
    """Measure the seconds of a network's costliest layer in bfloat16, in those of float32.

    Below 1 the device has instructions for bfloat16; a processor without them takes several times as long. Each layer
    is measured once per process.

    Returns
    -------
    float
        Ratio of the seconds; infinite if the layer does not run in bfloat16.
    """
    single = [layer for layer in model.graph if layer.flops and len(layer.inputs) == 1]
    # Few channels of an image run in kernels of their own.
    inner = [layer for layer in single if layer.inputs[0] not in model.graph.inputs] or single
    measurable = [layer for layer in inner if model.module_of(layer.name) is not None]
    shape: tuple[int, ...]
    if not measurable:
        layer, shape = nn.Conv2d(64, 64, 3, padding=1), (8, 64, 28, 28)
    else:
        costliest = max(measurable, key=lambda each: each.flops)
        records = int(min(_MOST_RECORDS, max(1, _FLOPS // costliest.flops)))
        shape = (records, *model.graph[costliest.inputs[0]].output_shape)
        layer = model.module_of(costliest.name)  # type: ignore[assignment]
    kind = type(layer).__name__
    description = f"{kind} {layer.extra_repr()}"  # type: ignore[no-untyped-call]
    return _measured(_Layer(layer), description, tuple(shape), model.device, torch.get_num_threads())


class _Layer:
    """Layer that is no part of a cache's key."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Layer)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=64)
def _measured(keyless: _Layer, description: str, shape: tuple[int, ...], device: str, threads: int) -> float:
    del description, threads  # parts of the cache's key
    precise = copy.deepcopy(keyless.layer).to(device).float()
    sample = torch.ones(shape, device=device)
    if sample.dim() == _IMAGE_RANK:
        sample = sample.contiguous(memory_format=torch.channels_last)
    try:
        lean = copy.deepcopy(precise).bfloat16()
        return _seconds(lean, sample.bfloat16(), device) / _seconds(precise, sample, device)
    except RuntimeError:
        return float("inf")


def _seconds(layer: nn.Module, sample: torch.Tensor, device: str) -> float:
    """Return the least seconds of some runs after the first one, which chooses kernels."""
    seconds: list[float] = []
    with torch.inference_mode():
        for _ in range(1 + _RUNS):
            started = time.perf_counter()
            result: Any = layer(sample)
            if torch.device(device).type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
            del result
    return max(min(seconds[1:]), 1e-9)
