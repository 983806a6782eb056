"""Recomputation of activations in the backward pass (Chen et al., 2016), with the same bits as without it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from udfs.handlers._random import apply_random, take_random
from udfs.offloading.scratch import release
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Recomputation"]

_CONTAINERS = (nn.ModuleList, nn.Sequential)


class Recomputation:
    """Modules of a model whose activations are computed again.

    Random numbers and buffers are those of the forward pass while a module runs again, and afterwards those from
    before: dropout drops the same values, and batch norm moves its statistics once.

    Parameters
    ----------
    model : torch.nn.Module
        Model in training.
    names : sequence of str, optional
        Paths of the modules. Default: see :class:`udfs.offloading.DiskOffload`.

    Raises
    ------
    TrainerError
        A path names no module, or one within another.
    """

    def __init__(self, model: nn.Module, names: Sequence[str] | None = None) -> None:
        self.names = _checked(model, names) if names is not None else _blocks(model)
        modules = {name: model.get_submodule(name) for name in self.names}
        self._forwards = {name: (module, module.forward) for name, module in modules.items()}
        # Ids of the parameters that the backward pass has changed already.
        self.stepped: set[int] = set()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the modules of a forward pass so that they are computed again, for a block."""
        with ExitStack() as stack:
            for name, (module, forward) in self._forwards.items():
                stack.enter_context(_replaced(module, self._recomputed(name, module, forward)))
            yield

    def _recomputed(self, name: str, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled():
                again = _Again(name, module, self.stepped)
                contexts = (again.first(), again.second())
                output = checkpoint(
                    forward, *args, use_reentrant=False, preserve_rng_state=False, context_fn=lambda: contexts, **kwargs
                )
            else:
                output = forward(*args, **kwargs)
            release(module.parameters())
            return output

        return run


class _Again:
    """State that a module's forward pass starts from."""

    def __init__(self, name: str, module: nn.Module, stepped: set[int]) -> None:
        self._name, self._module, self._stepped = name, module, stepped
        self._random: Any = None
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []

    @contextmanager
    def first(self) -> Iterator[None]:
        """Keep the random numbers before the forward pass, and those buffers that it changes."""
        self._random = take_random()
        before = [(buffer, buffer.clone()) for buffer in self._module.buffers()]
        yield
        # Batch norm does not count its changes in the version of a tensor.
        self._buffers = [(buffer, value) for buffer, value in before if not torch.equal(buffer, value)]

    @contextmanager
    def second(self) -> Iterator[None]:
        """Start from them once more, and leave both as they are now."""
        if any(id(parameter) in self._stepped for parameter in self._module.parameters()):
            raise TrainerError(
                f"recompute must leave out modules that read a parameter without learning it, got {self._name!r}. "
                "Name the modules to compute again in DiskOffload(recompute=[...])"
            )
        random, now = take_random(), [(buffer, buffer.clone()) for buffer, _ in self._buffers]
        _copy(self._buffers)
        apply_random(self._random)
        try:
            yield
        finally:
            apply_random(random)
            _copy(now)


def _copy(values: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for buffer, value in values:
            buffer.copy_(value)


@contextmanager
def _replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Set the forward method of an instance for a block."""
    before = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before


def _blocks(model: nn.Module) -> list[str]:
    """Find the members of the outermost containers that are more than one operation."""
    names: list[str] = []
    waiting = [("", model)]
    while waiting:
        path, module = waiting.pop(0)
        for name, child in module.named_children():
            place = f"{path}.{name}" if path else name
            nested = type(child) in _CONTAINERS and any(map(_has_parts, child.children()))
            if type(module) not in _CONTAINERS or nested:
                waiting.append((place, child))
            elif _has_parts(child):
                names.append(place)
    return names


def _has_parts(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


def _checked(model: nn.Module, names: Sequence[str]) -> list[str]:
    known = dict(model.named_modules())
    for name in names:
        if not name or name not in known:
            raise TrainerError(
                f"recompute must name modules of the model, got {name!r}. model.named_modules() lists them"
            )
        outer = next((other for other in names if name.startswith(f"{other}.")), None)
        if outer is not None:
            raise TrainerError(
                f"recompute must name modules that are not within each other, got {outer!r} and {name!r}. Leave one out"
            )
    return list(dict.fromkeys(names))
