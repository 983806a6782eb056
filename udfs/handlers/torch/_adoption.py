"""Adoption: a trainer of torch goes on from another one's state, with hyperparameters of its own."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from udfs.handlers._inheritance import inherited_weights
from udfs.handlers.torch._steppers import follows_metric
from udfs.packing import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.training import Trainer

__all__ = ["adopt_state", "adopt_weights", "inherit_weights", "used_slots"]

# Attributes with the progress of a scheduler that follows a metric.
_PROGRESS = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")


def adopt_state(
    trainer: Trainer, saved: Mapping[str, Any], tensors: Mapping[str, Any], load: Callable[[Mapping[str, Any]], None]
) -> None:
    """Take over tensors, the optimizer's slots and step counts; every hyperparameter stays the trainer's.

    Everything is compared before anything is taken over. Raise StateError, with the name of the tensor, if it has other
    tensors, tensors of other shapes, another optimizer, or lacks a slot.
    """
    optimizer, model = trainer.optimizer, trainer.model
    _check_tensors(tensors, saved["model"])
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    grouped = [[names[id(parameter)] for parameter in group["params"]] for group in optimizer.param_groups]
    slots = _slots(optimizer, grouped, saved)
    follows = follows_metric(trainer.scheduler)
    steps = 0 if trainer.scheduler is None or follows else _steps(saved["scheduler"])
    load(saved)
    # Its own groups, for load_state_dict replaces all of their hyperparameters.
    optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})
    if follows:
        # Adopt its progress only: factor and patience are those of the new trainer.
        vars(trainer.scheduler).update(
            {name: saved["scheduler"][name] for name in _PROGRESS if name in saved["scheduler"]}
        )
    # Its steps once more, from its own base rates: a scheduler's rates are products of all that went before.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
        for _ in range(steps):
            trainer.scheduler.step()


def adopt_weights(
    trainer: Trainer, saved: Mapping[str, Any], tensors: Mapping[str, Any], load: Callable[[Mapping[str, Any]], None]
) -> None:
    """Take over what learns and the buffers; frozen parameters, the optimizer and the schedule stay the trainer's.

    Raise StateError, with the name of the first tensor, if it has other tensors, or tensors of other shapes.
    """
    _check_tensors(tensors, saved["model"])
    # Of a model that could not be opened, a checkpoint has the frozen parameters too.
    frozen = {name: value for name, value in trainer.model.named_parameters() if not value.requires_grad}
    load({**saved, "model": {**saved["model"], **{name: frozen[name].detach() for name in tensors if name in frozen}}})


def inherit_weights(
    trainer: Trainer, saved: Mapping[str, Any], tensors: Mapping[str, Any], load: Callable[[Mapping[str, Any]], None]
) -> str:
    """Take over the weights and buffers that fit; frozen parameters, the optimizer and the schedule stay the trainer's.

    Return how many there are; see :func:`udfs.handlers._inheritance.inherited_weights`.
    """
    frozen = {name for name, value in trainer.model.named_parameters() if not value.requires_grad}
    initial, source = (
        {
            name: _as_numpy(value)
            for name, value in each.items()
            if isinstance(value, torch.Tensor) and name not in frozen
        }
        for each in (tensors, saved["model"])
    )
    weights, summary = inherited_weights(initial, source)
    inherited = {name: torch.from_numpy(value).to(tensors[name].dtype) for name, value in weights.items()}
    load({**saved, "model": {**tensors, **inherited}})
    return summary


def _as_numpy(tensor: torch.Tensor) -> NDArray[np.generic]:
    # numpy has no bfloat16, whose values float32 represents exactly.
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _check_tensors(tensors: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    for name, value in tensors.items():
        if name not in saved:
            raise StateError(f"the source has no tensor {name}, which the new model has")
        if isinstance(value, torch.Tensor) and value.shape != saved[name].shape:
            raise StateError(
                f"the tensor {name} is {tuple(saved[name].shape)} in the source and {tuple(value.shape)} in the new "
                "model: a hyperparameter that shapes the network cannot change in a clone"
            )
    for name in saved:
        if name not in tensors:
            raise StateError(f"the source has a tensor {name}, which the new model has not")


def _slots(optimizer: Any, names: Sequence[Sequence[str]], saved: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Choose the source's slots that the new optimizer uses, by the place of each parameter."""
    kind = type(optimizer).__name__
    if saved.get("optimizer_class", kind) != kind:
        raise StateError(f"the optimizer is {saved['optimizer_class']} in the source and {kind} in the new trainer")
    groups = saved["optimizer"]["param_groups"]
    if [len(group["params"]) for group in groups] != [len(group) for group in names]:
        counts = [len(group["params"]) for group in groups]
        raise StateError(
            f"the optimizer's groups have {counts} parameters in the source and {[len(group) for group in names]} in "
            f"the new trainer, from {names[0][0]} on"
        )
    places = dict(enumerate(name for group in names for name in group))
    used = {place: set(slots) for place, slots in used_slots(optimizer).items()}
    chosen: dict[int, dict[str, Any]] = {}
    for place, slots in saved["optimizer"]["state"].items():
        # Slots of a source without any begin as they do in a new optimizer.
        missing = sorted(used.get(place, set()) - slots.keys()) if slots else []
        if missing:
            raise StateError(
                f"the source's {kind} has no {missing[0]} of {places[place]}, which the new one's hyperparameters need"
            )
        wanted = used.get(place, slots.keys())
        chosen[place] = {name: value for name, value in slots.items() if name in wanted}
    return chosen


def used_slots(optimizer: Any) -> dict[int, dict[str, Any]]:
    """Find which slots the optimizer makes for each parameter: by a step of its copy, on one element each."""
    stand_ins: dict[int, Any] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            stand_in = torch.nn.Parameter(torch.zeros((1,) * parameter.dim(), dtype=parameter.dtype))
            stand_in.grad = torch.zeros_like(stand_in)
            stand_ins[id(parameter)] = stand_in
    # An optimizer of the user's that cannot be tried like this finds out in its first step.
    with suppress(Exception):
        tried = copy.deepcopy(optimizer, dict(stand_ins))
        tried.step()
        return {place: dict(tried.state.get(stand_in, {})) for place, stand_in in enumerate(stand_ins.values())}
    return {}


def _steps(saved: Mapping[str, Any] | None) -> int:
    """Count the steps of a scheduler's state."""
    if saved is None:
        return 0
    while "last_epoch" not in saved and saved.get("_schedulers"):
        saved = saved["_schedulers"][0]
    if "last_epoch" not in saved:
        raise StateError("the source's scheduler has no last_epoch, so its steps are not known")
    return int(saved["last_epoch"])
