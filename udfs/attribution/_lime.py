"""LIME: a weighted linear model of the score over subsets of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scored_inputs import Importance, check_positive, check_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.attribution._grouped_inputs import GroupedInputs

__all__ = ["lime"]

# Smallest share of a sample's prediction that the other samples decide.
_SMALLEST = 1e-9


def lime(
    grouped: GroupedInputs, *, samples: int = 1000, kernel_width: float = 0.25, ridge: float = 1.0, seed: int = 0
) -> Importance:
    """Fit a linear model of the score to random subsets of the groups.

    Ribeiro, Singh and Guestrin, *"Why should I trust you?" Explaining the predictions of any classifier*, KDD 2016,
    equation 1 and algorithm 1, with the kernel and the ridge regression of the authors' package ``lime``: a subset with
    a share s of the groups has the weight ``sqrt(exp(-(1 - sqrt(s))**2 / kernel_width**2))``.

    Parameters
    ----------
    samples : int
        Number of subsets, the whole input among them; at least two more than there are groups. Default 1000.
    kernel_width : float
        Width of the kernel: the larger, the more subsets far from the whole input count. Default 0.25.
    ridge : float
        Penalty on squared weights. Default 1; 0 is plain least squares.
    seed : int
        Seed of the subsets. Default 0.

    Returns
    -------
    Importance
        Weights of the linear model. ``measures["r2"]`` is its R2 on the samples that it was fitted to, as the package
        ``lime`` computes it, and ``measures["left_out_r2"]`` its R2 when each sample is predicted by the model of all
        others (Allen's PRESS); both are NaN where the score never changes.

    Raises
    ------
    InvalidArgumentError
        There are too few samples, the kernel width is not positive, or the ridge is negative.

    Examples
    --------
    >>> from udfs.attribution import GroupedInputs, ScoredInputs
    >>> row, zeros = np.array([1.0, -2.0, 4.0]), np.zeros(3)
    >>> scored = ScoredInputs(lambda batches: batches[0].sum(axis=1), [row])
    >>> lime(GroupedInputs(scored, [zeros], [np.arange(3)]), samples=100, ridge=0.0).weights.round(6).tolist()
    [1.0, -2.0, 4.0]
    """
    count, seed = grouped.count, check_seed(seed)
    if check_positive("samples", samples) < count + 2:
        raise InvalidArgumentError(f"samples must be at least {count + 2} for {count} groups, got {samples}")
    if not (kernel_width > 0 and np.isfinite(kernel_width)):
        raise InvalidArgumentError(f"kernel_width must be a positive number, got {kernel_width!r}")
    if not (ridge >= 0 and np.isfinite(ridge)):
        raise InvalidArgumentError(f"ridge must be a number of at least 0, got {ridge!r}")
    kept = np.random.default_rng(seed).random((samples, count)) < 0.5
    kept[0] = True
    scores = grouped.scores(kept)
    kernel = np.sqrt(np.exp(-((1 - np.sqrt(kept.mean(axis=1))) ** 2) / kernel_width**2))
    weights, measures = _regression(kept.astype(np.float64), scores, kernel, ridge)
    return Importance(grouped.values(weights), float(scores[0]), samples, weights, measures)


def _regression(
    kept: NDArray[np.float64], scores: NDArray[np.float64], kernel: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """Fit a weighted ridge regression with an unpenalised intercept: return its weights and both R2."""
    means, mean = np.average(kept, axis=0, weights=kernel), float(np.average(scores, weights=kernel))
    centred = (kept - means) * np.sqrt(kernel)[:, None]
    targets = (scores - mean) * np.sqrt(kernel)
    normal = centred.T @ centred + ridge * np.eye(kept.shape[1])
    weights = np.asarray(np.linalg.lstsq(normal, centred.T @ targets, rcond=None)[0], np.float64)
    variance = float(targets @ targets)
    # A score that never changes has the variance of its own rounding.
    flat = variance <= np.finfo(np.float32).eps ** 2 * float(kernel @ scores**2)
    residuals = targets - centred @ weights
    # Share of a sample's prediction that the sample itself decides: without it, the residual grows by its inverse.
    leverage = kernel / kernel.sum() + np.einsum("sg,gs->s", centred, np.linalg.pinv(normal) @ centred.T)
    left_out = residuals / np.maximum(1 - leverage, _SMALLEST)
    r2, left_out_r2 = (
        float("nan") if flat else 1 - float((errors**2).sum()) / variance for errors in (residuals, left_out)
    )
    return weights, {"r2": r2, "left_out_r2": left_out_r2}
