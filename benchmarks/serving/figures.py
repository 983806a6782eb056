"""Nexus's tables and figures, planned by ``optimizer.serving`` and simulated.

``python -m benchmarks.serving.figures`` packs drawn instances and those of appendix A by Algorithm 3.1, by the search
and by the proven optimum, plans 1,000 sessions, splits queries and compares with brute force, and recomputes Tables 3.1
to 3.4 and Figure 3.20. Then it simulates: Figures 3.12 and 3.13 (policies of dispatch), overload by two, Table 3.6
(balancing), Figure 3.19 (against a scheduler that knows nothing of batches), Figure 3.22 (a load that rises and
falls), the case studies (Figures 3.14 and 3.15) with arms that plan and dispatch as TF Serving and Clipper do, models
that share a backend (Figure 3.16, and by policy) or a trunk (Figures 3.17 and 3.18), and splits of a query (Figure
3.21). Latencies are lines, those of the seeds where they print any; what batches gain (Figure 3.3), 3.17 and 3.18 run
networks, with random weights, for their profiles on this CPU. It needs one core; times are CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average
from benchmarks.serving._cases import games, query_splits, traffic
from benchmarks.serving._packing import packing, splits, tables
from benchmarks.serving._sharing import batching, multiplexing, policies, prefixes, suffixes
from benchmarks.serving._simulated_dispatch import balancing, dispatch, oblivious, workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SIMULATED = (
    dispatch,
    balancing,
    oblivious,
    games,
    traffic,
    batching,
    multiplexing,
    policies,
    prefixes,
    suffixes,
    query_splits,
)
_PARTS = ("packing", "tables", "splits", *(part.__name__ for part in _SIMULATED), "workload")


def main(arguments: Sequence[str] | None = None) -> None:
    """Plan, simulate and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=40, help="drawn for packing; the figures quote 1000")
    parser.add_argument("--queries", type=int, default=10, help="drawn for splits")
    parser.add_argument("--sessions", type=int, default=1000, help="of the plan that is timed")
    parser.add_argument("--seconds", type=float, default=20, help="of each simulation")
    parser.add_argument("--epochs", type=int, default=20, help="of 30 s, of Figure 3.22")
    parser.add_argument("--only", nargs="*", choices=_PARTS, default=_PARTS)
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    for name in ("instances", "queries", "sessions", "seconds", "epochs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: at least 1")
    started, load = time.process_time(), load_average()
    report = Report("Serving within deadlines: planned and simulated")
    parts: dict[str, Callable[[], None]] = {
        "packing": lambda: packing(report, options.instances, options.sessions),
        "tables": lambda: tables(report),
        "splits": lambda: splits(report, options.queries),
        "workload": lambda: workload(report, options.epochs),
    }
    parts |= {part.__name__: partial(part, report, options.seconds) for part in _SIMULATED}
    for name in options.only:
        parts[name]()
    took = time.process_time() - started
    report.note(f"Took {took:.0f} CPU s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
