"""Side effects of the nodes of a graph: random numbers, writes to buffers, and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Effects", "NodeEffects"]

# Arguments with which an operation that may draw does not.
_RATES = ("dropout_p", "dropout")
_FLAGS = ("training", "train")


@dataclass(frozen=True)
class NodeEffects:
    """Side effects of operations.

    ``draws`` tells that one took random numbers, ``moves`` that one wrote to a buffer, as batch norm does to its
    statistics. ``made_bytes`` are those of all tensors that they made; views are none.
    """

    draws: bool = False
    moves: bool = False
    made_bytes: int = 0


class Effects(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own is untyped
    """Watches the operations within a ``with`` block."""

    def __init__(self, buffers: Collection[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._held = buffers
        # Held until the end: an address that is free again would look like a tensor that is known.
        self._made: dict[int, torch.UntypedStorage] = {}
        self._draws = False
        self._moves = False

    @property
    def observed(self) -> NodeEffects:
        """Side effects so far."""
        return NodeEffects(self._draws, self._moves, sum(storage.nbytes() for storage in self._made.values()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and keep what it does."""
        del types
        returned = func(*args, **(kwargs or {}))
        named = _named(func, args, kwargs or {})
        self._draws |= _draws(func, named)
        self._moves |= _moves(func, named, self._held)
        inputs = {_key(value) for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)}
        for value in tree_leaves(returned):
            if isinstance(value, torch.Tensor) and _key(value) not in inputs:
                self._made.setdefault(_key(value), value.untyped_storage())
        return returned


def _key(value: torch.Tensor) -> int:
    key: int = value.untyped_storage()._cdata  # the one name that a storage has
    return key


def _named(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Name all arguments of an operation, those left out by their defaults."""
    arguments = func._schema.arguments
    defaults = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    return defaults | dict(zip((argument.name for argument in arguments), args, strict=False)) | kwargs


def _draws(func: Any, named: dict[str, Any]) -> bool:
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    return not any(named.get(flag) is False for flag in _FLAGS) and not any(named.get(rate) == 0 for rate in _RATES)


def _moves(func: Any, named: dict[str, Any], buffers: Collection[int]) -> bool:
    schema = func._schema
    # Batch norms write to their statistics without saying so.
    if "batch_norm" in schema.name and named.get("running_mean") is not None:
        return any(named.get(flag) is True for flag in _FLAGS)
    writes = (argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write)
    return any(id(named.get(name)) in buffers for name in writes)
