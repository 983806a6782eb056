"""Overhead of REST, routing and the hop to a Spark task, by requests for a model that computes nothing."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness.photographs import jpegs
from benchmarks.serving._load import Load
from benchmarks.serving.emulated_model import EmulatedModel
from optimizer.serving import BatchingProfile
from udfs.serving import TensorSpec
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.harness.report import Report
    from benchmarks.serving._load import Client
    from vista_spark.serving import Api

__all__ = ["overhead"]

_REQUESTS = 200
_WARM = 20
_SLO_MS = 500.0
_TARGET_MS = 5.0

# Of the model: nothing that a clock could tell from none.
_NOTHING = BatchingProfile({1: 1e-3, 64: 1e-3})


def overhead(report: Report, spark: SparkSession, client: Client) -> None:
    """Ask one request at a time, an image's bytes each, over HTTP and from the driver."""
    nothing = EmulatedModel(_NOTHING, inputs=(TensorSpec("image", "bytes", (-1,)),))
    session = Session("nothing", model=nothing, inputs=nothing.inputs, profile=nothing.stretched, slo_ms=_SLO_MS)
    server = Server(spark, backends=1).deploy(session)
    over_http = {}
    for where, processes in (("a thread of the driver", 0), ("a process of its own", 1)):
        with server.start(port=0, front_ends=processes) as api:
            client.run(api, Load({"nothing": 1.0}, 1.0, _SLO_MS, alone=_WARM))
            over_http[where] = client.run(api, Load({"nothing": 1.0}, 1.0, _SLO_MS, alone=_REQUESTS))
            from_driver = _from_driver(api)
    inner = statistics.median(from_driver)
    rows = [("the driver", f"{inner:.2f}", f"{np.percentile(from_driver, 99):.2f}", "route, hop and back")]
    for where, found in over_http.items():
        p50, p99 = found.worst("p50_ms"), found.worst("p99_ms")
        rows.append((f"a client, by {where}", f"{p50:.2f}", f"{p99:.2f}", f"REST takes {p50 - inner:.2f} ms of it"))
    report.table(
        f"A model that computes nothing, {_REQUESTS} requests one after the other, a JPEG each",
        ("from", "p50 ms", "p99 ms", "what it is"),
        rows,
    )
    for name, found in zip(("overhead", "overhead_of_processes"), over_http.values(), strict=True):
        report.ratio(name, _TARGET_MS / found.worst("p50_ms"), f"{_TARGET_MS:g} ms / p50 of REST, route and hop", 1.0)


def _from_driver(api: Api) -> list[float]:
    files = jpegs(8)
    took = []
    for number in range(_WARM + _REQUESTS):
        began = time.perf_counter()
        api["nothing"].execute(files[number % len(files)]).result(30)
        took.append(1000 * (time.perf_counter() - began))
    return took[_WARM:]
