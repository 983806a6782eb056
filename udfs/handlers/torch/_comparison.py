"""Comparison of an opened model with the user's own, by training both on drawn records.

Tracers do not record ``no_grad`` regions, backward passes of ``torch.autograd.Function``, tensor hooks, ``autocast``,
checkpointing and Python numbers that change: this shows in outputs, gradients, buffers or random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers._record_checks import drawn
from udfs.handlers.torch._fx import private, unwrapped
from udfs.handlers.torch._hooks import same_attributes
from udfs.handlers.torch._modes import set_training
from udfs.handlers.torch._process_random import generator_states, same_random_numbers, same_states, seed_generators
from udfs.handlers.torch._python_state import changed_attribute, python_state, same_variables
from udfs.handlers.torch._tracer_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import nn

    from udfs.handlers.torch._branch_session import Branch
    from udfs.tensors import TensorSpec

__all__ = ["OtherModelError", "compare"]

# Records of two batches. Batch norm needs two; a size that the tracer made a constant shows in the other batch.
_ROWS = (3, 2)
# Two steps on one batch show what moves from step to step; then another batch size, and evaluation.
_STEPS = ((0, True), (0, True), (1, True), (1, False))
_SEED = 7
_RATE = 0.01

# Steps of the number type by which tensors may differ, relative to the largest number. Both models run the same
# kernels, and on the CPU the numbers are equal but for kernels that read memory in another alignment. Accelerators sum
# in the order in which threads end.
_ROUNDING = 64
_ROUNDING_OF_GPUS = 1024


class OtherModelError(UntraceableModelError):
    """An opened model that trains otherwise than the user's model."""


@dataclass
class _Step:
    """Results of a step: outputs, gradients of the parameters, and buffers and generators afterwards."""

    outputs: list[torch.Tensor]
    gradients: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor]
    generators: tuple[Any, ...]


def compare(
    model: nn.Module, branch: Branch, inputs: Sequence[TensorSpec], changing: Collection[int], *, first: bool
) -> None:
    """Train the user's model and the opened one on drawn records, and compare all that training changes.

    Both take two steps on one batch and one on a batch of another size, and run in inference mode. The layers that the
    branch reads are computed once for each batch, as stored ones are. Weights, buffers, gradients, attributes, modes
    and random numbers are restored.

    Parameters
    ----------
    model : torch.nn.Module
        The user's model.
    branch : Branch
        Opened model, on the parameters of the user's.
    inputs : sequence of TensorSpec
        Inputs of the model.
    changing : collection of int
        Ids of the parameters and buffers that training changes in the opened model.
    first : bool
        Whether the branch returns the first output alone.

    Raises
    ------
    OtherModelError
        The opened model has other outputs, gradients, buffers or random numbers, or keeps state in attributes of the
        modules that it calls. The message names the first difference.
    UntraceableModelError
        The user's model does not run on drawn records.
    """
    model = unwrapped(model)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    batches, expected = _reference(model, inputs, changing, device, first=first)
    state = python_state(branch.training)
    with (
        same_random_numbers(),
        same_variables(model),
        same_attributes(branch.training),
        same_attributes(branch.inference),
    ):
        opened = _Opened(branch, batches, device)
        try:
            actual = _steps(model, opened.run, changing)
        except Exception as error:
            raise OtherModelError(f"its layers do not run one by one ({first_line(error)})") from error
        changed = changed_attribute(state, python_state(branch.training)) or opened.changed_layer()
    if changed is not None:
        raise OtherModelError(f"forward changes {changed.strip('.')}, which is not a buffer")
    rounding = _ROUNDING if device.type == "cpu" else _ROUNDING_OF_GPUS
    for place, (mine, theirs) in enumerate(zip(expected, actual, strict=True)):
        difference = _difference(mine, theirs, rounding)
        if difference:
            mode = "training" if _STEPS[place][1] else "evaluation"
            raise OtherModelError(f"it has {difference} in step {place + 1}, {mode}")
    saved = {name for name, buffer in model.named_buffers() if id(buffer) in changing}
    start = expected[0].buffers
    unsaved = next((name for name in start if name not in saved and _moved(name, model, expected)), None)
    if unsaved is not None:
        raise OtherModelError(f"{unsaved} moves in the backward pass")


