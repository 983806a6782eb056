"""Losses of torch: their properties that decide the task, and the labels that they take."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from udfs.handlers._random import apply_random, take_random
from udfs.training import TORCH_LOSSES, LossFacts, TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LabelForms", "Reading", "class_numbers", "loss_facts", "network_ending"]

# Rows of a trial of a loss: the first number that is not among the sizes of a row's tensors.
_ROWS = (5, 7, 11, 13)

# Class that losses of torch leave out by default.
_IGNORED = -100

_ENDINGS = {
    "SigmoidBackward0": "sigmoid",
    "SoftmaxBackward0": "softmax",
    "LogSoftmaxBackward0": "log-softmax",
    "LogSigmoidBackward0": "log-sigmoid",
    **dict.fromkeys(("AddmmBackward0", "MmBackward0", "BmmBackward0", "ConvolutionBackward0"), "linear"),
}
# Operations that only change shape or type.
_SHAPING = (
    *("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Select", "Slice", "Transpose", "T", "Permute"),
    *("ToCopy", "Alias", "Clone", "Expand", "AsStrided"),
)


def loss_facts(loss: Any) -> LossFacts:
    """Return the properties of a loss: a module, a function of ``torch.nn.functional``, or a partial of one."""
    keywords: dict[str, Any] = {}
    while isinstance(loss, partial):
        keywords = dict(loss.keywords) | keywords
        loss = loss.func
    if isinstance(loss, torch.nn.Module):
        names = [each.__name__ for each in type(loss).__mro__ if each.__module__.startswith("torch.nn.")]
        known = next((TORCH_LOSSES[name] for name in names if name in TORCH_LOSSES), None)
        log_input, ignored = getattr(loss, "log_input", True), getattr(loss, "ignore_index", None)
    else:
        name = getattr(loss, "__name__", "")
        known = TORCH_LOSSES.get(name) if getattr(functional, name, None) is loss else None
        log_input = keywords.get("log_input", True)
        ignored = keywords.get("ignore_index", _IGNORED) if name in {"cross_entropy", "nll_loss"} else None
    if known is None:
        return LossFacts(str(getattr(loss, "__name__", type(loss).__name__)))
    known = replace(known, ignored=ignored)
    return replace(known, outputs="values") if known.outputs == "log-values" and not log_input else known


def network_ending(output: torch.Tensor) -> Any:
    """Find the last operation that made an output with gradients, through changes of shape."""
    node: Any = output.grad_fn
    while node is not None:
        name = node.name()
        if name in _ENDINGS:
            return _ENDINGS[name]
        if name.rstrip("0123456789").removesuffix("Backward") not in _SHAPING:
            return "unknown"
        node = node.next_functions[0][0]
    return "unknown"


def class_numbers(label: torch.Tensor) -> torch.Tensor:
    """Convert class numbers to integers; they may be floats, for example from StringIndexer."""
    whole = label.long()
    if label.is_floating_point() and not torch.equal(whole.to(label.dtype), label):
        odd = float(label[whole.to(label.dtype) != label][0])
        raise TrainerError(f"the label {odd:g} is no number of a class: a loss of classes takes 0, 1, 2, ...")
    return whole


class LabelForms:
    """Conversion of labels to the shape and type that a loss takes.

    Losses of torch have known forms. A loss that the user wrote is tried on a few rows, with labels as they are, in the
    outputs' shape and type, in their type alone, and as integers. The first form is chosen with which the loss neither
    fails nor compares each output with the labels of all rows.
    """

    def __init__(self) -> None:
        self._chosen: dict[int, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {}

    def __call__(self, loss: Any, output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """Convert a batch's labels for a loss; the first batch of a user's loss chooses the form."""
        family = loss_facts(loss).family
        if family == "classes":
            return label if label.is_floating_point() and label.shape == output.shape else class_numbers(label)
        if family in {"pairs", "values"}:
            return _shaped(output, label)
        if id(loss) not in self._chosen:
            self._chosen[id(loss)] = _tried(loss, output, label)
        return self._chosen[id(loss)](output, label)


def _tried(
    loss: Any, output: torch.Tensor, label: torch.Tensor
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Choose the form of the labels for a loss that the user wrote."""
    several = output[:1].numel() > 1 and label[:1].numel() == 1
    if not isinstance(loss, torch.nn.Module):
        forms = [_raw, _shaped, _whole, _typed]
    elif several:
        forms = [_whole, _typed]
    else:
        forms = [_shaped, _raw, _typed, _whole]
    rows = next(number for number in _ROWS if number not in {*output.shape[1:], *label.shape[1:]})
    places = torch.arange(rows, device=label.device) % len(label)
    generator = torch.Generator().manual_seed(0)
    # Between 0 and 1, which losses of probabilities take too.
    numbers = torch.rand((rows, *output.shape[1:]), generator=generator) * 0.8 + 0.1
    outputs, labels = numbers.to(output.device, output.dtype), label[places]
    outcomes = [_outcome(loss, outputs, form, labels) for form in forms]
    for wanted in ("by rows", "by pairs"):
        if wanted in outcomes:
            return forms[outcomes.index(wanted)]
    return forms[0]


def _outcome(
    loss: Any,
    outputs: torch.Tensor,
    form: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    labels: torch.Tensor,
) -> str:
    """Return the outcome of a loss on labels of a form: ``"fails"``, ``"by pairs"`` of all rows, or ``"by rows"``."""
    before = take_random()
    # A loss may have a state that a call changes.
    tried = copy.deepcopy(loss) if isinstance(loss, torch.nn.Module) else loss
    mode = _Pairs(len(outputs))
    try:
        with torch.no_grad(), mode:
            tried(outputs, form(outputs, labels))
    except Exception:  # noqa: BLE001 - the user's loss may raise anything
        return "fails"
    finally:
        apply_random(before)
    return "by pairs" if mode.seen else "by rows"


class Reading(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types for it
    """Mode that records which tensors, or views of them, operations read."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # the same
        self._places = {tensor.untyped_storage().data_ptr(): place for place, tensor in enumerate(tensors)}
        self._read: set[int] = set()

    @property
    def unread(self) -> tuple[int, ...]:
        """Places of the tensors that nothing has read."""
        return tuple(place for place in self._places.values() if place not in self._read)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_flatten((args, kwargs or {}))[0]:
            if isinstance(value, torch.Tensor):
                self._read.add(self._places.get(value.untyped_storage().data_ptr(), -1))
        return func(*args, **(kwargs or {}))


class _Pairs(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types for it
    """Mode that records whether an operation returns a tensor with a number for each pair of rows."""

    def __init__(self, rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # the same
        self._rows = rows
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and list(result.shape).count(self._rows) > 1:
            self.seen = True
        return result


def _raw(_output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return label


def _shaped(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    fits = label.numel() == output.numel()
    return (label.reshape(output.shape) if fits else label).to(output.dtype)


def _typed(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return label.to(output.dtype)


def _whole(_output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return class_numbers(label)
