"""Softmax regression by L-BFGS in one process: the classifier on top of a network's features."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["fit_softmax"]

_PENALTY = 1e-3


def fit_softmax(
    features: torch.Tensor,
    labels: torch.Tensor,
    classes: int,
    *,
    steps: int,
    counts: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fit a softmax regression with a small L2 penalty.

    All features are divided by one number. A number per feature would give a feature that is almost constant on the
    training rows a weight of thousands, which no rounded network could represent.

    Parameters
    ----------
    features : tensor of shape (rows, features)
        Features of the training rows.
    labels : tensor of int64 of shape (rows,)
        Classes from 0.
    classes : int
        Number of classes.
    steps : int
        Iterations, at most. The problem is convex, and small for features of a network.
    counts : tensor of shape (rows,), optional
        Weight of each row. Default: all rows count the same.

    Returns
    -------
    tuple of tensor
        Weights of shape (classes, features) and biases of shape (classes,), for features as they are.

    Examples
    --------
    >>> weight, bias = fit_softmax(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]), 2, steps=10)
    >>> (torch.tensor([[0.1], [0.9]]) @ weight.T + bias).argmax(1).tolist()
    [0, 1]
    """
    mean = features.mean(0)
    scale = (features - mean).std().clamp_min(1e-6)
    rows = (features - mean) / scale
    shares = torch.full((len(rows),), 1 / len(rows)) if counts is None else counts / counts.sum()
    weight = torch.zeros(classes, rows.shape[1], requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        losses = functional.cross_entropy(rows @ weight.T + bias, labels, reduction="none")
        value = (losses * shares).sum() + _PENALTY * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        raw = weight / scale
        return raw, bias - raw @ mean
