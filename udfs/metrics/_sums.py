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
    """Sums over rows from which a loss and some metrics are computed.

    Metrics get outputs and labels as they are; :class:`udfs.training.TaskSums` reads them by a task.
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = metrics
        self._by_name = {metric.name: metric for metric in metrics}

    @property
    def larger_is_better(self) -> dict[str, bool | None]:
        """True by the name of each metric if larger values are better, ``None`` if unknown; false for the loss."""
        return {"loss": False} | {
            name: metric.larger_is_better
            for metric in self.metrics
            for name in (metric.name, metric.full_name)
            if name is not None
        }

    def contributions(
        self, outputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float32] | None = None
    ) -> dict[str, NDArray[np.float64]]:
        """Compute the contributions of a batch to the metrics.

        Parameters
        ----------
        outputs, labels : array, shape (rows, ...)
            First output of the network, and first label.
        weights : array of float32, shape (rows,), optional
            Weights of the rows. By default all rows count equally.

        Raises
        ------
        MetricError
            A metric does not fit the outputs or the labels, or has no weighted form.
        """
        return {metric.name: self._contribution(metric, outputs, labels, weights) for metric in self.metrics}

    @staticmethod
    def _contribution(
        metric: Metric, scores: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float32] | None
    ) -> NDArray[np.float64]:
        """Compute the contribution of a batch to a metric."""
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
                f"metric {metric.name!r} does not fit outputs of shape {scores.shape} and labels of shape "
                f"{labels.shape}: {error}"
            ) from error
        return np.asarray(part, np.float64)

    def results(self, sums: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
        """Compute the metrics from the sums."""
        results = {}
        for name, part in sums.items():
            metric = self._by_name.get(name)
            results[name] = float(part[0] / (part[1] or 1.0)) if metric is None else metric.result(part)
            if metric is not None and metric.full_name not in {None, name}:
                results[str(metric.full_name)] = results[name]
        return results
