"""Modules that stay whole in an opened model, because their forward does what no tracer records."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from optimizer.errors import CerebroError, GraphError
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._comparison import OtherModelError
from udfs.handlers.torch._fx import unwrapped
from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._measure_reuse import UnknownError
from udfs.handlers.torch._program_reuse import model_key
from udfs.handlers.torch._python_state import python_state
from udfs.handlers.torch._tracer_errors import first_line
from udfs.handlers.torch._user_code import is_of_user

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence
    from typing import Protocol

    from udfs.handlers._adapted_trainer import Phase
    from udfs.tensors import TensorSpec

    class Attempt(Protocol):
        """Function that opens a model except for the modules at some paths; UntraceableModelError if it cannot."""

        def __call__(self, kept: Collection[str], *, compared: bool) -> Phase: ...


__all__ = ["open_as_it_trains"]

# Results by the key of models that differ in their weights only: paths of modules that stay whole with the strides of
# the layers that the branch reads, or the reason to open nothing.
_Strides = dict[str, tuple[int, ...] | None]
_RESULTS: dict[Hashable, tuple[frozenset[str], _Strides] | UntraceableModelError] = {}
_MOST = 1000

# A class of modules, and whether they have hooks.
_Kind = tuple[type, bool]


def open_as_it_trains(
    attempt: Attempt, model: nn.Module, inputs: Sequence[TensorSpec], learning: Collection[int]
) -> Phase:
    """Open a model into as many layers as train exactly as the model does.

    The first attempt opens all modules. If it fails, or the opened model trains otherwise, modules stay whole: at first
    all that the model's own forward calls; then the classes of modules are opened in turn, as long as the opened model
    trains like the user's. A model like an earlier one is not compared again.

    Parameters
    ----------
    attempt : callable
        Function that opens the model except for the modules at some paths.
    model : torch.nn.Module
        The user's model.
    inputs : sequence of TensorSpec
        Inputs of the model.
    learning : collection of int
        Ids of the parameters that learn.

    Raises
    ------
    UntraceableModelError
        The model's own forward cannot be opened, or none of its layers can be stored.
    """
    key = _key(model, inputs, learning)
    known = _RESULTS.get(key)
    if isinstance(known, UntraceableModelError):
        raise UntraceableModelError(str(known))
    attempt = _refusing(attempt, unwrapped(model))
    if known is not None:
        kept, strides = known
        phase = attempt(kept, compared=False)
        if phase.branch is not None:
            phase.branch.traced.set_strides(strides)
        return phase
    try:
        kept = frozenset[str]()
        phase = attempt(kept, compared=True)
    except UntraceableModelError as error:
        try:
            kept, phase = _search(attempt, unwrapped(model), error)
        except UntraceableModelError as reason:
            _remember(key, reason)
            raise
    inputs_of = phase.cut.graph.inputs
    below = () if phase.branch is None else [name for name in phase.branch.feeds if name not in inputs_of]
    _remember(key, (kept, phase.branch.traced.strides_of(below) if below else {}))
    return phase


def _refusing(attempt: Attempt, model: nn.Module) -> Attempt:
    """Wrap an attempt to raise UntraceableModelError for all errors of the user's forward pass and of torch."""

    def refusing(kept: Collection[str], *, compared: bool) -> Phase:
        try:
            return attempt(kept, compared=compared)
        except GraphError as error:
            raise UntraceableModelError(str(error)) from error
        except (CerebroError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise UntraceableModelError(
                f"opening {type(model).__name__} into layers ended in {first_line(error)}"
            ) from error

    return refusing


def _search(attempt: Attempt, model: nn.Module, error: UntraceableModelError) -> tuple[frozenset[str], Phase]:
    """Find the kinds of modules that have to stay whole; raise the reason if the model cannot be opened then either."""
    kinds = _kinds(model)
    reason = _reason(model, error)
    if not kinds:
        raise reason from error
    whole = set(kinds)
    kept = _outermost(model, whole)
    try:
        phase = attempt(kept, compared=True)
    except UntraceableModelError:
        raise reason from error
    for kind in kinds:
        fewer = _outermost(model, whole - {kind})
        if fewer == kept:
            whole.discard(kind)
            continue
        try:
            phase = attempt(fewer, compared=True)
        except UntraceableModelError:
            continue
        kept = fewer
        whole.discard(kind)
    if phase.branch is None:
        raise reason from error  # all that is frozen lies within the modules that stay whole
    return kept, phase


def _kinds(model: nn.Module) -> list[_Kind]:
    """List the kinds of modules that have code, the outermost first."""
    depths = Counter[_Kind]()
    for path, inner in model.named_modules():
        if path and _has_code(inner):
            depths.setdefault((type(inner), has_hooks(inner)), path.count("."))
    return sorted(depths, key=lambda kind: depths[kind])


def _has_code(inner: nn.Module) -> bool:
    """Return whether tracing a module follows its code, unlike that of torch's layers and containers."""
    if isinstance(inner, (nn.ModuleList, nn.ModuleDict)):
        return False
    return is_of_user(inner) or (isinstance(inner, nn.Sequential) and has_hooks(inner))


def _outermost(model: nn.Module, kinds: Collection[_Kind]) -> frozenset[str]:
    def paths(parent: nn.Module, prefix: str) -> Iterator[str]:
        for name, child in parent.named_children():
            if _has_code(child) and (type(child), has_hooks(child)) in kinds:
                yield f"{prefix}{name}"
            else:
                yield from paths(child, f"{prefix}{name}.")

    return frozenset(paths(model, ""))


def _reason(model: nn.Module, error: UntraceableModelError) -> UntraceableModelError:
    if not isinstance(error, OtherModelError):
        return error
    return UntraceableModelError(
        f"{type(model).__name__} trains differently if it is opened into layers ({error}): torch's tracers record no "
        "no_grad regions, torch.autograd.Function, tensor hooks, autocast or checkpointing, and no Python numbers that "
        "change in forward. Move what does this into a module of its own above the frozen layers"
    )


def _key(model: nn.Module, inputs: Sequence[TensorSpec], learning: Collection[int]) -> Any:
    """Make a key that models share whose weights alone differ; ``None`` for attributes that may change unseen."""
    try:
        alike = model_key(model, inputs)
    except UnknownError:
        return None
    learns = tuple(name for name, parameter in model.named_parameters() if id(parameter) in learning)
    return alike, learns, tuple(python_state(model).items())


def _remember(key: Any, result: tuple[frozenset[str], _Strides] | UntraceableModelError) -> None:
    if key is None:
        return
    if len(_RESULTS) >= _MOST:
        _RESULTS.clear()
    _RESULTS[key] = result
