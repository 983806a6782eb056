"""Sixteen emulated accelerators on a few cores: real serving of models that sleep instead of computing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.serving._load import Load
from benchmarks.serving._rate import cpu_columns, cpu_row
from benchmarks.serving._search import highest, simulated_highest
from benchmarks.serving.emulated_model import EmulatedModel
from optimizer.serving import Backend, BatchingProfile
from optimizer.serving import Session as PlannedSession
from udfs.serving.http import HttpLimits
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from argparse import Namespace

    from pyspark.sql import SparkSession

    from benchmarks.harness.report import Report
    from benchmarks.serving._load import Client, Loaded

__all__ = ["emulated"]

# The model of Figure 3.12: milliseconds of a batch of b, and its SLO.
_PER_ITEM_MS, _FIXED_MS, _LARGEST = 0.69, 5.0, 128
_SLO_MS = 100.0


def emulated(report: Report, spark: SparkSession, client: Client, options: Namespace) -> None:
    """Search the highest good rate of many accelerators, and compare it with the simulated one."""
    count, stretch = options.accelerators, options.stretch
    profile = BatchingProfile.from_line(_PER_ITEM_MS, _FIXED_MS, _LARGEST)
    model = EmulatedModel(profile, stretch)
    slo = stretch * _SLO_MS
    planned = PlannedSession("inception", model.stretched, slo, 1.0)
    backends = [Backend(f"backend-{number}") for number in range(count)]
    simulated = simulated_highest(planned, backends, 0.8 * count * planned.peak_rate)
    session = Session(
        "inception", model=model, inputs=model.inputs, profile=model.stretched, slo_ms=slo, rate=0.5 * simulated
    )
    seconds = max(options.seconds, 3 * slo / 1000)
    # All that come before a deadline ends may wait at a time: the deadlines are stretched, and the rates are not.
    limits = HttpLimits(in_flight=int(2 * simulated * slo / 1000))
    tried: dict[float, Loaded] = {}
    with Server(spark, backends=count).deploy(session).start(port=0, limits=limits) as api:
        client.run(api, Load({"inception": 0.2 * simulated}, 2.0, slo, body="tensor"))

        def share(rate: float) -> float:
            tried[rate] = client.run(api, Load({"inception": rate}, seconds, slo, body="tensor"))
            print(f"{session.name} at {rate:.1f}/s: {100 * tried[rate].share:.1f} % in time", file=sys.stderr)
            return tried[rate].share

        best = highest(share, 0.85 * simulated, 0.1)
    report.table(
        f"emulated: {count} accelerators with l(b) = {_PER_ITEM_MS} b + {_FIXED_MS:g} ms and an SLO of {_SLO_MS:g} ms, "
        f"all {stretch:g} times slower",
        ("rate", "in time", "p50 ms", "p99 ms", "sent late by, p99 ms", *cpu_columns(), "ended"),
        [cpu_row(f"emulated, {at:.0f}/s", one) for at, one in sorted(tried.items())],
    )
    report.note(f"emulated: the simulated maximum is {simulated:.0f}/s.")
    if best:
        meaning = f"emulated, {count} accelerators: highest good rate / simulated"
        report.ratio("emulated_vs_simulated", tried[best].good_rate / simulated, meaning, 0.9)
