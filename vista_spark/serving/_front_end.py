"""A running server over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from udfs.serving.http import FrontEnd, FrontEndProcesses, Gauge, HttpLimits
    from vista_spark.serving._api import Api

__all__ = ["check_http", "front_end"]


def check_http(host: str, port: int, token: str | Literal[False] | None) -> None:
    """Try whether :func:`front_end` could start, before the backends do; its errors."""
    from udfs.serving.http import check_address  # noqa: PLC0415 - an optional extra

    check_address(host, port, token)


def front_end(
    api: Api,
    host: str,
    port: int,
    token: str | Literal[False] | None,
    limits: HttpLimits | None = None,
    processes: int = 0,
) -> FrontEnd | FrontEndProcesses:
    """Start a front end in a thread of this process, or several in processes of their own.

    Raises
    ------
    udfs.serving.http.PortTakenError
        Another process listens there.
    InvalidArgumentError
        A host, port or token that cannot be.
    TimeoutError
        A process did not start.
    """
    from udfs.serving.http import FrontEnd, FrontEndProcesses  # noqa: PLC0415 - an optional extra

    def gauges() -> list[Gauge]:
        return _gauges(api)

    if processes:
        several = FrontEndProcesses(api, processes, host=host, port=port, token=token, limits=limits, gauges=gauges)
        return several.start()
    return FrontEnd(api, host=host, port=port, token=token, limits=limits, gauges=gauges).start()


def _gauges(api: Api) -> list[Gauge]:
    """What the server knows and a front end does not: backends, and rows by what became of them."""
    from udfs.serving.http import Gauge  # noqa: PLC0415 - as above

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
