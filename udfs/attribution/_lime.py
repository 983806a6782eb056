"""LIME: a weighted linear model of the score over parts of the input that are there or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._groups import group_masks
from udfs.attribution._scoring import checked_seed, positive
from udfs.attribution._subsets import Subsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scoring import ScoreFunction

__all__ = ["Surrogate", "lime"]

# A sample that alone decides its own prediction cannot be left out.
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A linear model of the score around one input, made by :func:`lime`.

    Attributes
    ----------
    weights : array of float64, of shape (groups,)
        What a group adds to the score where it is there, in the order of the groups' numbers.
    intercept : float
        Score without any group.
    r2 : float
        Share of the scores' weighted variance that the linear model has, on the samples that it was fitted to, as the
        package ``lime`` gives it; NaN where the score never changes. It is high wherever samples are few.
    left_out_r2 : float
        The same, each sample predicted by the model of all others (Allen's PRESS); NaN where the score never changes.
        Weights of a model with a low one say little.
    values : tuple of array of float64
        For each input, in its shape, the weight of each element's group; NaN where it has none.
    whole : float
        Score of the whole input.
    evaluations : int
        Inputs that the score was asked for.
    """

    weights: NDArray[np.float64]
    intercept: float
    r2: float
    left_out_r2: float
    values: tuple[NDArray[np.float64], ...]
    whole: float
    evaluations: int


def lime(
    score: ScoreFunction,
    inputs: Sequence[NDArray[Any]],
    baselines: Sequence[NDArray[Any]],
    groups: Sequence[NDArray[np.integer]],
    *,
    samples: int = 1000,
    kernel_width: float = 0.25,
    ridge: float = 1.0,
    seed: int = 0,
    batch_size: int = 32,
) -> Surrogate:
    """Fit a linear model of the score to random subsets of the groups.

    Ribeiro, Singh and Guestrin, *"Why should I trust you?" Explaining the predictions of any classifier*, KDD 2016,
    equation 1 and algorithm 1, with the kernel and the ridge regression of the authors' package ``lime``: a subset of
    share s of the groups has the weight ``sqrt(exp(-(1 - sqrt(s))**2 / kernel_width**2))``.

    Parameters
    ----------
    score : callable
        See :data:`ScoreFunction`.
    inputs : sequence of array
        Without the axis of records.
    baselines : sequence of array
        What an input holds where its group is not there, in the input's shape.
    groups : sequence of array of int
        See :func:`group_masks`; in a shape that broadcasts to the input's.
    samples : int
        Subsets, the whole input among them. Default 1000; at least two more than there are groups.
    kernel_width : float
        Default 0.25; the larger, the more subsets far from the whole input count.
    ridge : float
        Penalty on squared weights. Default 1; it pulls weights towards 0, and 0 is plain least squares.
    seed : int
    batch_size : int
        Inputs at a time. Default 32.

    Raises
    ------
    InvalidArgumentError
        Too few samples, a kernel width that is not positive, a negative ridge, or a score that is not a finite number.

    Examples
    --------
    >>> def total(batches):
    ...     return batches[0].sum(axis=1)
    >>> row, zeros = np.array([1.0, -2.0, 4.0]), np.zeros(3)
    >>> surrogate = lime(total, [row], [zeros], [np.arange(3)], samples=100, ridge=0.0)
    >>> surrogate.weights.round(6).tolist(), round(surrogate.r2, 6)
    ([1.0, -2.0, 4.0], 1.0)
    """
    masks, size, seed = group_masks(groups), positive("batch_size", batch_size), checked_seed(seed)
    if positive("samples", samples) < len(masks) + 2:
        raise InvalidArgumentError(
            f"samples={samples} for {len(masks)} groups: a linear model needs at least {len(masks) + 2}"
        )
    if not (kernel_width > 0 and np.isfinite(kernel_width)):
        raise InvalidArgumentError(f"kernel_width={kernel_width!r}: a positive number")
    if not (ridge >= 0 and np.isfinite(ridge)):
        raise InvalidArgumentError(f"ridge={ridge!r}: a number from 0 on")
    there = np.random.default_rng(seed).random((samples, len(masks))) < 0.5  # as likely as not
    there[0] = True
    subsets = Subsets(inputs, baselines, groups, masks)
    scores = subsets.scores(score, there, size)
    kernel = np.sqrt(np.exp(-((1 - np.sqrt(there.mean(axis=1))) ** 2) / kernel_width**2))
    weights, intercept, r2, left_out = _regression(there.astype(np.float64), scores, kernel, ridge)
    return Surrogate(weights, intercept, r2, left_out, subsets.values(weights), float(scores[0]), samples)


def _regression(
    there: NDArray[np.float64], scores: NDArray[np.float64], kernel: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], float, float, float]:
    """Fit a weighted ridge regression, whose intercept is without penalty: weights, intercept, R2, left-out R2."""
    means, mean = np.average(there, axis=0, weights=kernel), float(np.average(scores, weights=kernel))
    centred = (there - means) * np.sqrt(kernel)[:, None]
    aims = (scores - mean) * np.sqrt(kernel)
    normal = centred.T @ centred + ridge * np.eye(there.shape[1])
    weights = np.asarray(np.linalg.lstsq(normal, centred.T @ aims, rcond=None)[0], np.float64)
    variance = float(aims @ aims)
    # A score that never changes has the variance of its own rounding.
    flat = variance <= np.finfo(np.float32).eps ** 2 * float(kernel @ scores**2)
    residuals = aims - centred @ weights
    # The share of its own prediction that each sample has: without it, the residual is so many times as large.
    own = kernel / kernel.sum() + np.einsum("sg,gs->s", centred, np.linalg.pinv(normal) @ centred.T)
    without = residuals / np.maximum(1 - own, _LEAST)
    r2, left_out = (
        float("nan") if flat else 1 - float((errors**2).sum()) / variance for errors in (residuals, without)
    )
    return weights, mean - float(means @ weights), r2, left_out
