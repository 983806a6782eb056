"""Training of the part of a torch model that learns, on tensors of the part that does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from udfs.handlers._adapted import check_frozen
from udfs.handlers.torch._session import TorchSession
from udfs.packing import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import nn

    from udfs.handlers import Trainer
    from udfs.handlers.torch._model import TorchModel

__all__ = ["Branch", "BranchSession"]


@dataclass(frozen=True)
class Branch:
    """The part above the feeds.

    Parameters
    ----------
    traced : TorchModel
        Of the whole model as it trains.
    feeds : tuple of str
        Layers of ``traced``, whose tensors the modules take.
    training, inference : torch.nn.Module
        As it trains, and as it is evaluated meanwhile: on the same parameters, none of which belongs to either.
    """

    traced: TorchModel
    feeds: tuple[str, ...]
    training: nn.Module
    inference: nn.Module


class BranchSession(TorchSession):
    """A session of torch whose checkpoints have no frozen tensors; see :class:`udfs.handlers.Adapted`.

    Parameters
    ----------
    trainer : Trainer
        Its optimizer loses the parameters that require no gradient.
    device : str
        The model is moved there.
    """

    def __init__(self, trainer: Trainer, device: str) -> None:
        super().__init__(trainer, device)
        for group in trainer.optimizer.param_groups:
            group["params"] = [parameter for parameter in group["params"] if parameter.requires_grad]
        self._branch: Branch | None = None
        self._inputs: frozenset[str] = frozenset()
        self._moving: frozenset[int] = frozenset()
        self._frozen: str | None = None

    @property
    def learning(self) -> frozenset[int]:
        """Ids of the parameters that the optimizer steps."""
        return frozenset(
            id(parameter) for group in self._trainer.optimizer.param_groups for parameter in group["params"]
        )

    def open(self, branch: Branch | None, moving: frozenset[int], frozen: str) -> None:
        """Train a part of the model from now on, and keep only what of it changes.

        Parameters
        ----------
        branch : Branch, or None
            ``None`` where that part begins at the inputs: the model's own forward runs it.
        moving : frozenset of int
            Ids of the buffers that training moves.
        frozen : str
            Hash of all that does not change, without which a checkpoint is of no use.
        """
        self._branch, self._moving, self._frozen = branch, moving, frozen
        if branch is not None:
            self._inputs = frozenset(branch.traced.graph.inputs)
            self.model.eval()

    @property
    def weight_bytes(self) -> int:
        """Bytes of what training changes, which is all that the session has for itself."""
        return sum(tensor.nbytes for tensor in self.held().values())

    def held(self) -> dict[str, Any]:
        """Name the parameters that learn and the buffers that move."""
        if self._frozen is None:
            return super().held()
        changing = self.learning | self._moving
        state = self.model.state_dict(keep_vars=True)
        return {name: value.detach() for name, value in state.items() if id(value) in changing}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take the tensors that change from a checkpoint's state, made over the same frozen ones."""
        if self._frozen is None:
            super().load(saved)
            return
        own, given = self.held(), saved["model"]
        check_frozen(self._frozen, saved)
        if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in given.items()}:
            odd = min(set(own) ^ set(given), default="a tensor of another shape")
            raise StateError(f"a checkpoint of another model: it and this model do not both have {odd}")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(given[name])

    def state(self) -> dict[str, Any]:
        """Collect what a checkpoint holds."""
        return {**super().state(), "frozen": self._frozen}

    def forward(self, inputs: Sequence[NDArray[Any]], *, training: bool) -> Any:
        """Run the branch on a batch of its feeds."""
        if self._branch is None:
            return super().forward(inputs, training=training)
        tensors = [
            self._tensor(array) if name in self._inputs else self._branch.traced.lent(name, array)
            for name, array in zip(self._branch.feeds, inputs, strict=True)
        ]
        module = self._branch.training if training else self._branch.inference
        return module.forward(*tensors)
