"""Metrics over rows that lie in several shards: the contribution of each shard, and the number that the sum gives."""

from udfs.metrics._metrics import METRICS, Metric, MetricError, metric
from udfs.metrics._sums import Sums, merge_sums

__all__ = ["METRICS", "Metric", "MetricError", "Sums", "merge_sums", "metric"]
