"""Training of the part of a torch model that learns, on tensors of the part that does not."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from udfs.handlers._adapted_trainer import check_frozen
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._session import TorchSession
from udfs.packing import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import nn

    from udfs.handlers.torch._model import TorchModel
    from udfs.tensors import TensorSpec
    from udfs.training import Trainer

__all__ = ["Branch", "BranchSession"]


@dataclass(frozen=True)
class Branch:
    """The part above the feeds, layers of the whole model ``traced`` as it trains.

    There is a module for training and one for evaluation, on the same parameters, which neither of them owns.
    """

    traced: TorchModel
    feeds: tuple[str, ...]
    training: nn.Module
    inference: nn.Module


class BranchSession(TorchSession):
    """A session of torch whose checkpoints have no frozen tensors; see :class:`udfs.handlers.Adapted`.

    The optimizer of the trainer loses the parameters that require no gradient; the model is moved to the device.
    """

    def __init__(self, trainer: Trainer, device: str) -> None:
        super().__init__(trainer, device)
        for group in trainer.optimizer.param_groups:
            group["params"] = [parameter for parameter in group["params"] if parameter.requires_grad]
        self._branches: tuple[Branch | None, ...] = ()
        self._branch: Branch | None = None
        self._inputs: frozenset[str] = frozenset()
        self._moving: frozenset[int] = frozenset()
        self._frozen: str | None = None
        # Whether it began with weights of another configuration, or of an earlier run.
        self.adopted = False

    @property
    def learning(self) -> frozenset[int]:
        """Ids of the parameters that the optimizer steps."""
        return frozenset(
            id(parameter) for group in self._trainer.optimizer.param_groups for parameter in group["params"]
        )

    @contextmanager
    def phase(self, epoch: int, inputs: Sequence[TensorSpec]) -> Iterator[frozenset[int]]:
        """Freeze what does not learn in an epoch while a block runs, which gets the ids of the parameters that do.

        Raise TrainerError if nothing learns in it, or the model does not call a layer of its schedule, and
        UntraceableModelError if the model does not run on zeros.
        """

        def evaluate() -> Any:
            zeros = [np.zeros((1, *spec.shape), spec.dtype) for spec in inputs]
            try:
                return self.forward(zeros, training=False)
            except Exception as error:
                raise UntraceableModelError(
                    f"it does not run on zeros, to see what freeze_until freezes ({error})"
                ) from error

        modes = {module: module.training for module in self.model.modules()}
        self._freezing.begin(epoch, evaluate)
        try:
            yield (
                frozenset(id(parameter) for parameter in self.model.parameters() if parameter.requires_grad)
                & self.learning
            )
        finally:
            self._freezing.end()
            for module, training in modes.items():
                module.training = training

    def open(self, branches: Sequence[Branch | None], moving: frozenset[int], frozen: str) -> None:
        """Train a part of the model from now on, and keep only what of it changes.

        ``branches`` has an entry for each phase of the freezing schedule, or a single one; ``None`` where that part
        begins at the inputs: the model's own forward runs it. ``moving`` has the ids of the buffers that training
        moves. ``frozen`` is the hash of all that does not change, without which a checkpoint is of no use.
        """
        self._branches, self._moving, self._frozen = tuple(branches), moving, frozen
        self.follow(0)

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        """Begin from the checkpoint of another configuration."""
        super().adopt(state, optimizer=optimizer)
        self.adopted = True

    def follow(self, place: int) -> None:
        """Train the part of another phase from now on."""
        self._branch = self._branches[place]
        if self._branch is not None:
            self._inputs = frozenset(self._branch.traced.graph.inputs)
            self.model.eval()
        # A unit that is open would go on in the modes of another part.
        self._modes_are_set = False

    @property
    def weight_bytes(self) -> int:
        """Bytes of what training changes, which is all that the session has for itself."""
        return sum(tensor.nbytes for tensor in self.saved_tensors().values())

    def saved_tensors(self) -> dict[str, Any]:
        """Name the parameters that learn and the buffers that move."""
        if self._frozen is None:
            return super().saved_tensors()
        changing = self.learning | self._moving
        state = self.model.state_dict(keep_vars=True)
        return {name: value.detach() for name, value in state.items() if id(value) in changing}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take the tensors that change from a checkpoint's state, made over the same frozen ones."""
        if self._frozen is None:
            super().load(saved)
            return
        self.adopted = bool(saved.get("adopted"))
        current, stored = self.saved_tensors(), saved["model"]
        check_frozen(self._frozen, saved)
        if {name: value.shape for name, value in current.items()} != {
            name: value.shape for name, value in stored.items()
        }:
            odd = min(set(current) ^ set(stored), default="a tensor of another shape")
            raise StateError(f"a checkpoint of another model: it and this model do not both have {odd}")
        with torch.no_grad():
            for name, value in current.items():
                value.copy_(stored[name])

    def state(self) -> dict[str, Any]:
        """Collect what a checkpoint holds."""
        told = {"adopted": self.adopted} if len(self._branches) > 1 else {}
        return {**super().state(), "frozen": self._frozen, **told}

    def forward(self, inputs: Sequence[NDArray[Any]], *, training: bool) -> Any:
        """Run the branch on a batch of its feeds."""
        if self._branch is None:
            return super().forward(inputs, training=training)
        if training and not self._modes_are_set:
            self._freezing.begin(self.epoch, self._not_seen)
        self._modes_are_set = training
        tensors = [
            self._tensor(array) if name in self._inputs else self._branch.traced.lent(name, array)
            for name, array in zip(self._branch.feeds, inputs, strict=True)
        ]
        module = self._branch.training if training else self._branch.inference
        return module.forward(*tensors)

    @staticmethod
    def _not_seen() -> None:
        """Nothing: :meth:`phase` has found what lies below each layer of the schedule."""
