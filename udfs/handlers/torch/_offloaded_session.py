"""Training by torch of a model that is larger than memory: its tensors are in files."""

from __future__ import annotations

import copy
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from udfs.handlers.torch._adoption import used_slots
from udfs.handlers.torch._recomputation import Recomputation
from udfs.handlers.torch._session import TorchSession, as_array, as_tensor
from udfs.node import return_freed_memory
from udfs.offloading.scratch import Scratch, release
from udfs.packing import pack, unpack
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.training import BatchWeights, Trainer

__all__ = ["OffloadedSession"]

# Optimizers whose step of a parameter depends on its gradient and state alone.
_SEPARABLE = (
    *(torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax),
    *(torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.Adadelta, torch.optim.ASGD, torch.optim.Rprop),
)

# Tensors of the size of the largest parameter that exist while it is stepped: its gradient, and those of the formula.
_STEP_COPIES = 4


class OffloadedSession(TorchSession):
    """A session of torch of a trainer with ``offload``; see :class:`udfs.offloading.DiskOffload`.

    Raises
    ------
    TrainerError
        The device is not the CPU, the optimizer needs several gradients at once, or ``recompute`` does not fit.
    TrainingError
        The disk has no room for the parameters and the state of the optimizer.
    """

    def __init__(self, trainer: Trainer, device: str) -> None:
        if torch.device(device).type != "cpu":
            raise TrainerError(
                f"device must be 'cpu' for a trainer with offload, got {device!r}. Leave offload out to train on it"
            )
        _check_optimizer(trainer.optimizer)
        super().__init__(trainer, device)
        self._scratch = Scratch(trainer.offload.folder)
        self._recomputation = Recomputation(self.model, trainer.offload.recompute)
        self._slots: dict[int, dict[str, torch.Tensor]] = {}
        self._groups: dict[int, dict[str, Any]] = {}  # group of each parameter, in a step
        self._move()
        apply = weakref.WeakMethod(self._apply)  # a parameter that keeps its session would keep the files
        for group in trainer.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(partial(_called, apply))

    @property
    def training_bytes(self) -> int:
        """Memory that training takes beside activations, in bytes."""
        return _STEP_COPIES * max((parameter.nbytes for parameter in self.model.parameters()), default=0)

    def checkpoint_buffer(self, nbytes: int) -> memoryview:
        """Allocate memory for a checkpoint, in a file."""
        return self._scratch.buffer(nbytes)

    def checkpoint(self) -> Any:
        """Write everything that training needs to continue elsewhere, to a file: the bytes are its pages."""
        return pack(self.state(), as_array, self.checkpoint_buffer)

    def state(self) -> dict[str, Any]:
        """Collect what a checkpoint holds, in the order in which training in memory would make it."""
        state = super().state()
        optimizer = state["optimizer"]
        return {**state, "optimizer": {**optimizer, "state": dict(sorted(optimizer["state"].items()))}}

    def unpacked(self, state: bytes) -> dict[Any, Any]:
        """Read a checkpoint without a copy of its large tensors."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)  # nothing writes
            saved = unpack(state, _as_view)
        shared = ("model", "optimizer")
        return {key: value if key in shared else copy.deepcopy(value) for key, value in saved.items()}

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint."""
        super().restore(state)
        self._settle_all()

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        """Begin from the checkpoint of another configuration."""
        super().adopt(state, optimizer=optimizer)
        self._settle_all()

    def step(self, inputs: tuple[NDArray[Any], ...], labels: tuple[NDArray[Any], ...], weights: BatchWeights) -> None:
        """Take one step: each parameter changes as soon as its gradient is complete."""
        self._groups = {id(each): group for group in self._trainer.optimizer.param_groups for each in group["params"]}
        self._recomputation.stepped.clear()
        try:
            # The optimizer's step at its end finds no gradient, and counts for the scheduler alone.
            super().step(inputs, labels, weights)
        finally:
            self._groups = {}

    def forward(self, inputs: Sequence[NDArray[Any]], *, training: bool) -> Any:
        """Run the model on a batch."""
        with self._recomputation.active():
            return super().forward(inputs, training=training)

    def _move(self) -> None:
        """Move parameters, buffers and the state of the optimizer to files, and allocate the state to come."""
        optimizer = self._trainer.optimizer
        tensors = {id(each): each for each in (*self.model.parameters(), *self.model.buffers())}.values()
        _check_storages(list(tensors))
        slots = used_slots(optimizer)
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        counts = {
            id(each): [name for name, value in slots.get(place, {}).items() if _is_slot(value, each)]
            for place, each in enumerate(parameters)
        }
        large = {id(each): each.nbytes for each in parameters if self._scratch.is_large(each)}
        needed = sum(each.nbytes for each in tensors if self._scratch.takes(each))
        needed += sum(nbytes * len(counts[place]) for place, nbytes in large.items())
        self._scratch.check_room(needed, "parameters and optimizer state")
        for tensor in tensors:
            tensor.data = self._scratch.moved(tensor)
        for each in parameters:
            if id(each) in large:
                self._slots[id(each)] = {name: self._scratch.empty(each.detach()) for name in counts[id(each)]}
        self._settle_all()

    def _settle_all(self) -> None:
        for parameter in self._trainer.optimizer.state:
            self._settle(parameter)

    def _settle(self, parameter: torch.Tensor) -> None:
        """Move the state of the optimizer for a parameter to its files."""
        state, slots = self._trainer.optimizer.state[parameter], self._slots.get(id(parameter), {})
        for name, value in state.items():
            if not self._scratch.takes(value):
                continue
            if name in slots and slots[name].shape == value.shape:
                slots[name].copy_(value)
            else:
                slots[name] = self._scratch.moved(value)
            state[name] = slots[name]

    def _apply(self, parameter: torch.Tensor) -> None:
        """Step a parameter whose gradient is complete, and free the gradient."""
        if not self._groups:
            return
        optimizer = self._trainer.optimizer
        groups = optimizer.param_groups
        optimizer.param_groups = [{**self._groups[id(parameter)], "params": [parameter]}]
        try:
            optimizer.step()
        finally:
            optimizer.param_groups = groups
        parameter.grad = None
        self._recomputation.stepped.add(id(parameter))
        if parameter in optimizer.state:
            self._settle(parameter)
        if id(parameter) in self._slots:
            release([parameter, *self._slots[id(parameter)].values()])
            # Freed gradients lie between activations, where the allocator keeps them.
            return_freed_memory()


