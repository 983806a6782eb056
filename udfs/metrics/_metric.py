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
    """Unknown metric, or one that does not fit the outputs."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric of predictions, computed from sums over batches and shards.

    Parameters
    ----------
    name : str
        Name of the metric.
    part : callable
        Function of outputs and labels of shape ``(rows, ...)`` that returns an array, which is added to those of other
        batches and shards. Arrays with two axes are concatenated instead, for metrics that need all rows.
    result : callable
        Function that computes the metric from the sum.
    larger_is_better : bool, optional
        Whether larger values are better; ``None`` if unknown.
    margins : bool
        Whether a single output is positive for the second class; 0.5 is then subtracted from probabilities. Default
        false.
    weighted : callable, optional
        Function like ``part`` with the positive weights of the rows, of shape ``(rows,)``, as a third argument. Without
        it, weighted rows are refused.
    full_name : str, optional
        Name with the average, such as ``"f1_macro"`` for ``"f1"``: results have the value under both names. Default
        ``None``: the metric is not chosen by its name.
    """

    name: str
    part: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]
    result: Callable[[NDArray[np.float64]], float]
    larger_is_better: bool | None
    margins: bool = False
    weighted: Callable[[NDArray[Any], NDArray[Any], NDArray[np.float64]], NDArray[np.float64]] | None = None
    full_name: str | None = None
