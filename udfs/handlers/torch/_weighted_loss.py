"""Weighted means of torch's losses."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WeightedLoss"]

# Reductions of torch's losses that make one number of a batch.
_REDUCTIONS = ("mean", "sum", "batchmean")

# Losses whose mean over classes' numbers leaves out rows to ignore and divides by the sum of the classes' weights.
_SHARED = (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)


class WeightedLoss:
    """A loss of a trainer as the weighted mean of one loss a row.

    A module with a ``reduction`` is run with ``reduction="none"``, on a copy. What a row has beyond one number (pixels,
    outputs of a regression) is averaged, or summed where the loss sums. Another loss has to give one number a row.

    The mean of ``CrossEntropyLoss(weight=...)`` and ``NLLLoss(weight=...)`` is itself one over weights, those of the
    labels' classes. A row's weight multiplies its class's, above the line and below it, and rows with ``ignore_index``
    are in neither sum: ``sum(w[i] * c[y[i]] * l[i]) / sum(w[i] * c[y[i]])``.

    Examples
    --------
    >>> loss = WeightedLoss(torch.nn.MSELoss(), lambda loss, output, label: loss(output, label))
    >>> float(loss(torch.tensor([[1.0], [3.0]]), torch.zeros(2, 1), torch.tensor([0.5, 1.5])))
    7.0
    """

    def __init__(self, loss: Any, call: Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        self._loss, self._call = loss, call
        reduction = getattr(loss, "reduction", None) if isinstance(loss, torch.nn.Module) else None
        self._reduction = reduction if reduction in _REDUCTIONS else None
        self._of_rows = loss
        if self._reduction is not None:
            self._of_rows = copy.copy(loss)
            self._of_rows.reduction = "none"

    def __call__(self, output: torch.Tensor, label: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
        """Compute the loss of a batch.

        ``weights`` are relative to their mean, ``None`` where all are equal. Raise TrainerError if the loss does not
        give one number a row.
        """
        if weights is None and self._reduction is not None:
            return self._call(self._loss, output, label)
        losses = self._call(self._of_rows, output, label)
        if losses.ndim == 0 or len(losses) != len(output):
            raise TrainerError(
                f"the rows have weights, and the loss {_name(self._loss)} gives numbers of shape "
                f"{tuple(losses.shape)} for {len(output)} rows: it has to give one a row, or be a module that does "
                'with reduction="none", as those of torch.nn'
            )
        flat = losses.reshape(len(losses), -1)
        if weights is None:
            return flat.mean()
        weights = weights.to(flat.dtype)
        if self._reduction == "sum":
            return (weights * flat.sum(1)).sum()
        shares = self._shares(output, label)
        if shares is not None:
            return (weights * flat.sum(1)).sum() / (weights * shares.reshape(len(losses), -1).sum(1)).sum()
        per_row = flat.sum(1) if self._reduction == "batchmean" else flat.mean(1)
        return (weights * per_row).sum() / weights.sum()

    def _shares(self, output: torch.Tensor, label: torch.Tensor) -> torch.Tensor | None:
        """Return the divisor of the mean of a loss of classes, for each label; ``None`` for other losses."""
        loss = self._loss
        if not isinstance(loss, _SHARED) or (label.is_floating_point() and label.shape == output.shape):
            return None
        classes = label.long()
        kept = classes != loss.ignore_index
        if loss.weight is None:
            return kept.to(output.dtype)
        return torch.where(kept, loss.weight[classes.where(kept, 0)], 0).to(output.dtype)


def _name(loss: Any) -> str:
    return str(getattr(loss, "__name__", type(loss).__name__))
