"""Monitoring endpoints: Prometheus metrics, and the data of the live page."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from optimizer import __version__
from udfs.serving.http._prometheus import gauges_of, is_prometheus_here, metrics_text
from udfs.serving.http._responses import error_reply, json_reply
from udfs.serving.http._traffic import ModelTraffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.requests import Request

    from udfs.serving import Router
    from udfs.serving.http._prometheus import Gauge
    from udfs.serving.http._traffic import Traffic

__all__ = ["Monitor"]


class Monitor:
    """Endpoints that are answered from counts and gauges."""

    def __init__(self, router: Router, traffic: Traffic, gauges: Callable[[], Iterable[Gauge]] | None) -> None:
        self._router, self._traffic, self._gauges = router, traffic, gauges

    def status(self, _request: Request | None = None) -> Response:
        """Return the data of the live page."""
        return json_reply(self._status())

    def metrics(self, _request: Request | None = None) -> Response:
        """Return the metrics as Prometheus text."""
        if not is_prometheus_here():
            return error_reply(
                501,
                "/metrics needs the package prometheus-client. Install it with pip install 'cerebro-spark[serving]'.",
            )
        text, content_type = metrics_text(self._traffic, self._gauges)
        return Response(text, headers={"Content-Type": content_type})

    def _status(self) -> dict[str, Any]:
        totals, refused = self._traffic.totals()
        models = []
        for model in self._router.models:
            counts = totals.get((model.name, model.version), ModelTraffic())
            models.append(
                {
                    "name": model.name,
                    "version": model.version,
                    "slo_ms": model.slo_ms,
                    "in_flight": counts.in_flight,
                    "results": dict(counts.results),
                    **asdict(self._traffic.recent(model)),
                    "history": [asdict(step) for step in self._traffic.history(model)],
                }
            )
        known = gauges_of(self._gauges)
        gauges = [
            {"name": gauge.name, "value": gauge.value, "labels": dict(gauge.labels)}
            for gauge in known
            if math.isfinite(gauge.value)
        ]
        return {
            "product": "cerebro-spark",
            "version": __version__,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "ready": self._router.ready,
            "models": models,
            "refused": dict(refused),
            "gauges": gauges,
            "sentences": {gauge.name: gauge.help for gauge in reversed(known) if gauge.help},
        }
