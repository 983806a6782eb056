"""Threshold of a difference detector, with a guarantee for the agreement with the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.cascades import Question, reaches_target_on_all
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["choose_threshold"]


def choose_threshold(
    errors: NDArray[np.float64], agrees: NDArray[np.bool_], target: float, delta: float = 0.05
) -> float | None:
    """Return the largest threshold at which the detector agrees with the oracle often enough.

    A frame with an error up to the threshold gets the answer for its reference, another frame that of the oracle. The
    number of frames with a wrong answer grows with the threshold, so the largest threshold that passes the exact
    binomial test is right with a probability of at least ``1 - delta``, without a correction for several thresholds.

    Parameters
    ----------
    errors : array of float of shape (frames,)
        Differences of frames from their references, as :func:`udfs.video.block_error` computes them.
    agrees : array of bool of shape (frames,)
        Whether the oracle gives the same answer for the frame and for its reference.
    target : float
        Least share of frames with the answer of the oracle, above 0 and below 1.
    delta : float
        Probability that the share is below the target, above 0 and below 1. Default 0.05.

    Returns
    -------
    float or None
        One of `errors`; ``None`` if no threshold at which a frame is a repetition passes.

    Raises
    ------
    InvalidArgumentError
        The arrays differ in length, an error is NaN, or a number is out of its range.

    Notes
    -----
    The guarantee holds for frames that are drawn independently. Successive frames of a video are not: draw a random
    sample of frames, each with the reference that a detector has there.

    References
    ----------
    Bates et al., Distribution-Free, Risk-Controlling Prediction Sets, JACM 2021, theorem 1.

    Examples
    --------
    >>> errors = np.arange(300.0)
    >>> choose_threshold(errors, errors < 250, target=0.98)
    250.0
    >>> choose_threshold(errors[:50], errors[:50] < 250, target=0.98) is None  # too few frames
    True
    """
    question = Question(target, delta)
    errors, agrees = np.asarray(errors, np.float64), np.asarray(agrees, bool)
    if errors.ndim != 1 or errors.shape != agrees.shape:
        raise InvalidArgumentError(
            f"agrees must have the shape of errors, one dimension, got {agrees.shape} and {errors.shape}."
        )
    if np.isnan(errors).any():
        raise InvalidArgumentError("errors must be numbers, got NaN.")
    order = np.argsort(errors, kind="stable")
    candidates, last = np.unique(errors[order][::-1], return_index=True)
    losses = np.cumsum(~agrees[order])[len(errors) - 1 - last]
    # Losses grow with the threshold, so the thresholds that pass are the first ones.
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        wrong = int(losses[middle])
        if reaches_target_on_all(wrong, len(errors) - wrong, question.target, question.delta):
            low = middle + 1
        else:
            high = middle
    return float(candidates[low - 1]) if low else None
