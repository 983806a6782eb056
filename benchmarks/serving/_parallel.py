"""Models that share no layers on one backend: batches in turn, and models in parallel (Figure 3.16, served)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.serving._load import Load
from benchmarks.serving._rate import cpu_columns, cpu_row
from benchmarks.serving._search import highest
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.harness.report import Report
    from benchmarks.serving._load import Client, Loaded
    from benchmarks.serving._rate import Settings
    from optimizer.serving import BatchingProfile
    from vista_spark.serving import Api

__all__ = ["parallel"]

_MODELS = 3
_WARM_S = 2.0
_TURNS, _BESIDE = "in turn", "in parallel"


def parallel(report: Report, spark: SparkSession, client: Client, settings: Settings) -> None:
    """Search the highest good rate of three networks on one backend, in turn and in parallel."""
    names = [f"{settings.model}-{number}" for number in range(_MODELS)]
    profile: BatchingProfile | None = None
    best: dict[str, float] = {}
    rows = []
    for way in (_TURNS, _BESIDE):
        server = Server(spark, backends=1, threads=settings.threads, parallel=way == _BESIDE)
        for number, name in enumerate(names):
            server.deploy(_session(settings, name, 1 + number, profile))
            # Both ways are planned by one profile.
            profile = profile or server.profile(name)
        with server.start(port=0) as api:
            best[way], tried = _searched(client, api, settings, names, 1000 / server.profile(names[0]).latencies[1])
        rows += [cpu_row(f"{way}, {rate:.1f}/s", one) for rate, one in sorted(tried.items())]
    report.table(
        f"{_MODELS} x {settings.model} over HTTP on one backend of {settings.threads} threads, SLO "
        f"{settings.slo_ms:g} ms, {settings.seconds:g} s a try",
        ("models, rate", "in time", "p50 ms", "p99 ms", "sent late by, p99 ms", *cpu_columns(), "ended"),
        rows,
    )
    if best[_BESIDE]:
        meaning = f"highest good rate of {_MODELS} models on one backend, in turn / in parallel (paper: 1.1 to 1.3)"
        report.ratio("in_turn_over_parallel", best[_TURNS] / best[_BESIDE], meaning)


def _session(settings: Settings, name: str, seed: int, profile: BatchingProfile | None) -> Session:
    """Return a session of the network with weights of its own seed, so that it shares no layer."""
    model, size, slo = settings.model, settings.image_size, settings.slo_ms
    return Session(name, model=model, image_size=size, slo_ms=slo, profile=profile, seed=seed, rate=1)


def _searched(
    client: Client, api: Api, settings: Settings, names: list[str], capacity: float
) -> tuple[float, dict[float, Loaded]]:
    """Search the highest good rate of all models together; return it with the outcome of each rate."""
    tried: dict[float, Loaded] = {}

    def share(rate: float) -> float:
        tried[rate] = client.run(api, Load(dict.fromkeys(names, rate / _MODELS), settings.seconds, settings.slo_ms))
        print(f"{_MODELS} models at {rate:.1f}/s: {100 * tried[rate].share:.1f} % in time", file=sys.stderr)
        return tried[rate].share

    client.run(api, Load(dict.fromkeys(names, 0.1 * capacity), _WARM_S, settings.slo_ms))
    return highest(share, 0.6 * capacity), tried
