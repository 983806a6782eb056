"""Metrics over rows that lie in several shards: the contribution of each shard, and the number that the sum gives."""

from udfs.metrics._metric import Metric, MetricError
from udfs.metrics._metrics import METRICS, is_batch_mean, metric
from udfs.metrics._sums import Sums, merge_sums
from udfs.metrics._task_metrics import fitting_metrics, task_metric
from udfs.metrics._tokens import entity_f1

__all__ = [
    "METRICS",
    "Metric",
    "MetricError",
    "Sums",
    "entity_f1",
    "fitting_metrics",
    "is_batch_mean",
    "merge_sums",
    "metric",
    "task_metric",
]
