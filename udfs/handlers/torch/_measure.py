"""Shapes, strides and FLOPs of a captured graph, without computing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils.flop_counter import FlopCounterMode

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._causes import first_line, quiet, way_out
from udfs.handlers.torch._fx import example

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.handlers._protocol import TensorSpec

__all__ = ["BATCHES", "Measure", "measure", "strides"]

BATCHES = (3, 5)
"""Two batch sizes tell the batch axis from any other: what follows the batch differs, what does not is the same."""

_IMAGE_RANK = 4


class Measure(FakeTensorProp):
    """Propagates shapes, and keeps each node's value and FLOPs by its name."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, FakeTensorMode(allow_non_fake_inputs=True))
        self.values: dict[str, Any] = {}
        self.flops: dict[str, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run one node on fake tensors."""
        with FlopCounterMode(display=False) as counter:
            value = super().run_node(n)
        self.values[n.name] = value
        self.flops[n.name] = counter.get_total_flops()
        return value


def measure(
    module: fx.GraphModule,
    inputs: Sequence[TensorSpec],
    batch: int,
    layout: torch.memory_format = torch.contiguous_format,
) -> Measure:
    """Run a graph on fake tensors, inputs of rank 4 in the given memory layout.

    Raises
    ------
    UntraceableModelError
        It does not run on that many records.
    """
    measured = Measure(module)
    device = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    tensors = [tensor.to(device) for tensor in example(inputs, batch)]
    laid = [tensor.contiguous(memory_format=layout) if tensor.dim() == _IMAGE_RANK else tensor for tensor in tensors]
    try:
        with torch.no_grad(), quiet():
            measured.propagate(*laid)
    except Exception as error:
        told = first_line(error)
        described = ", ".join(f"{spec.shape} {spec.dtype}" for spec in inputs)
        raise UntraceableModelError(
            f"the graph does not run on {batch} records of {described}: {way_out(told)} ({told})"
        ) from error
    return measured


def strides(
    module: fx.GraphModule, inputs: Sequence[TensorSpec], layout: torch.memory_format
) -> dict[str, tuple[int, ...]]:
    """Find how a run lays each node's tensor out in memory, where that does not depend on the batch.

    Kernels sum in the order of memory: a tensor that comes back from a table in C order gives the same bits only in the
    layout that it had.

    Returns
    -------
    dict of node name to tuple of int
        In elements, an entry an axis; no tensor that overlaps itself is listed.
    """
    small, large = (measure(module, inputs, batch, layout).values for batch in BATCHES)
    return {
        name: value.stride()
        for name, value in small.items()
        if isinstance(value, torch.Tensor) and value.stride() == large[name].stride() and 0 not in value.stride()
    }