def _reference(
    model: nn.Module, inputs: Sequence[TensorSpec], changing: Collection[int], device: torch.device, *, first: bool
) -> tuple[list[list[NDArray[Any]]], list[_Step]]:
    """Draw batches on which the model gives finite numbers, if possible, and take the steps with a copy of it."""
    random = np.random.default_rng(_SEED)
    batches = [[np.concatenate([drawn(spec, random) for _ in range(rows)]) for spec in inputs] for rows in _ROWS]
    reference: tuple[list[list[NDArray[Any]]], list[_Step]] | None = None
    errors: list[Exception] = []
    # A logarithm takes positive numbers, and some models take probabilities.
    for change in (lambda array: array, np.abs, lambda array: np.abs(array) / (1 + np.abs(array).max())):
        changed = [[change(array).astype(array.dtype) for array in batch] for batch in batches]
        copied = private(model, tied=True)
        try:
            with same_random_numbers(), same_variables(model):
                steps = _steps(copied, _original(copied, changed, device, first=first), changing)
        except Exception as error:  # noqa: BLE001 - the user's forward may raise anything
            errors.append(error)
            continue
        reference = reference or (changed, steps)
        if all(output.isfinite().all() for step in steps for output in step.outputs):
            return changed, steps
    if reference is None:
        raise UntraceableModelError(
            "the model does not run on drawn records, so that its layers cannot be compared with it "
            f"({first_line(errors[0])})"
        ) from errors[0]
    return reference


def _moved(name: str, model: nn.Module, steps: Sequence[_Step]) -> bool:
    return not _same(model.get_buffer(name), steps[-1].buffers[name], 0, ())


def _original(
    model: nn.Module, batches: Sequence[Sequence[NDArray[Any]]], device: torch.device, *, first: bool
) -> Callable[[int, bool], Any]:
    """Make the function that runs a model on a batch as :class:`TorchSession` does."""

    def run(place: int, training: bool) -> Any:
        if training:
            set_training(model)
        else:
            model.eval()
        returned = model(*(torch.from_numpy(array.copy()).to(device) for array in batches[place]))
        return returned[0] if first and isinstance(returned, (tuple, list)) else returned

    return run


class _Opened:
    """Runner of an opened model on batches, like :class:`BranchSession`; it computes the layers below once a batch."""

    def __init__(self, branch: Branch, batches: Sequence[Sequence[NDArray[Any]]], device: torch.device) -> None:
        self._branch, self._device = branch, device
        graph = branch.traced.graph
        self._batches = [dict(zip(graph.inputs, batch, strict=True)) for batch in batches]
        self._inputs = frozenset(graph.inputs)
        self._layers: dict[int, list[NDArray[Any]]] = {}
        self._copies: dict[int, list[NDArray[Any]]] = {}
        self._strides: dict[str, tuple[int, ...] | None] = {}

    def run(self, place: int, training: bool) -> Any:
        """Run the branch on the layers of a batch."""
        branch, traced = self._branch, self._branch.traced
        if place not in self._layers:
            batch = self._batches[place]
            below = [name for name in branch.feeds if name not in self._inputs]
            computed = {**batch, **(traced.run(batch, below) if below else {})}
            self._lay_out({name: computed[name] for name in below})
            self._layers[place] = [np.ascontiguousarray(computed[name]) for name in branch.feeds]
            self._copies[place] = [array.copy() for array in self._layers[place]]
        tensors = [
            torch.from_numpy(array).to(self._device) if name in self._inputs else traced.lent(name, array)
            for name, array in zip(branch.feeds, self._layers[place], strict=True)
        ]
        return (branch.training if training else branch.inference).forward(*tensors)

    def _lay_out(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the memory layout of layers to that of a run, if it is the same for all batches."""
        strides = {name: _strides(array) for name, array in arrays.items()}
        if self._strides:
            strides = {name: each if each == self._strides[name] else None for name, each in strides.items()}
        self._strides = strides
        self._branch.traced.set_strides(strides)

    def changed_layer(self) -> str | None:
        """Name a layer whose stored tensor the branch has written to."""
        for place, arrays in self._layers.items():
            for name, array, copy in zip(self._branch.feeds, arrays, self._copies[place], strict=True):
                if not np.array_equal(array.view(np.uint8), copy.view(np.uint8)):
                    return f"the tensor of {name!r}"
        return None


def _strides(array: NDArray[Any]) -> tuple[int, ...] | None:
    """Return strides in elements; ``None`` for an array that overlaps itself."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return None if 0 in strides else strides


def _steps(model: nn.Module, run: Callable[[int, bool], Any], changing: Collection[int]) -> list[_Step]:
    """Take the steps of the comparison, and restore the model's tensors."""
    parameters = list(model.parameters())
    tensors = [*(parameter for parameter in parameters if parameter.requires_grad), *model.buffers()]
    before = [(tensor, tensor.detach().clone()) for tensor in tensors]
    gradients = [parameter.grad for parameter in parameters]
    learning = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and id(parameter) in changing
    }
    seed_generators(_SEED)
    try:
        return [_step(model, learning, partial(run, place, training), training=training) for place, training in _STEPS]
    finally:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient


