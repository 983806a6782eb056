"""The highest good rate of a served network, beside a bare loop and beside the simulator."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness.bare_inference import Arrangement, Fleet, Task
from benchmarks.harness.photographs import jpegs
from benchmarks.serving._load import Load
from benchmarks.serving._search import highest, simulated_highest
from optimizer.serving import Backend
from optimizer.serving import Session as PlannedSession
from vista_spark import roster
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.harness.report import Report
    from benchmarks.serving._load import Client, Loaded
    from vista_spark.serving import Api

__all__ = ["Settings", "cpu_columns", "cpu_row", "rate"]

_BATCHES = (1, 8, 32)
_BARE_IMAGES = 64
_PARTS = ("client", "driver and front end", "JVM", "backends")

# Seconds of warm-up requests, which are not counted.
_WARM_S = 2.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the command line.

    Parameters
    ----------
    model : str
    weights : str or None
    image_size : int or None
    backends, threads : int
    slo_ms : float
    seconds : float
        Of one try of a rate.
    """

    model: str
    weights: str | None
    image_size: int | None
    backends: int
    threads: int
    slo_ms: float
    seconds: float


def rate(report: Report, spark: SparkSession, client: Client, settings: Settings) -> None:
    """Search the highest good rate over HTTP, go to twice of it, and compare with a bare loop and the simulator."""
    bare, arrangement = _bare(settings)
    server = Server(spark, backends=settings.backends, threads=settings.threads)
    card, size = settings.model, settings.image_size
    session = Session(
        card, model=card, weights=settings.weights, image_size=size, slo_ms=settings.slo_ms, rate=0.5 * bare
    )
    server.deploy(session)
    tried: dict[float, Loaded] = {}
    with server.start(port=0) as api:
        _load(client, api, settings, 0.3 * bare, _WARM_S)

        def share(rate: float) -> float:
            tried[rate] = _load(client, api, settings, rate)
            print(f"{settings.model} at {rate:.1f}/s: {100 * tried[rate].share:.1f} % in time", file=sys.stderr)
            return tried[rate].share

        best = highest(share, 0.7 * bare)
        paces = [pace for own in api.results.values() for pace in own.pace.values()]
        tried_twice = _load(client, api, settings, 2 * best, seed=1) if best else None
    report.table(
        f"{card} over HTTP, SLO {settings.slo_ms:g} ms, {settings.backends} backends x {settings.threads} threads, "
        f"{settings.seconds:g} s a try",
        ("rate", "in time", "p50 ms", "p99 ms", "sent late by, p99 ms", *cpu_columns(), "ended"),
        [cpu_row(f"{at:.1f}/s", one) for at, one in sorted(tried.items())]
        + ([] if tried_twice is None else [cpu_row(f"twice: {2 * best:.1f}/s", tried_twice)]),
    )
    refused = {how: words for one in (*tried.values(), tried_twice) if one for how, words in one.said.items()}
    if refused:
        report.note(f"To be looked into: {refused}")
    if not best or tried_twice is None:
        report.note(
            "No rate was good: every ratio of it is left out. The machine was too busy, or the SLO is too short."
        )
        return
    found = tried[best].good_rate
    pace = statistics.mean(paces) if paces else 1.0
    profile = server.profile(card)
    planned = PlannedSession(card, profile, settings.slo_ms, 1.0)
    slowed = PlannedSession(card, profile.at_speed(1 / pace), settings.slo_ms, 1.0)
    backends = [Backend(f"backend-{number}") for number in range(settings.backends)]
    simulated = simulated_highest(planned, backends, best)
    at_pace = simulated_highest(slowed, backends, best)
    known = {batch: float(profile.latencies[batch]) for batch in _BATCHES if batch <= profile.max_batch}
    batches = ", ".join(f"{batch}: {ms:.0f} ms" for batch, ms in known.items())
    report.note(
        f"Bare: {bare:.1f} images/s, {arrangement}. Profile at deploy: {batches}, decoding {profile.preprocess_ms:.1f} "
        f"ms. Simulated maximum {simulated:.1f}/s; with batches that take {pace:.2f} times the profile, as they said "
        f"at the end, {at_pace:.1f}/s. Client, front end, driver and JVM share the machine's cores with the "
        "backends; the bare loop has them alone."
    )
    report.ratio("vs_bare", found / bare, "highest good rate / images/s of the best bare loop at its best batch", 0.7)
    if simulated:
        report.ratio("vs_simulated", found / simulated, "highest good rate / simulated, profile as measured", 0.9)
    if at_pace:
        report.ratio("vs_simulated_at_pace", found / at_pace, "the same, profile slowed to the pace that backends had")
    twice = tried_twice.good_rate / found
    report.ratio("overload", twice, "good rate at twice the highest good rate / highest good rate", 0.9)
    report.fact("highest_good_rate", round(found, 2))
    report.fact("bare_images_per_s", round(bare, 2))


def _load(
    client: Client, api: Api, settings: Settings, rate: float, seconds: float | None = None, seed: int = 0
) -> Loaded:
    load = Load({settings.model: rate}, settings.seconds if seconds is None else seconds, settings.slo_ms, seed)
    return client.run(api, load)


def _bare(settings: Settings) -> tuple[float, str]:
    """Return images per second and name of the fastest bare loop with as many cores as the backends have."""
    card = roster.card(settings.model)
    size = settings.image_size
    preprocessing = card.preprocessing if size is None else card.preprocessing.with_size(size)
    task = Task(settings.model, settings.weights, (card.resolve(1)[0].module,), preprocessing)
    files = jpegs(_BARE_IMAGES)
    cores = settings.backends * settings.threads
    rates: dict[Arrangement, float] = {}
    for processes in dict.fromkeys((cores, 1)):
        with Fleet(task, files, processes, keep_memory=True) as fleet:

            def tried(layout: str, batch: int, processes: int = processes, fleet: Fleet = fleet) -> Arrangement:
                arrangement = Arrangement(processes, 1, cores // processes, layout, batch, keep_memory=True)
                fleet.run(arrangement, max(batch, 16) * processes)
                # Another program that runs meanwhile makes a run longer, and nothing makes one shorter.
                seconds = min(fleet.run(arrangement, _BARE_IMAGES)[0] for _ in range(2))
                rates[arrangement] = _BARE_IMAGES / seconds
                return arrangement

            layout = max((tried(layout, _BATCHES[1]) for layout in ("NCHW", "NHWC")), key=lambda one: rates[one]).layout
            for batch in (_BATCHES[0], *_BATCHES[2:]):
                tried(layout, batch)
    best = max(rates, key=lambda one: rates[one])
    return rates[best], str(best)


def cpu_columns() -> tuple[str, ...]:
    """Return the column names of :func:`cpu_row`: cores that each part used."""
    return tuple(f"{part}, cores" for part in _PARTS)


def cpu_row(name: str, loaded: Loaded) -> tuple[str, ...]:
    """Format a load as a row of a table."""
    ended = ", ".join(f"{how} {count}" for how, count in loaded.ended.most_common())
    times = (f"{loaded.worst(key):.0f}" for key in ("p50_ms", "p99_ms", "lag_p99_ms"))
    cpu = (f"{loaded.cpu[part]:.2f}" for part in _PARTS)
    return name, f"{100 * loaded.share:.1f} %", *times, *cpu, ended
