"""The metrics of a front end in Prometheus's format."""

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
    """A number that a backend adds to ``/metrics`` and to the live page.

    Parameters
    ----------
    name : str
        Letters, digits and underscores; ``vista_serving_`` is put in front.
    value : float
    help : str, optional
        A sentence; the first of a name counts.
    labels : mapping of str to str, optional
        Gauges of one name have the same keys.

    Examples
    --------
    >>> Gauge("queue_length", 3, "Requests that wait.", {"model": "cats", "backend": "backend-0"}).value
    3
    """

    name: str
    value: float
    help: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def is_prometheus_here() -> bool:
    """Say whether the package prometheus-client is installed."""
    try:
        import prometheus_client  # noqa: F401 - an optional package
    except ImportError:
        return False
    return True


def metrics_text(traffic: Traffic, gauges: Callable[[], Iterable[Gauge]] | None) -> tuple[bytes, str]:
    """Write all metrics.

    Returns
    -------
    tuple of bytes and str
        The text, and its content type.
    """
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # optional

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(traffic, gauges_of(gauges)))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def gauges_of(gauges: Callable[[], Iterable[Gauge]] | None) -> list[Gauge]:
    """Ask the backend for its gauges; an error of it is logged, and costs no other metric."""
    try:
        return list(gauges()) if gauges else []
    except Exception:  # noqa: BLE001 - whatever it was, it is logged
        _LOG.exception("the backend's gauges could not be read")
        return []


class _Collector:
    """What prometheus-client reads: our own counts, which the live page needs as well and without that package."""

    def __init__(self, traffic: Traffic, gauges: list[Gauge]) -> None:
        self._traffic, self._gauges = traffic, gauges

    def collect(self) -> Iterator[Any]:
        """Give all families of metrics."""
        from prometheus_client.core import (  # an optional package
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        models, refused = self._traffic.totals()
        keys = ["model", "version"]
        requests = CounterMetricFamily(
            f"{_PREFIX}_requests", "Requests by what became of them.", labels=[*keys, "result"]
        )
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
