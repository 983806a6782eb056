"""Numbers of a running server that a front end does not know itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.serving.http import Gauge
    from vista_spark.serving._api import Api

__all__ = ["gauges_of"]


def gauges_of(api: Api) -> list[Gauge]:
    """What the server knows and a front end does not: backends, and rows by what became of them."""
    from udfs.serving.http import Gauge  # an optional extra

    rows = [
        Gauge("rows", count, "Rows by session and how they ended.", {"session": session, "ended": ended})
        for (session, ended), count in api.counts.items()
    ]
    nodes = api.plan.nodes if api.plan else ()
    occupancy = [
        Gauge("planned_occupancy", node.occupancy, "Busy share of its time.", {"backend": node.backend.name})
        for node in nodes
    ]
    batches = [
        Gauge("planned_batch", one.batch, "Rows of a batch.", {"backend": node.backend.name, "session": one.session})
        for node in nodes
        for one in node.placements
    ]
    said = api.results.items()
    waiting = [Gauge("waiting", own.waiting, "Rows that no batch has yet.", {"backend": name}) for name, own in said]
    pace = [
        Gauge("pace", pace, "Measured over predicted time of a batch.", {"backend": name, "group": group})
        for name, own in said
        for group, pace in own.pace.items()
    ]
    here = Gauge("backends", len(api.backends), "Backends that are there.")
    return [here, *rows, *occupancy, *batches, *waiting, *pace]
