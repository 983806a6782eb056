"""Runs of the adaptation benchmark, each made once however many tables and figures show it."""

from __future__ import annotations

import os
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks.adaptation import _spark_arms
from benchmarks.adaptation._bare_arms import Fleet, best_arrangement, measure
from benchmarks.adaptation._workloads import candidates, workload
from optimizer.adaptation import Costs, plan, training_flops

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Self

    from pyspark.sql import SparkSession

    from benchmarks.adaptation._bare_arms import Arrangement
    from benchmarks.adaptation._outcome import Measured
    from benchmarks.adaptation._spark_arms import Setting
    from benchmarks.adaptation._trainees import Mode
    from benchmarks.adaptation._workloads import Scale, Workload
    from optimizer.adaptation import Candidate

__all__ = ["Runs"]

_Key = tuple[str, tuple["Hashable", ...]]
"""A workload's name, and its candidates."""


@dataclass
class Runs:
    """Cache of the runs.

    Parameters
    ----------
    names : tuple of str
        Workloads.
    scale : Scale
    repeats : int
        The one of median time counts.
    spark : SparkSession or None
        None runs the bare arms alone.
    most : int
        Candidates of a workload; 0 takes all.
    """

    names: tuple[str, ...]
    scale: Scale
    repeats: int = 1
    spark: SparkSession | None = None
    most: int = 0
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    probes: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._done: dict[Hashable, Measured] = {}
        self._works: dict[str, Workload] = {}
        self._traced: dict[Hashable, list[Candidate]] = {}
        self._chosen: dict[tuple[str, Mode], tuple[Fleet, Arrangement]] = {}
        self._fleets: dict[str, list[Fleet]] = {}
        self._warm: set[str] = set()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def workload(self, name: str) -> Workload:
        """Make a workload, once."""
        if name not in self._works:
            work = workload(name, self.scale)
            # Spread over the schemes.
            step = -(-len(work.space) // self.most) if self.most else 1
            self._works[name] = replace(work, space=work.space[::step])
        return self._works[name]

    def speedup(self, work: Workload) -> float:
        """Compute equation 11 of a workload, from its traced networks."""
        found = self.candidates(work)
        # Rates and budgets do not enter equation 11.
        most = {"disk_bytes": 0, "memory_bytes": 1 << 60, "costs": Costs(1e9, 1e9)}
        return plan(found, records=work.scale.total, materialise=False, fuse=False, **most).theoretical_speedup

    def candidates(self, work: Workload) -> list[Candidate]:
        """Trace a workload's networks, once."""
        if _key(work) not in self._traced:
            self._traced[_key(work)] = candidates(work)
        return self._traced[_key(work)]

    def current(self, work: Workload, *, cold: bool = False) -> Measured:
        """Run current practice in its best arrangement."""
        return self._bare("current practice", work, "whole", cold=cold)

    def time_optimal(self, work: Workload) -> Measured:
        """Run the branches alone, in their best arrangement."""
        return self._bare("time optimal", work, "branch", cold=False)

    def ours(self, work: Workload, setting: Setting, *, cold: bool = False) -> Measured:
        """Run an arm on Spark."""
        spark = self.spark
        if spark is None:
            raise ValueError("no Spark session: the bare arms alone were asked for")

        def run() -> Measured:
            if work.framework not in self._warm:
                # As for the bare arms, whose processes have trained before the clock runs: workers import a framework.
                few = replace(work, space=work.space[:1], scale=replace(work.scale, cycles=1))
                first = _spark_arms.ours(spark, few, _spark_arms.OURS)
                self.probes[f"first campaign in {work.framework}, of one candidate"] = {"as ours": first.total}
                self._warm.add(work.framework)
            return _spark_arms.ours(spark, work, setting, cold=cold)

        return self._once((setting, _key(work), cold), run)

    def _bare(self, arm: str, work: Workload, mode: Mode, *, cold: bool) -> Measured:
        def run() -> Measured:
            flops = [sum(training_flops(each.graph).values()) * each.epochs for each in self.candidates(work)]
            # Workloads of one kind have networks of the same shapes.
            kind = work.trainer.kind
            if (kind, mode) not in self._chosen:
                layouts = ("NCHW", "NHWC") if kind == "torch CNN" else ("NCHW",)
                fleet, chosen, seconds = best_arrangement(work, self._opened(work.framework), layouts, mode, flops)
                self._chosen[kind, mode] = fleet, chosen
                self.probes[f"{arm} of {kind}"] = seconds
            return measure(arm, work, *self._chosen[kind, mode], mode, flops, cold=cold)

        return self._once((arm, _key(work), cold), run)

    def _opened(self, framework: str) -> list[Fleet]:
        if framework not in self._fleets:
            shapes = [(self.cores, 1), (1, self.cores)]
            self._fleets[framework] = [self._stack.enter_context(Fleet(*shape)) for shape in shapes]
        return self._fleets[framework]

    def _once(self, key: tuple[Hashable, _Key, bool], run: Callable[[], Measured]) -> Measured:
        if key not in self._done:
            rounds = []
            for _ in range(self.repeats):
                rounds.append(run())
                # The table comes last; a run that is broken off has said what it measured.
                print(key[1][0], rounds[-1], file=sys.stderr, flush=True)
            middle = statistics.median_low(each.total for each in rounds)
            self._done[key] = next(each for each in rounds if each.total == middle)
        return self._done[key]


def _key(work: Workload) -> _Key:
    return work.name, tuple(tuple(params.items()) for params in work.space)
