"""A metric as a value: sums that shards contribute to, and the number that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Metric", "MetricError"]


class MetricError(CerebroError, ValueError):
    """A metric that does not exist, or that does not fit the outputs; the message says which."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that tells how good predictions are, from sums that any number of shards contribute to.

    Parameters
    ----------
    name : str
    part : callable
        Takes outputs of shape ``(rows, ...)`` and labels of shape ``(rows, ...)``, and gives an array that is added to
        those of other batches and shards. One of two axes is not added but put beneath the others: a row of scores and
        labels a row, for a metric that no sum tells.
    result : callable
        Makes the number of the sum.
    larger_is_better : bool
    margins : bool
        Whether a single output has to be positive for the second class: probabilities come with one half taken away.
    weighted : callable, optional
        As ``part``, with the weights of the rows as a third argument, of shape ``(rows,)`` and more than 0. Without it
        rows with weights are refused.
    """

    name: str
    part: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]
    result: Callable[[NDArray[np.float64]], float]
    larger_is_better: bool
    margins: bool = False
    weighted: Callable[[NDArray[Any], NDArray[Any], NDArray[np.float64]], NDArray[np.float64]] | None = None
