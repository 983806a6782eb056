"""Architecture of a session: everything in which sessions of a stack have to agree, as lines of text."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch

from udfs.handlers.torch import TorchSession, describe_module, describe_value
from udfs.stacking.torch._optimizers import RULES, flags
from udfs.training import view_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["architecture", "architecture_key", "first_difference", "unstackable_session"]

# Keys of open sessions: describing a network takes as long as some of its steps.
_KEYS: WeakKeyDictionary[TorchSession, str] = WeakKeyDictionary()


def unstackable_session(session: object) -> str | None:
    """Return the reason why a session cannot be in any stack; ``None`` if it can."""
    if type(session) is not TorchSession:
        return f"a {type(session).__name__} trains one by one"
    trainer = session.trainer
    if type(trainer.optimizer) not in RULES:
        names = ", ".join(known.__name__ for known in RULES)
        return f"optimizer must be one of {names}, got {type(trainer.optimizer).__name__}"
    groups = trainer.optimizer.param_groups
    if type(trainer.optimizer) is torch.optim.AdamW and "decoupled_weight_decay" not in groups[0]:
        return f"AdamW of torch {torch.__version__} trains one by one"  # its groups do not say how weights decay
    learned = [each for group in groups for each in group["params"] if each.requires_grad]
    reasons = {
        "freeze_until must be empty: each configuration freezes layers by itself": bool(trainer.freeze_until),
        "the network keeps state in attributes of its modules": session.has_attribute_state,
        "no parameter requires a gradient": not learned,
        "the parameters must have one floating-point type and one device": len(
            {(each.dtype, each.device) for each in learned}
        )
        > 1
        or any(each.is_complex() for each in learned),
        "a hook on a parameter changes its gradient": any(
            each._backward_hooks  # noqa: SLF001 - has no reader
            for each in learned
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def architecture(session: TorchSession) -> list[str]:
    """Describe what all sessions of a stack have in common, in the same words in every process."""
    return list(_lines(session))


def architecture_key(session: TorchSession) -> str:
    """Hash an architecture."""
    if session not in _KEYS:
        _KEYS[session] = hashlib.blake2b("\n".join(architecture(session)).encode(), digest_size=8).hexdigest()
    return _KEYS[session]


def first_difference(first: TorchSession, other: TorchSession) -> str | None:
    """Describe the first difference between two architectures; ``None`` if there is none."""
    if architecture_key(first) == architecture_key(other):
        return None
    lines, others = architecture(first), architecture(other)
    for mine, theirs in zip(lines, others, strict=False):
        if mine != theirs:
            return f"{_short(mine)} and {_short(theirs)}"
    return None if len(lines) == len(others) else f"{len(lines)} and {len(others)} parts"


def _lines(session: TorchSession) -> Iterator[str]:
    trainer = session.trainer
    yield f"batch_size={trainer.batch_size}, drop_last={trainer.drop_last}"
    yield f"view={view_of(session)!r}"
    yield f"device={session.device}, threads={torch.get_num_threads()}"
    names = {id(parameter): name for name, parameter in session.model.named_parameters()}
    tensors = {**dict(session.model.named_parameters()), **dict(session.model.named_buffers())}
    for name, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        yield f"{name} {tuple(tensor.shape)} {dtype} {'trainable' if tensor.requires_grad else 'constant'}"
    for number, group in enumerate(trainer.optimizer.param_groups):
        members = ", ".join(names[id(parameter)] for parameter in group["params"])
        yield f"optimizer={type(trainer.optimizer).__name__}, group {number}: {flags(group)} of {members}"
    yield from describe_module(session.model)
    for loss in session.losses:
        described = describe_module(loss) if isinstance(loss, torch.nn.Module) else [describe_value(loss)]
        yield f"loss={' '.join(described)}"
        if isinstance(loss, torch.nn.Module):
            yield f"tensors of the loss={describe_value(list(loss.state_dict().values()))}"


def _short(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:117]}..."
