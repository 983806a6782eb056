"""Reasons why workers cannot train a session together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.handlers import framework_of

if TYPE_CHECKING:
    from udfs.training import Session

__all__ = ["unshareable_reason"]


def unshareable_reason(session: Session) -> str | None:
    """Return the reason why workers cannot train a session together; ``None`` if they can.

    They can train sessions of torch whose loss is a mean over rows, as a :class:`udfs.handlers.ModelTrainer` has them.

    Parameters
    ----------
    session : Session
        Session of a configuration.

    Examples
    --------
    >>> import torch
    >>> from udfs.handlers import ModelTrainer, open_session
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer, loss = torch.optim.SGD(net.parameters()), torch.nn.MSELoss(reduction="sum")
    >>> unshareable_reason(open_session(lambda _: ModelTrainer(model=net, optimizer=optimizer, loss=loss), {}, 0))
    "loss must be a mean over rows, got MSELoss with reduction='sum'"
    """
    backend = framework_of(session.model)
    if backend is None or backend.name != "torch":
        return f"models of {'no framework' if backend is None else backend.name} train on one worker at a time"
    from torch import distributed  # an optional extra

    from udfs.handlers.torch import TorchSession  # a large package

    if not distributed.is_available() or not hasattr(distributed, "ProcessGroupGloo"):
        return "this torch is built without gloo, by which workers exchange gradients. Install torch from PyPI"
    if type(session) is not TorchSession:
        return f"a {type(session).__name__} trains on one worker at a time"
    if type(session.trainer.optimizer).__name__ == "LBFGS":
        return "optimizer must step once for each batch, got LBFGS"
    return next(filter(None, map(_unshareable_loss, session.losses)), None)


def _unshareable_loss(loss: Any) -> str | None:
    reduction = getattr(loss, "reduction", "mean")
    if reduction != "mean":
        return f"loss must be a mean over rows, got {type(loss).__name__} with reduction={reduction!r}"
    # Other losses divide by the number of elements, whatever their weights are.
    if type(loss).__name__ in {"CrossEntropyLoss", "NLLLoss"} and loss.weight is not None:
        return f"loss must be a mean over rows, got {type(loss).__name__} with weights of classes"
    return None