def _called(method: weakref.WeakMethod[Any], parameter: torch.Tensor) -> None:
    apply = method()
    if apply is not None:
        apply(parameter)


def _as_view(array: NDArray[np.generic], kind: str) -> Any:
    return as_tensor(array, kind) if kind == "numpy" or kind.startswith("raw ") else torch.from_numpy(array)


def _is_slot(value: object, parameter: torch.Tensor) -> bool:
    """Return whether the state of a parameter with one element shows a tensor of the parameter's shape."""
    return isinstance(value, torch.Tensor) and value.dim() == parameter.dim() > 0


def _check_optimizer(optimizer: Any) -> None:
    names = ", ".join(each.__name__ for each in _SEPARABLE)
    if isinstance(optimizer, torch.optim.Optimizer) and type(optimizer) not in _SEPARABLE:
        raise TrainerError(
            f"optimizer must be one of {names} with offload, got {type(optimizer).__name__}. A step of others may need "
            "all gradients at once, as a clip of their norm does, and with offload each is freed before the next exists"
        )
    if getattr(optimizer, "_optimizer_step_pre_hooks", None) or getattr(optimizer, "_optimizer_step_post_hooks", None):
        raise TrainerError(
            f"optimizer must have no step hooks with offload, got a {type(optimizer).__name__} with some. They would "
            "run for each parameter, without the gradients of the others: clip values in a hook of each parameter"
        )


def _check_storages(tensors: Sequence[torch.Tensor]) -> None:
    """Refuse parameters that are views of one memory, which files of their own would separate."""
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()]
    if len(set(places)) < len(places):
        raise TrainerError(
            "model must have parameters and buffers in separate memory with offload, got two that share some. Tie "
            "weights by using one parameter twice"
        )
