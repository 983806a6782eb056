"""Linear heads over the same features, trained together by a gang."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from udfs.mlp._shares import batch_shares
from udfs.mlp._solvers import Adam
from udfs.mlp.fit import row_order, standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.gang import Gang
    from udfs.mlp._head_settings import HeadSettings

__all__ = ["FittedHeads", "fit_heads"]


class FittedHeads(NamedTuple):
    """Heads one below the other, over raw features.

    ``weight`` has the shape ``(outputs, features)``, ``bias`` ``(outputs,)``; the rows of a head follow those of the
    heads before it. ``losses`` has the mean loss of each head in each epoch.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    losses: list[list[float]]


class _Group(NamedTuple):
    """Heads with equally many classes, which are computed together: their numbers, and their outputs, a row each."""

    heads: torch.Tensor
    columns: torch.Tensor


def fit_heads(
    gang: Gang, features: NDArray[np.float32], labels: NDArray[np.int64], settings: HeadSettings, counts: Sequence[int]
) -> FittedHeads:
    """Train a softmax head per attribute by mini-batches; the same heads in every task.

    No head depends on the others: they start at the frequencies of their classes, see the same batches, and Adam scales
    each weight alone. So a head is the same, up to rounding, in whatever company it is trained.

    Parameters
    ----------
    features : array of shape (rows, features)
        Rows of this task, perhaps none. They are standardised in place.
    labels : array of shape (rows, heads)
        Class of each head; -1 if it is not known, and the row does not count for this head.
    settings : HeadSettings
        Classes of each head, epochs, step size, batch size, L2 penalty and seed.
    counts : sequence of int
        Rows of each task.
    """
    mean, scale = standardise(gang, features, np.ones(len(features)))
    data, wanted = torch.from_numpy(features), torch.from_numpy(labels)
    groups = _groups(settings.classes)
    head_of = torch.repeat_interleave(torch.tensor(settings.classes))
    weight, bias = torch.zeros(len(head_of), data.shape[1]), _frequencies(gang, wanted, settings.classes).log()
    solver = Adam([weight, bias], settings.step_size)
    shares = batch_shares(counts, settings.batch_size)[:, gang.rank].tolist()
    losses = []
    for epoch in range(settings.epochs):
        total = torch.zeros(2, wanted.shape[1])
        for rows in row_order(settings.seed, epoch, gang.rank, len(data)).split_with_sizes(shares):
            slopes, sums = _slopes(data[rows], wanted[rows], weight, bias, groups)
            gradients = [slopes.T @ data[rows], slopes.sum(dim=0)]
            gang.sum_([*gradients, sums])
            known = sums[1].clamp(min=1)[head_of]
            gradients = [gradients[0] / known[:, None], gradients[1] / known]
            if settings.l2:
                gradients[0].add_(weight, alpha=settings.l2)
            solver.step(gradients)
            total += sums
        losses.append((total[0] / total[1].clamp(min=1)).tolist())
        if not np.isfinite(losses[-1]).all():
            break
    raw = weight.double().numpy() / scale
    return FittedHeads(raw.astype(np.float32), (bias.double().numpy() - raw @ mean).astype(np.float32), losses)


def _groups(classes: Sequence[int]) -> list[_Group]:
    sizes = torch.tensor(classes)
    starts = sizes.cumsum(0) - sizes
    heads = [(sizes == size).nonzero()[:, 0] for size in sorted(set(classes))]
    return [_Group(each, starts[each, None] + torch.arange(int(sizes[each[0]]))) for each in heads]


def _frequencies(gang: Gang, wanted: torch.Tensor, classes: Sequence[int]) -> torch.Tensor:
    """Return the frequencies of the classes of all heads, with one more row of each class, so that none is zero."""
    counts = [
        torch.bincount(column[column >= 0], minlength=size) for column, size in zip(wanted.T, classes, strict=True)
    ]
    gang.sum_(counts)
    return torch.cat([(count + 1) / (count + 1).sum() for count in counts])


def _slopes(
    data: torch.Tensor, wanted: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: Sequence[_Group]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the derivatives of the summed losses by the logits, and the sums of losses and of known rows by head."""
    logits = torch.addmm(bias, data, weight.T)
    slopes, sums = torch.empty_like(logits), torch.zeros(2, wanted.shape[1])
    for heads, columns in groups:
        known = wanted[:, heads] >= 0
        place = wanted[:, heads].clamp(min=0)[:, :, None]
        shares = logits[:, columns].log_softmax(dim=2)
        sums[0, heads] = -(shares.gather(2, place)[:, :, 0] * known).sum(dim=0)
        sums[1, heads] = known.sum(dim=0, dtype=sums.dtype)
        shares.exp_().scatter_add_(2, place, -torch.ones_like(place, dtype=shares.dtype))
        slopes[:, columns] = shares * known[:, :, None]
    return slopes, sums
