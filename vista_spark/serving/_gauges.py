"""Gauges of a running server for its metrics and live page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.serving.http import Gauge
    from vista_spark.serving._api import Api

__all__ = ["gauges_of"]


def gauges_of(api: Api) -> list[Gauge]:
    """Return the gauges of a server: backends and their restarts, rows by result, the plan, waiting rows, pace."""
    from udfs.serving.http import Gauge

    rows = [
        Gauge("rows", count, "Rows by session and result.", {"session": session, "ended": ended})
        for (session, ended), count in api.counts.items()
    ]
    nodes = api.plan.nodes if api.plan else ()
    occupancy = [
        Gauge(
            "planned_occupancy",
            node.occupancy,
            "Share of its time that the planned rates need.",
            {"backend": node.backend.name},
        )
        for node in nodes
    ]
    batches = [
        Gauge(
            "planned_batch",
            placement.batch,
            "Rows of a batch.",
            {"backend": node.backend.name, "session": placement.session},
        )
        for node in nodes
        for placement in node.placements
    ]
    reports = api.results.items()
    waiting = [
        Gauge("waiting", report.waiting, "Rows that wait for a batch.", {"backend": name}) for name, report in reports
    ]
    pace = [
        Gauge("pace", pace, "Measured over predicted time of a batch.", {"backend": name, "group": group})
        for name, report in reports
        for group, pace in report.pace.items()
    ]
    here = Gauge("backends", len(api.backends), "Connected backends.")
    connected = set(api.backends)
    places = [
        Gauge(
            "backend_restarts",
            restarts,
            "Processes that took the place of a lost one.",
            {"backend": name, "host": host, "connected": "yes" if name in connected else "no"},
        )
        for name, (host, restarts) in api.backend_places.items()
    ]
    dollars = [
        Gauge("dollars", spent, "Dollars spent on the current day, of sessions with a budget.", {"session": name})
        for name, spent in api.spent.items()
    ]
    return [here, *rows, *occupancy, *batches, *waiting, *pace, *places, *dollars]
