"""Arguments that the step of an optimizer or of a scheduler needs."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from udfs.training import TrainerError

__all__ = ["check_mini_batches", "follows_metric", "takes_closure"]


def check_mini_batches(optimizer: Any) -> None:
    """Raise TrainerError for L-BFGS without a line search.

    Its steps follow the curvature of the batch before and grow without bound, in an ordinary loop of torch as well.
    """
    if isinstance(optimizer, torch.optim.LBFGS) and any(
        group["line_search_fn"] is None for group in optimizer.param_groups
    ):
        raise TrainerError(
            "line_search_fn of LBFGS must be 'strong_wolfe' where rows come in several batches, got None: its steps "
            "follow the curvature of the batch before and diverge. Set it, or train with SGD or Adam"
        )


def takes_closure(optimizer: Any) -> bool:
    """Return ``True`` if the step of an optimizer needs a function that evaluates the loss.

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Linear(2, 1)
    >>> takes_closure(torch.optim.LBFGS(net.parameters())), takes_closure(torch.optim.SGD(net.parameters()))
    (True, False)
    """
    return _needs_argument(optimizer)


def follows_metric(scheduler: Any) -> bool:
    """Return ``True`` if a scheduler steps with the metric of an epoch.

    Examples
    --------
    >>> import torch
    >>> sgd = torch.optim.SGD(torch.nn.Linear(2, 1).parameters())
    >>> follows_metric(torch.optim.lr_scheduler.ReduceLROnPlateau(sgd)), follows_metric(None)
    (True, False)
    """
    return scheduler is not None and _needs_argument(scheduler)


def _needs_argument(stepper: Any) -> bool:
    # Torch replaces the method of an instance by a wrapper; the class has the original signature.
    parameters = list(inspect.signature(type(stepper).step).parameters.values())[1:]
    return any(
        each.default is each.empty and each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
        for each in parameters
    )
