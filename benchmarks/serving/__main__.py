"""Networks served over HTTP by Spark tasks, loaded by a process of its own: the rate at which 99 % are in time.

``python -m benchmarks.serving`` sends requests that are due at random times (Poisson), answered or not, and searches
the highest rate at which 99 % of them are answered within the SLO of when they were due. That is compared with the best
bare loop over the same images, and with the simulator; at twice the rate most of it has to remain. Then: what REST,
routing and the hop to a task take without a model; ten heads over one trunk beside ten models; sixteen emulated
accelerators, which sleep as long as a published profile says; and with ``--only parallel`` three networks on one
backend, in turn and at the same time. Every table has the CPU of each part. About five minutes
on two quiet cores; ``--only`` for some parts, ``--seconds 20`` for figures to quote.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average
from benchmarks.harness.weights import found_weights
from benchmarks.serving._emulated_accelerators import emulated
from benchmarks.serving._heads import heads
from benchmarks.serving._load import Client
from benchmarks.serving._overhead import overhead
from benchmarks.serving._parallel import parallel
from benchmarks.serving._rate import Settings, rate
from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARTS = ("rate", "overhead", "heads", "emulated", "parallel")


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the networks, send the loads and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mobilenet_v2", help="of the roster")
    parser.add_argument("--weights", default="auto", help="a path, or random; auto: MobileNetV2's if installed")
    parser.add_argument("--image-size", type=int, help="pixels a side; by default the model's own")
    parser.add_argument("--slo", type=float, default=500, help="milliseconds")
    parser.add_argument("--backends", type=int, default=os.cpu_count() or 2, help="by default one a core")
    parser.add_argument("--threads", type=int, default=1, help="of a backend")
    parser.add_argument("--seconds", type=float, default=6, help="of each try of a rate")
    parser.add_argument("--heads", type=int, default=10)
    parser.add_argument("--accelerators", type=int, default=16, help="that are emulated")
    parser.add_argument("--stretch", type=float, default=40, help="how much slower than published they are")
    parser.add_argument("--only", nargs="*", choices=_PARTS, default=_PARTS[:-1])
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    for name in ("slo", "backends", "threads", "seconds", "heads", "accelerators", "stretch"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} {getattr(options, name)}: above 0")
    started, load = time.perf_counter(), load_average()
    report = Report(f"Serving within deadlines, {os.cpu_count()} cores; the load comes from a process of its own")
    weights = found_weights(options.weights, options.model)
    settings = Settings(
        options.model, weights, options.image_size, options.backends, options.threads, options.slo, options.seconds
    )
    slots = max(options.backends, options.accelerators) + 2
    # A process that served another model before would have its memory still.
    conf = {"spark.ui.enabled": "false", "spark.python.worker.reuse": "false"}
    spark = session(f"local[{slots}]", conf=conf)
    with Client() as client:
        parts = {
            "rate": lambda: rate(report, spark, client, settings),
            "overhead": lambda: overhead(report, spark, client),
            "heads": lambda: heads(report, spark, settings, options.heads),
            "emulated": lambda: emulated(report, spark, client, options),
            "parallel": lambda: parallel(report, spark, client, settings),
        }
        for name in options.only:
            parts[name]()
    spark.stop()
    took = time.perf_counter() - started
    report.note(f"Took {took:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
