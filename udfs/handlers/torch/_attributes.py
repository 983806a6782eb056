"""State of modules beside their state dict: plain attributes, generators and buffers that training changes."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.fx
from torch import nn

from udfs.handlers.torch._user_code import MODULE_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Attributes"]

# Attributes that every optimizer has; those of modules are MODULE_ATTRIBUTES.
_OPTIMIZER_ATTRIBUTES = frozenset(("defaults", "state", "param_groups"))

_MISSING = object()
_GENERATORS = (torch.Generator, np.random.Generator, random.Random)


class Attributes:
    """Attributes of a model's modules, of modules among its losses, and of its optimizer, as data.

    Only those that differ from their values when the model was built are in a checkpoint.
    """

    def __init__(self, model: nn.Module, losses: list[Any], optimizer: Any) -> None:
        self._owners: dict[str, Any] = {f"model.{path}": module for path, module in model.named_modules()}
        for place, loss in enumerate(losses):
            if isinstance(loss, nn.Module):
                self._owners |= {f"loss.{place}.{path}": module for path, module in loss.named_modules()}
        self._owners["optimizer"] = optimizer
        self._first = self._taken()

    def state(self) -> dict[str, Any]:
        """Return the changed attributes by owner and name: a list of the value, or an empty one if it was deleted."""
        now = self._taken()
        changed: dict[str, Any] = {}
        for place, value in now.items():
            if not _same(value, self._first.get(place, _MISSING)):
                changed.setdefault(place[0], {})[place[1]] = [value]
        for owner, name in self._first.keys() - now.keys():
            changed.setdefault(owner, {})[name] = []
        return changed

    def load(self, saved: Mapping[str, Any]) -> None:
        """Set all attributes to their values in a checkpoint, as :meth:`state` returned them."""
        wanted = dict(self._first)
        for owner, values in saved.items():
            for name, content in values.items():
                if content:
                    wanted[owner, name] = content[0]
                else:
                    wanted.pop((owner, name), None)
        now = self._taken()
        for owner, name in now.keys() - wanted.keys():
            self._owners[owner].__dict__.pop(name, None)
        for (owner, name), value in wanted.items():
            if not _same(value, now.get((owner, name), _MISSING)):
                _put(self._owners[owner], name, value)

    def marks(self) -> dict[str, bytes]:
        """Pickle each attribute that is not plain data, by its place: the bytes change with the attribute."""
        marks = {}
        for owner, name, value in self._attributes():
            if _is_plain(value) or isinstance(value, _GENERATORS) or _is_code(value):
                continue
            with suppress(Exception), warnings.catch_warnings():  # its changes cannot be seen
                warnings.simplefilter("ignore")
                marks[f"{owner}.{name}".replace("..", ".")] = pickle.dumps(value)
        return marks

    def _taken(self) -> dict[tuple[str, str], Any]:
        snapshot = {}
        for owner, name, value in self._attributes():
            if isinstance(value, _GENERATORS):
                snapshot[owner, name] = _generator_state(value)
            elif _is_plain(value):
                snapshot[owner, name] = _copied(value)
        return snapshot

    def _attributes(self) -> Iterator[tuple[str, str, Any]]:
        for owner, holder in self._owners.items():
            if isinstance(holder, nn.Module):
                skipped = MODULE_ATTRIBUTES
                # No checkpoint has the state dict of a loss.
                kept = None if owner.startswith("loss.") else holder._non_persistent_buffers_set
                for name, buffer in holder._buffers.items():
                    if buffer is not None and (kept is None or name in kept):
                        yield owner, name, buffer
            else:
                skipped = _OPTIMIZER_ATTRIBUTES
            for name, value in vars(holder).items():
                # Underscored ones of an optimizer are torch's.
                if name not in skipped and not (skipped is _OPTIMIZER_ATTRIBUTES and name.startswith("_")):
                    yield owner, name, value


def _put(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, nn.Module) and name in owner._buffers:
        with torch.no_grad():
            owner._buffers[name] = value.to(owner._buffers[name].device)  # type: ignore[union-attr] # it is not None
        return
    current = vars(owner).get(name)
    if isinstance(current, torch.Generator):
        current.set_state(value)
    elif isinstance(current, np.random.Generator):
        current.bit_generator.state = value
    elif isinstance(current, random.Random):
        version, numbers, gauss = value
        current.setstate((version, tuple(numbers), gauss))
    elif isinstance(current, list) and isinstance(value, list):
        current[:] = _copied(value)  # another module may hold the same list
    else:
        vars(owner)[name] = _copied(value)


def _generator_state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    return copy.deepcopy(generator.bit_generator.state) if hasattr(generator, "bit_generator") else generator.getstate()


def _is_plain(value: Any) -> bool:
    """Return whether a value is data that a checkpoint takes: numbers, texts, tensors, and containers of these."""
    if isinstance(value, (list, tuple)):
        return type(value) in {list, tuple} and all(map(_is_plain, value))
    if isinstance(value, dict):
        return type(value) is dict and all(
            isinstance(key, (str, int)) and _is_plain(inner) for key, inner in value.items()
        )
    if isinstance(value, torch.Tensor):
        # A tensor with a history was cached by a forward pass: it is not the model's state.
        return not isinstance(value, nn.Parameter) and value.grad_fn is None and not value.is_meta
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return value is None or type(value) in {bool, int, float, str}


def _is_code(value: Any) -> bool:
    # The pickle of a traced module's graph has the module's weights and mode, which training changes. An LSTM lists
    # its parameters.
    if type(value) in {list, tuple} and value:
        return all(map(_is_code, value))
    kinds = (nn.Module, nn.Parameter, torch.Tensor, torch.dtype, torch.device, torch.fx.Graph)
    return callable(value) or isinstance(value, kinds)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def _same(first: Any, other: Any) -> bool:
    if type(first) is not type(other):
        return False
    if isinstance(first, torch.Tensor):
        return first.dtype == other.dtype and first.device == other.device and torch.equal(first, other)
    if isinstance(first, np.ndarray):
        return bool(first.dtype == other.dtype and np.array_equal(first, other, equal_nan=first.dtype.kind == "f"))
    if isinstance(first, (list, tuple)):
        return len(first) == len(other) and all(map(_same, first, other))
    if isinstance(first, dict):
        return first.keys() == other.keys() and all(_same(inner, other[key]) for key, inner in first.items())
    return bool(first == other) or (first != first and other != other)
