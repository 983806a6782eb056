"""Models that share nothing on one backend: batches in turn, and models beside each other (Figure 3.16, served)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from _serving_load import Load
from _serving_rate import cpu_columns, cpu_row
from _serving_search import highest

from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from _report import Report
    from _serving_load import Client, Loaded
    from _serving_rate import Settings
    from pyspark.sql import SparkSession

    from optimizer.serving import BatchingProfile

__all__ = ["parallel"]

_MODELS = 3
_WARM_S = 2.0


def parallel(report: Report, spark: SparkSession, client: Client, settings: Settings) -> None:
    """Search the highest good rate of three networks on one backend, in turn and beside each other."""
    names = [f"{settings.model}-{number}" for number in range(_MODELS)]
    profile: BatchingProfile | None = None
    tried: dict[tuple[str, float], Loaded] = {}
    best: dict[str, float] = {}
    for way, beside in (("in turn", False), ("in parallel", True)):
        server = Server(spark, backends=1, threads=settings.threads, parallel=beside)
        for number, name in enumerate(names):
            # Weights of their own, so that they share no layer; both arms have one profile.
            server.deploy(
                Session(
                    name,
                    model=settings.model,
                    image_size=settings.image_size,
                    slo_ms=settings.slo_ms,
                    profile=profile,
                    seed=1 + number,
                    rate=1,
                )
            )
            profile = profile or server.profile(name)
        capacity = 1000 / float(profile.latencies[1]) if profile else 1.0
        with server.start(port=0) as api:

            def share(rate: float) -> float:
                rates = dict.fromkeys(names, rate / _MODELS)
                found = client.run(api, Load(rates, settings.seconds, settings.slo_ms))
                tried[way, rate] = found  # noqa: B023
                print(f"{_MODELS} models {way} at {rate:.1f}/s: {100 * found.share:.1f} % in time", file=sys.stderr)  # noqa: B023
                return found.share

            client.run(api, Load(dict.fromkeys(names, 0.1 * capacity), _WARM_S, settings.slo_ms))
            best[way] = highest(share, 0.6 * capacity)
    report.table(
        f"{_MODELS} x {settings.model} over HTTP on one backend of {settings.threads} threads, SLO "
        f"{settings.slo_ms:g} ms, {settings.seconds:g} s a try",
        ("models, rate", "in time", "p50 ms", "p99 ms", "sent late by, p99 ms", *cpu_columns(), "ended"),
        [cpu_row(f"{way}, {rate:.1f}/s", one) for (way, rate), one in sorted(tried.items())],
    )
    if best["in parallel"]:
        meaning = f"highest good rate of {_MODELS} models on one backend, in turn / in parallel (paper: 1.1 to 1.3)"
        report.ratio("in_turn_over_parallel", best["in turn"] / best["in parallel"], meaning)
