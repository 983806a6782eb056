"""Shapes, strides and FLOPs of a captured graph, without computing anything."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._attention_flops import ATTENTION_FLOPS
from udfs.handlers.torch._effects import Effects, NodeEffects
from udfs.handlers.torch._fx import example
from udfs.handlers.torch._hooks import same_attributes
from udfs.handlers.torch._measure_reuse import Known, Questions, UnknownError, known, remember, stand_in
from udfs.handlers.torch._tracer_errors import first_line, quiet, way_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from udfs.tensors import TensorSpec

__all__ = ["BATCHES", "Measure", "common_strides", "measure", "strides"]

BATCHES = (3, 5)
"""Two batch sizes tell the batch axis from any other: what follows the batch differs, what does not is the same."""

_IMAGE_RANK = 4


class Measure(FakeTensorProp):
    """Propagates shapes, and keeps each node's value, FLOPs and effects by its name.

    A node runs only where this process has not measured one like it before.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, FakeTensorMode(allow_non_fake_inputs=True))
        self.values: dict[str, Any] = {}
        self.flops: dict[str, int] = {}
        self.effects: dict[str, NodeEffects] = {}
        self._buffers = {id(buffer) for buffer in module.buffers()}
        self._questions = Questions(module, self._buffers)

    def run_node(self, n: fx.Node) -> Any:
        """Run one node on fake tensors, or find what it gives."""
        if n.op in ("placeholder", "get_attr", "output"):
            self._make_arguments(n)
            value = super().run_node(n)
            self._keep(n, value, 0, NodeEffects())
            self._questions.answered_by_run(n, value)
            return value
        try:
            question = self._questions.of(n)
        except UnknownError:
            return self._run(n)[0]
        answer = known(question)
        if answer is None:
            value, flops, effects = self._run(n)
            answer = self._answer(n, value, flops, effects)
            if answer is not None:
                remember(question, answer)
                self._questions.answer(n, answer)
            return value
        self._questions.answer(n, answer)
        self._keep(n, answer.value, answer.flops, answer.effects)
        n.meta["val"] = answer.value
        if answer.same_as is not None:
            return self.env[n.all_input_nodes[answer.same_as]]
        return answer

    def _run(self, n: fx.Node) -> tuple[Any, int, NodeEffects]:
        self._make_arguments(n)
        # The counter is the inner one, and takes operations apart before the other sees them.
        counter = FlopCounterMode(display=False, custom_mapping=ATTENTION_FLOPS)
        counter.mod_tracker = _NoHooks()
        with Effects(self._buffers) as effects, counter:
            value = super().run_node(n)
        flops, observed = counter.get_total_flops(), effects.observed
        self._keep(n, value, flops, observed)
        return value, flops, observed

    def _make_arguments(self, n: fx.Node) -> None:
        """Make the fake tensors that a node is to run on, where they were only remembered."""
        for below in n.all_input_nodes:
            value = self.env[below]
            if isinstance(value, Known):
                self.env[below] = value.made()

    def _answer(self, n: fx.Node, value: Any, flops: int, effects: NodeEffects) -> Known | None:
        try:
            told = self._questions.tell(value)
        except UnknownError:
            return None
        same = [place for place, below in enumerate(n.all_input_nodes) if self.env[below] is value]
        empty, made = stand_in(value)
        return Known(empty, told, same[0] if same else None, flops, effects, made)

    def _keep(self, n: fx.Node, value: Any, flops: int, effects: NodeEffects) -> None:
        self.values[n.name], self.flops[n.name], self.effects[n.name] = value, flops, effects


class _NoHooks(ModuleTracker):
    """Tracker for the sum over all modules: torch's own adds gradient hooks, which fail for views of parameters."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        pass


def measure(
    module: fx.GraphModule,
    inputs: Sequence[TensorSpec],
    batch: int,
    layout: torch.memory_format = torch.contiguous_format,
    *,
    learning: bool = False,
) -> Measure:
    """Run a graph on fake tensors, inputs of rank 4 in the given memory layout.

    With ``learning`` it runs as for a backward pass, where modules of torch may take other ways. Raise
    UntraceableModelError if it does not run on that many records.
    """
    measured = Measure(module)
    device = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    tensors = [tensor.to(device) for tensor in example(inputs, batch)]
    laid = [tensor.contiguous(memory_format=layout) if tensor.dim() == _IMAGE_RANK else tensor for tensor in tensors]
    try:
        with (
            torch.set_grad_enabled(learning),
            quiet(),
            _without_cudnn(module),
            _put_back(module.buffers() if learning else ()),
            same_attributes(module),
        ):
            measured.propagate(*laid)
    except Exception as error:
        told = first_line(error)
        described = ", ".join(f"{spec.shape} {spec.dtype}" for spec in inputs)
        raise UntraceableModelError(
            f"the graph does not run on {batch} records of {described}: {way_out(told)} ({told})"
        ) from error
    return measured


@contextmanager
def _without_cudnn(module: nn.Module) -> Iterator[None]:
    """Keep recurrent modules on a GPU from cuDNN for a block: it packs their weights, which fake tensors have not."""
    recurrent = (inner for inner in module.modules() if isinstance(inner, nn.RNNBase))
    if not any(parameter.is_cuda for inner in recurrent for parameter in inner.parameters()):
        yield
        return
    before, torch.backends.cudnn.enabled = torch.backends.cudnn.enabled, False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


@contextmanager
def _put_back(buffers: Iterable[torch.Tensor]) -> Iterator[None]:
    """Put buffers back after a block: fake tensors compute single numbers, as batch norm's count, for real."""
    before = [(buffer, buffer.clone()) for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


def strides(
    module: fx.GraphModule, inputs: Sequence[TensorSpec], layout: torch.memory_format
) -> dict[str, tuple[int, ...]]:
    """Find how a run lays each node's tensor out in memory, where that does not depend on the batch.

    Kernels sum in the order of memory: a tensor that comes back from a table in C order gives the same bits only in the
    layout that it had. Strides are in elements; no tensor that overlaps itself is listed.
    """
    return common_strides(*(measure(module, inputs, batch, layout) for batch in BATCHES))


def common_strides(first: Measure, other: Measure) -> dict[str, tuple[int, ...]]:
    """Find the strides that two measures at different batch sizes agree on; see :func:`strides`."""
    small, large = first.values, other.values
    return {
        name: value.stride()
        for name, value in small.items()
        if isinstance(value, torch.Tensor) and value.stride() == large[name].stride() and 0 not in value.stride()
    }
