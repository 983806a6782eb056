"""Contributions of batches and shards to the loss and to some metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.metrics._metric import MetricError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.metrics._metric import Metric

__all__ = ["Sums", "merge_sums"]


def merge_sums(
    first: Mapping[str, NDArray[np.float64]], other: Mapping[str, NDArray[np.float64]]
) -> dict[str, NDArray[np.float64]]:
    """Put contributions of two batches or shards together, whatever the metrics are.

    Arrays of one axis are added, those of two are put beneath each other.

    Examples
    --------
    >>> merge_sums({"loss": np.array([3.0, 2.0])}, {"loss": np.array([1.0, 2.0]), "auc": np.zeros((1, 2))})
    {'loss': array([4., 4.]), 'auc': array([[0., 0.]])}
    """
    merged = dict(first)
    for name, part in other.items():
        have = merged.get(name)
        merged[name] = part if have is None else np.concatenate([have, part]) if part.ndim > 1 else have + part
    return merged


class Sums:
    """Sums over rows from which a loss and some metrics are computed."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = metrics
        self._by_name = {metric.name: metric for metric in metrics}

    @property
    def larger_is_better(self) -> dict[str, bool]:
        """Directions of the loss and the metrics by name."""
        return {"loss": False} | {metric.name: metric.larger_is_better for metric in self.metrics}

    def of(
        self,
        outputs: NDArray[Any],
        labels: NDArray[Any],
        threshold: float,
        weights: NDArray[np.float32] | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        """Compute the contributions of a batch to the metrics.

        ``outputs`` are the network's first output, of shape ``(rows, ...)``; above ``threshold`` a single output means
        the second class. Raise MetricError if a metric does not fit the outputs, or has no weighted form.
        """
        flat = outputs.size == len(outputs)
        margins = outputs - threshold if threshold and flat else outputs
        added = {}
        for metric in self.metrics:
            scores = margins if metric.margins else outputs
            if weights is not None and metric.weighted is None:
                raise MetricError(
                    f"metric {metric.name!r} has no weighted form, and the rows have weights: give the Metric a "
                    "function weighted=, or leave the weight column out"
                )
            try:
                if weights is None or metric.weighted is None:
                    part = metric.part(scores, labels)
                else:
                    part = metric.weighted(scores, labels, weights.astype(np.float64))
            except (ValueError, IndexError) as error:
                raise MetricError(
                    f"metric {metric.name!r} does not fit outputs of shape {outputs.shape} and labels of shape "
                    f"{labels.shape}: {error}"
                ) from error
            added[metric.name] = np.asarray(part, np.float64)
        return added

    def results(self, sums: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
        """Compute the metrics from the sums."""
        results = {}
        for name, part in sums.items():
            metric = self._by_name.get(name)
            results[name] = float(part[0] / (part[1] or 1.0)) if metric is None else metric.result(part)
        return results
