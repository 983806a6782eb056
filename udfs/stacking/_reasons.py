"""Reasons why sessions train one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.handlers import framework_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.training import Session

__all__ = ["stack_key", "unstackable_reason"]

# A network with three layers of 256 units has half of this.
_LARGEST_BYTES = 2**20


def unstackable_reason(sessions: Sequence[Session]) -> str | None:
    """Return the reason why sessions cannot train as a stack; ``None`` if they can.

    A stack has at least two sessions of torch, of one architecture: equal modules, shapes, losses, batch sizes and
    optimizers (SGD, Adam or AdamW), which may differ in learning rate, momentum, decay and schedule.

    Parameters
    ----------
    sessions : sequence of Session
        Sessions of several configurations, or of several groups of rows.

    Examples
    --------
    >>> import torch
    >>> from udfs.handlers import ModelTrainer, open_session
    >>> def trainer_fn(params):
    ...     net = torch.nn.Linear(3, params["outputs"])
    ...     optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    ...     return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.MSELoss())
    >>> configurations = [{"outputs": 1, "lr": 0.1}, {"outputs": 1, "lr": 0.2}, {"outputs": 2, "lr": 0.1}]
    >>> sessions = [open_session(trainer_fn, params, 0) for params in configurations]
    >>> unstackable_reason(sessions[:2])
    >>> print(unstackable_reason(sessions[1:]))
    the architectures differ: weight (1, 3) float32 trainable and weight (2, 3) float32 trainable
    """
    if len(sessions) < 2:
        return "a stack has at least 2 models"
    for session in sessions:
        reason = _reason(session)
        if reason is not None:
            return reason
    from udfs.stacking.torch import first_difference  # a large package

    for session in sessions[1:]:
        difference = first_difference(sessions[0], session)  # type: ignore[arg-type] # sessions of torch
        if difference is not None:
            return f"the architectures differ: {difference}"
    return None


def stack_key(session: Session) -> tuple[str, str]:
    """Return the key of a session's architecture, and the reason why no stack takes it; one of the two is ``""``.

    Sessions of equal keys can train as a stack. Those with more than 1 MiB of weights get no key: their steps keep a
    core busy, and a search schedules them better one by one.

    Examples
    --------
    >>> import torch
    >>> from udfs.handlers import ModelTrainer, open_session
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.Adadelta(net.parameters())
    >>> session = open_session(lambda _: ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.MSELoss()), {}, 0)
    >>> stack_key(session)
    ('', 'optimizer must be one of SGD, Adam, AdamW, got Adadelta')
    """
    reason = _reason(session)
    if reason is None and session.weight_bytes > _LARGEST_BYTES:
        reason = f"{session.weight_bytes:,} bytes of weights are more than {_LARGEST_BYTES:,}"
    if reason is not None:
        return "", reason
    from udfs.stacking.torch import architecture_key  # a large package

    return architecture_key(session), ""  # type: ignore[arg-type] # a session of torch


def _reason(session: Session) -> str | None:
    backend = framework_of(session.model)
    if backend is None or backend.name != "torch":
        return f"models of {'no framework' if backend is None else backend.name} train one by one"
    from udfs.stacking.torch import unstackable_session  # a large package

    return unstackable_session(session)