def _step(model: nn.Module, learning: Mapping[str, nn.Parameter], run: Callable[[], Any], *, training: bool) -> _Step:
    """Run a batch; in training, also take a step along the gradient of a weighted sum of the outputs."""
    for parameter in model.parameters():
        parameter.grad = None
    with torch.enable_grad() if training else torch.inference_mode():
        outputs = [value for value in tree_leaves(run()) if isinstance(value, torch.Tensor)]
        parts = [_weighted_sum(output) for output in outputs if output.requires_grad]
    if parts:
        torch.stack(parts).sum().backward()  # type: ignore[no-untyped-call]
    gradients = {
        name: None if parameter.grad is None else parameter.grad.detach().clone()
        for name, parameter in learning.items()
    }
    outputs = [output.detach().clone() for output in outputs]
    largest = _largest(gradients.values())
    if largest > 0:
        with torch.no_grad():
            for name, gradient in gradients.items():
                if gradient is not None:
                    learning[name].sub_(gradient, alpha=_RATE / largest)
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    return _Step(outputs, gradients, buffers, generator_states())


def _weighted_sum(output: torch.Tensor) -> torch.Tensor:
    """Sum numbers with weights that differ, as the outputs of softmax sum up to one."""
    weights = torch.arange(output.numel(), dtype=torch.float64, device=output.device).cos().reshape(output.shape)
    return (output.double() * weights).sum()


def _difference(expected: _Step, actual: _Step, rounding: int) -> str:
    """Describe the first difference between two steps; ``""`` if there is none."""
    if len(expected.outputs) != len(actual.outputs):
        return f"{len(actual.outputs)} outputs instead of {len(expected.outputs)}"
    for mine, theirs in zip(expected.outputs, actual.outputs, strict=True):
        if not _same(mine, theirs, rounding, [mine]):
            return "other outputs"
    gradients = list(expected.gradients.values())
    for name, gradient in expected.gradients.items():
        if not _same(gradient, actual.gradients[name], rounding, gradients):
            return f"another gradient of {name}"
    for name, buffer in expected.buffers.items():
        if not _same(buffer, actual.buffers.get(name), rounding, [buffer]):
            return f"another buffer {name}"
    return "" if same_states(expected.generators, actual.generators) else "other random numbers"


def _largest(tensors: Iterable[torch.Tensor | None]) -> float:
    """Return the largest finite magnitude of numbers in tensors."""
    floating = [tensor for tensor in tensors if tensor is not None and tensor.is_floating_point() and tensor.numel()]
    finite = (tensor.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for tensor in floating)
    return max((float(tensor.abs().max()) for tensor in finite), default=0.0)


def _same(
    first: torch.Tensor | None, other: torch.Tensor | None, rounding: int, scale: Iterable[torch.Tensor | None]
) -> bool:
    """Return whether tensors are equal, up to ``rounding`` steps of their type at the largest number of ``scale``."""
    if first is None or other is None:
        return first is other
    if first.dtype != other.dtype or first.shape != other.shape:
        return False
    if torch.equal(first, other):
        return True
    if not first.is_floating_point():
        return False
    bound = rounding * torch.finfo(first.dtype).eps * _largest(scale)
    return torch.allclose(first.double(), other.double(), rtol=0, atol=bound, equal_nan=True)
