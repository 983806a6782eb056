"""Metrics of a front end in Prometheus format."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from udfs.serving.http._traffic import BUCKETS_S, RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from udfs.serving.http._traffic import Traffic

__all__ = ["Gauge", "gauges_of", "is_prometheus_here", "metrics_text"]

_LOG = logging.getLogger(__name__)
_PREFIX = "vista_serving"


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that a server adds to ``/metrics`` and to the live page.

    Examples
    --------
    >>> Gauge("queue_length", 3, "Requests that wait.", {"model": "cats", "backend": "backend-0"}).value
    3
    """

    name: str  # letters, digits and underscores; the prefix vista_serving_ is added
    value: float  # current value
    help: str = ""  # description; the first of a name is used
    labels: Mapping[str, str] = field(default_factory=dict)  # labels; gauges of the same name have the same keys


def is_prometheus_here() -> bool:
    """Return whether the package prometheus-client is installed."""
    try:
        import prometheus_client  # noqa: F401 - an optional package
    except ImportError:
        return False
    return True


def metrics_text(traffic: Traffic, gauges: Callable[[], Iterable[Gauge]] | None) -> tuple[bytes, str]:
    """Return all metrics as text, and its content type."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(traffic, gauges_of(gauges)))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def gauges_of(gauges: Callable[[], Iterable[Gauge]] | None) -> list[Gauge]:
    """Return the gauges; log an error of them, which costs no other metric."""
    try:
        return list(gauges()) if gauges else []
    except Exception:  # noqa: BLE001 - every error is logged
        _LOG.exception("the gauges could not be read")
        return []


class _Collector:
    """Collector that gives prometheus-client the counts of a front end."""

    def __init__(self, traffic: Traffic, gauges: list[Gauge]) -> None:
        self._traffic, self._gauges = traffic, gauges

    def collect(self) -> Iterator[Any]:
        """Yield all families of metrics."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        models, refused = self._traffic.totals()
        keys = ["model", "version"]
        requests = CounterMetricFamily(f"{_PREFIX}_requests", "Requests by result.", labels=[*keys, "result"])
        latency = HistogramMetricFamily(
            f"{_PREFIX}_latency_seconds", "From a request's last byte to its answer.", labels=keys
        )
        in_flight = GaugeMetricFamily(f"{_PREFIX}_in_flight", "Requests that wait for their answer.", labels=keys)
        for key, counts in models.items():
            for result in RESULTS:
                requests.add_metric([*key, result], counts.results[result])
            ends = [*map(str, BUCKETS_S), "+Inf"]
            latency.add_metric(key, list(zip(ends, accumulate(counts.buckets), strict=True)), counts.seconds)
            in_flight.add_metric(key, counts.in_flight)
        strangers = CounterMetricFamily(
            f"{_PREFIX}_refused", "Requests without the token, or for no deployed model.", labels=["reason"]
        )
        for reason, count in refused.items():
            strangers.add_metric([reason], count)
        yield from (requests, latency, in_flight, strangers)
        for name, group in groupby(sorted(self._gauges, key=lambda gauge: gauge.name), key=lambda gauge: gauge.name):
            entries = list(group)
            labels = list(entries[0].labels)
            family = GaugeMetricFamily(f"{_PREFIX}_{name}", entries[0].help or name, labels=labels)
            for gauge in entries:
                family.add_metric([gauge.labels.get(label, "") for label in labels], gauge.value)
            yield family
