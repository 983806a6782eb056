"""Hooks around a module's forward pass, and weights that a hook or a parametrization computes."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from udfs.handlers.torch._user_code import is_of_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["bake", "has_global_hooks", "has_hooks", "leave_parametrizations", "same_attributes"]


def has_global_hooks() -> bool:
    """Return whether torch calls a hook around every module of this process."""
    return bool(torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks)


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling a module does more than its class's ``forward``: a hook, or a ``forward`` of its own."""
    registered = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)  # no reader
    return bool(registered) or has_global_hooks()


@contextmanager
def same_attributes(model: nn.Module) -> Iterator[None]:
    """Restore the attributes of modules with hooks or a user's code after a block, such as a spectral norm's weight."""
    before = [
        (attributes, dict(attributes))
        for inner in model.modules()
        if has_hooks(inner) or is_of_user(inner)
        for attributes in (vars(inner), inner._parameters, inner._buffers)
    ]
    try:
        yield
    finally:
        for attributes, saved in before:
            attributes.clear()
            attributes.update(saved)


def bake(model: nn.Module, modules: Iterable[nn.Module] | None = None) -> None:
    """Fix the weights of modules that compute them: weight norms, spectral norms, pruning and others.

    The model is in inference mode, and a copy: it loses hooks and parametrizations, in ``modules`` or by default in all
    modules.
    """
    for inner in list(model.modules() if modules is None else modules):
        for key, hook in list(inner._forward_pre_hooks.items()):
            weight = _weight(inner, hook)
            if weight is not None:
                del inner._forward_pre_hooks[key]
                _put(inner, *weight)
        if parametrize.is_parametrized(inner):
            _leave_parametrized(inner)


def leave_parametrizations(model: nn.Module) -> None:
    """Fix the weights that parametrizations compute; the model is in inference mode, and a copy."""
    for inner in list(model.modules()):
        if parametrize.is_parametrized(inner):
            _leave_parametrized(inner)


def _leave_parametrized(inner: nn.Module) -> None:
    """Copy a module as torch does, except for the class, which the module shares with its copy."""
    trained = any(parameter.requires_grad for parameter in inner.parametrizations.parameters())  # type: ignore[union-attr]
    with torch.no_grad():
        values = {name: getattr(inner, name).detach().clone() for name in inner.parametrizations}  # type: ignore[union-attr]
    inner.__class__ = type(inner).__bases__[0]
    del inner.parametrizations
    for name, value in values.items():
        inner.register_parameter(name, nn.Parameter(value, requires_grad=trained and value.is_floating_point()))


def _weight(inner: nn.Module, hook: Any) -> tuple[str, torch.Tensor, tuple[str, ...]] | None:
    """Compute a weight as a hook does: its name, its value, and the names of what it is computed from."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the older form of two that are both in use
        if isinstance(hook, WeightNorm):
            return hook.name, hook.compute_weight(inner), (f"{hook.name}_g", f"{hook.name}_v")
        if isinstance(hook, SpectralNorm):
            value = hook.compute_weight(inner, do_power_iteration=False)
            return hook.name, value, tuple(f"{hook.name}_{part}" for part in ("orig", "u", "v"))
        if isinstance(hook, BasePruningMethod):
            name = hook._tensor_name
            masked: torch.Tensor = hook.apply_mask(inner)  # type: ignore[no-untyped-call]
            return name, masked, (f"{name}_orig", f"{name}_mask")
    return None


def _put(inner: nn.Module, name: str, value: torch.Tensor, parts: tuple[str, ...]) -> None:
    trained = any(part.requires_grad for key, part in inner.named_parameters(recurse=False) if key in parts)
    for part in (*parts, name):
        if hasattr(inner, part):
            delattr(inner, part)
    inner.register_parameter(name, nn.Parameter(value.detach().clone(), requires_grad=trained))
