"""Freezing schedules of torch: in each phase, what lies at or below a module does not learn."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from udfs.training import TrainerError, frozen_up_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from udfs.training import Trainer

__all__ = ["Freezing"]


class Freezing:
    """The schedule of a trainer, and which of its parameters each phase freezes.

    Only parameters that learn as the user built the model are ever switched, and between two units all of them are as
    they were built. Raise TrainerError if a phase names no module of the model, or one of which nothing learns; or if
    the optimizer does not hold a parameter that a later phase could free.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._model, self._phases = trainer.model, trainer.freeze_until
        self._frozen: dict[str, frozenset[int]] = {}
        self._off = False
        if not self._phases:
            return
        self._learning = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        modules = dict(self._model.named_modules())
        for epoch, layer in self._phases.items():
            if layer is not None:
                _check_layer(modules, epoch, layer)
        optimized = {id(parameter) for group in trainer.optimizer.param_groups for parameter in group["params"]}
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad and id(parameter) not in optimized:
                raise TrainerError(
                    f"the optimizer does not hold {name}, which freeze_until would never free: build it from all "
                    "parameters that learn in any phase, or set requires_grad=False for those that never do"
                )

    def begin(self, epoch: int, evaluate: Callable[[], Any]) -> None:
        """Freeze what does not learn in an epoch.

        ``evaluate`` runs the model in inference mode on any records; it is called once for each layer, to see what lies
        below. Raise TrainerError if the model does not call the layer, or nothing is left that learns.
        """
        self.end()
        layer = frozen_up_to(self._phases, epoch)
        if layer is None:
            return
        if layer not in self._frozen:
            self._frozen[layer] = self._below(layer, evaluate)
        frozen = self._frozen[layer]
        if all(id(parameter) in frozen for parameter in self._learning):
            raise TrainerError(
                f"freeze_until leaves nothing that learns in epoch {epoch}: all that does lies at or below {layer!r}"
            )
        self._off = True
        for parameter in self._learning:
            parameter.requires_grad_(id(parameter) not in frozen)

    def end(self) -> None:
        """Unfreeze all parameters that were trainable when the model was built."""
        if self._off:
            for parameter in self._learning:
                parameter.requires_grad_()
        self._off = False

    def _below(self, layer: str, evaluate: Callable[[], Any]) -> frozenset[int]:
        """Find the parameters that a module's output depends on, and those that it has."""
        module = self._model.get_submodule(layer)
        returned: list[Any] = []
        hook = module.register_forward_hook(
            lambda _module, _inputs, output: returned.extend(pytree.tree_leaves(output))
        )
        # What the model draws in evaluation as well must not shift what training draws.
        devices = {parameter.device for parameter in self._model.parameters() if parameter.is_cuda}
        try:
            with torch.random.fork_rng(devices), torch.enable_grad():
                evaluate()
        finally:
            hook.remove()
        if not returned:
            raise TrainerError(f"freeze_until names {layer!r}, which the model never calls: nothing lies below it")
        tensors = [value for value in returned if isinstance(value, torch.Tensor)]
        return frozenset(id(parameter) for parameter in [*module.parameters(), *_leaves(tensors)])


def _leaves(tensors: list[torch.Tensor]) -> Iterator[Any]:
    """Walk back from tensors to the leaves that they were computed from."""
    waiting: list[Any] = [tensor.grad_fn for tensor in tensors]
    seen: set[Any] = {None}
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable
        waiting.extend(below for below, _ in node.next_functions)


def _check_layer(modules: dict[str, torch.nn.Module], epoch: int, layer: str) -> None:
    if layer not in modules:
        close = difflib.get_close_matches(layer, [name for name in modules if name], n=3, cutoff=0.4)
        meant = f": do you mean {', '.join(map(repr, close))}?" if close else "; model.named_modules() lists them"
        raise TrainerError(f"freeze_until[{epoch}]: the model has no module {layer!r}{meant}")
    parameters = list(modules[layer].parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        raise TrainerError(
            f"freeze_until[{epoch}]: {layer!r} does not learn as the model is built, so no phase can free it. The "
            "schedule freezes: leave requires_grad=True for all that learns in any phase, and give it to the optimizer"
        )
