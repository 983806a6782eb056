"""Adoption: a model of Keras goes on from another one's state, with hyperparameters of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.handlers._inheritance import inherited_weights
from udfs.handlers.keras._modes import is_frozen
from udfs.handlers.keras._variable_names import variable_names
from udfs.packing import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["adopt_state", "adopt_weights", "inherit_weights", "rate_places"]

_RATE = "learning_rate"


def rate_places(optimizer: Any) -> list[int]:
    """Find the learning rate among an optimizer's variables; a schedule's is none of them."""
    return [place for place, variable in enumerate(optimizer.variables) if variable.name == _RATE]


def adopt_state(model: Any, variables: Sequence[Any], saved: Mapping[str, Any]) -> None:
    """Take over weights, buffers, the optimizer's slots and its steps; rate and seed generators stay the model's own.

    Everything is compared before anything is taken over. Raise StateError, with the name of the variable, if it has
    variables of other shapes, or another optimizer.
    """
    optimizer = model.optimizer
    kind = type(optimizer).__name__
    if saved.get("optimizer_class", kind) != kind:
        raise StateError(f"the optimizer is {saved['optimizer_class']} in the source and {kind} in the new trainer")
    own_rates, rates = rate_places(optimizer), saved.get("rates", rate_places(optimizer))
    slots = [variable for place, variable in enumerate(optimizer.variables) if place not in own_rates]
    kept = [value for place, value in enumerate(saved["optimizer"]) if place not in rates]
    _check(variables, saved["model"], "model")
    _check(slots, kept, "optimizer")
    _assign(variables, saved["model"], {id(variable) for variable in model.weights})
    for variable, value in zip(slots, kept, strict=True):
        variable.assign(value)


def adopt_weights(model: Any, variables: Sequence[Any], saved: Mapping[str, Any]) -> None:
    """Take over the weights and buffers of layers that learn; those of frozen layers and the optimizer stay its own.

    Raise StateError, with the name of the first variable, if it has variables of other shapes.
    """
    _check(variables, saved["model"], "model")
    _assign(variables, saved["model"], _learned(model))


def inherit_weights(model: Any, variables: Sequence[Any], saved: Mapping[str, Any]) -> str:
    """Take over the weights and buffers that fit; those of frozen layers and the optimizer stay the model's own.

    Return how many there are; see :func:`udfs.handlers._inheritance.inherited_weights`.
    """
    learned = _learned(model)
    named = dict(zip(variable_names(model, variables), variables, strict=True))
    named = {name: variable for name, variable in named.items() if id(variable) in learned}
    source = dict(zip(saved["names"], saved["model"], strict=True))
    weights, summary = inherited_weights({name: variable.numpy() for name, variable in named.items()}, source)
    for name, value in weights.items():
        named[name].assign(value)
    return summary


def _learned(model: Any) -> set[int]:
    """Return the ids of the weights and buffers of layers that learn."""
    frozen = {id(variable) for layer in model._flatten_layers() if is_frozen(layer) for variable in layer.weights}
    return {id(variable) for variable in model.weights} - frozen


def _assign(variables: Sequence[Any], values: Sequence[Any], weights: set[int]) -> None:
    """Assign weights and buffers, without the states of metrics and of the seed generators that dropout draws from."""
    for variable, value in zip(variables, values, strict=True):
        if id(variable) in weights:
            variable.assign(value)


def _check(variables: Sequence[Any], values: Sequence[Any], kind: str) -> None:
    for variable, value in zip(variables, values, strict=False):
        if tuple(variable.shape) != np.shape(value):
            raise StateError(
                f"the variable {variable.path} of the new {kind} is {tuple(variable.shape)}, and that of the source in "
                f"its place is {np.shape(value)}: a hyperparameter that shapes the network cannot change in a clone"
            )
    if len(variables) > len(values):
        raise StateError(f"the source's {kind} has no variable in the place of {variables[len(values)].path}")
    if len(values) > len(variables):
        more = len(values) - len(variables)
        raise StateError(
            f"the source's {kind} has {more} variables more than the new one's {len(variables)}; the first of them is "
            f"{np.shape(values[len(variables)])}"
        )
