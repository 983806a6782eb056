"""Adapting pre-trained networks while labels come in, against training each candidate alone: Nautilus's Table 3.

The paper's five workloads on networks for two cores: MiniLM on tweets with BIO tags (feature transfer FTR-1 to FTR-3,
and adapters ATR) and MobileNetV2 on photographs (fine-tuning, FTU); FTU-keras is a CNN of Keras on Fashion-MNIST.
Labels come in cycles, and each trains all candidates on all labels so far. ``python -m benchmarks.adaptation`` takes
minutes: FTR-2 alone, with a few of its candidates. What is to be quoted takes hours: ``--workloads all --candidates 0
--no-brief --cycles 4 --records 250 --rates 3 --epochs 1``.

Arms of one run. *Current practice*: bare torch or Keras, one candidate after the other from whole checkpoint to whole
checkpoint, in the best of processes x threads (and memory layouts), which the run tries first. *FLOPs optimal*: its
seconds divided by equation 11. *Time optimal*: bare, and the branches alone, features in memory. *Ours*:
``cerebro_spark.Adaptation`` on two workers of one thread. *MAT-ALL*: the same told that reads cost nothing, without
fusing. All have the same functions, records and rows for training, and evaluate after every epoch.

``--theory`` prints equation 11 on BERT-base (128 tokens) and ResNet-50 beside the published speedups, and runs nothing.
``--figure 6a,6b,6c,7,8,9,10,11`` makes the paper's figures.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.adaptation._figures import FIGURES, flops_optimal
from benchmarks.adaptation._runs import Runs
from benchmarks.adaptation._spark_arms import MAT_ALL, OURS, Unfrozen, grid_search, opened
from benchmarks.adaptation._theory import PUBLISHED, theory
from benchmarks.adaptation._workloads import WORKLOADS, Scale
from benchmarks.harness.report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.adaptation._outcome import Measured

_WORKERS = 2
_MIB = 2**20


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Scale()
    parser.add_argument("--workloads", default="FTR-2", help=f"all, or some of {', '.join(WORKLOADS)}")
    parser.add_argument("--cycles", type=int, default=usual.cycles)
    parser.add_argument("--records", type=int, default=usual.records, help="of a cycle; a fifth validates")
    parser.add_argument("--rates", type=int, default=usual.rates, choices=(1, 2, 3), help="learning rates")
    parser.add_argument("--epochs", type=float, default=usual.epochs, help="times the paper's 5 (10 in FTR-3)")
    parser.add_argument("--tokens", type=int, default=usual.tokens, help="of a tweet")
    parser.add_argument("--pixels", type=int, default=usual.pixels, help="of a photograph's side")
    parser.add_argument("--blocks", type=int, default=usual.blocks, help="of the BERT: MiniLM's six, and again")
    parser.add_argument("--theory", action="store_true", help="equation 11 of the paper's networks alone")
    parser.add_argument("--figure", default="", help=f"all, or some of {', '.join(FIGURES)}, with commas")
    parser.add_argument("--bare", action="store_true", help="without the arms on Spark")
    parser.add_argument("--candidates", type=int, default=6, help="at most so many of a workload, spread; 0: all")
    parser.add_argument(
        "--brief",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="on Spark only ours and MAT-ALL, on two workers",
    )
    parser.add_argument("--reader", type=float, metavar="MB/S", help="rate that the arms on Spark may read layers at")
    parser.add_argument("--replicas", type=int, help="workers that read each shard in ours and MAT-ALL; all by default")
    parser.add_argument("--cold", action="store_true", help="each cycle begins with a cold page cache: bytes read")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("artifacts/figures"), help="folder of the pictures")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    options.workloads = _chosen(parser, "--workloads", options.workloads, WORKLOADS)
    options.figure = _chosen(parser, "--figure", options.figure.lower(), tuple(FIGURES))
    if min(options.cycles, options.repeats) < 1 or options.records < 20:
        parser.error("--cycles and --repeats: at least 1; --records: at least 20, some of which validate")
    if options.blocks < usual.blocks:
        parser.error(f"--blocks: at least {usual.blocks}")
    if options.replicas not in (None, *range(1, _WORKERS + 1)):
        parser.error(f"--replicas: from 1 to {_WORKERS}")
    if options.reader is not None and options.reader <= 0:
        parser.error("--reader: more than 0 MB/s")
    return options


def _chosen(parser: argparse.ArgumentParser, option: str, given: str, known: Sequence[str]) -> tuple[str, ...]:
    names = tuple(known) if given == "all" else tuple(name for name in given.split(",") if name)
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"{option} {', '.join(unknown)}: all, or some of {', '.join(known)}")
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the arms and print the table."""
    options = _options(arguments)
    started, load = time.perf_counter(), load_average()
    if options.theory:
        report = Report("Adaptation: what the networks' FLOPs promise")
        theory(report, [name for name in options.workloads if name in PUBLISHED])
    else:
        fields = ("cycles", "records", "rates", "epochs", "tokens", "pixels", "blocks")
        scale = Scale(**{name: getattr(options, name) for name in fields})
        report = Report(
            f"Adaptation: {scale.cycles} cycles of {scale.records} records, {scale.rates} of 3 rates, {scale.epochs:g} "
            f"of the epochs, {scale.tokens} tokens, {scale.pixels} pixels, {scale.blocks} blocks; "
            f"medians of {options.repeats}"
        )
        spark = None if options.bare else opened(_WORKERS)
        with Runs(options.workloads, scale, options.repeats, spark, options.candidates) as runs:
            if options.figure:
                options.out.mkdir(parents=True, exist_ok=True)
            for number in options.figure:
                FIGURES[number](report, runs, options.out)
            if not options.figure:
                for name in options.workloads:
                    _workload(report, runs, name, options)
                if spark is not None and not options.brief:
                    _nothing_frozen(report, runs)
            for what, seconds in runs.probes.items():
                tried = ", ".join(f"{how} {taken:.2f} s" for how, taken in seconds.items())
                report.note(f"{what}: tried {tried}.")
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _workload(report: Report, runs: Runs, name: str, options: argparse.Namespace) -> None:
    """Run all arms of a workload, and add their table and ratios."""
    cold: bool = options.cold
    rate = options.reader and options.reader * 1e6
    work = runs.workload(name)
    speedup = runs.speedup(work)
    current = runs.current(work, cold=cold)
    best = runs.time_optimal(work)
    optimal = flops_optimal(current, speedup)
    arms = [current, optimal, best]
    if runs.spark is not None:
        held = {"bytes_per_second": rate, "replicas": options.replicas}
        ours = runs.ours(work, replace(OURS, **held), cold=cold)
        every = runs.ours(work, replace(MAT_ALL, **held), cold=cold)
        arms += [every, ours]
        report.ratio(f"over_flops_optimal.{name}", optimal.total / ours.total, "FLOPs optimal / ours", 1.0)
        report.ratio(f"vs_mat_all.{name}", every.total / ours.total, "MAT-ALL / ours", 1.0)
        report.ratio(f"vs_current.{name}", current.total / ours.total, "current practice / ours")
        report.ratio(f"written.{name}", current.written / max(1, ours.written), "bytes, current practice / ours", 4.0)
        if cold:
            report.ratio(f"read.{name}", current.read / max(1, ours.read), "bytes, current practice / ours", 10.0)
        if not options.brief:
            single = replace(OURS, name="ours, one worker", workers=1, bytes_per_second=rate)
            one = runs.ours(work, single, cold=cold)
            arms.append(one)
            report.ratio(f"two_workers.{name}", one.total / ours.total, "one worker / two", 1.8)
        report.ratio(f"over_time_optimal.{name}", best.total / ours.total, "time optimal / ours")
    report.ratio(f"equation_11.{name}", speedup, "FLOPs of current practice / of what is not materialisable")
    report.ratio(f"time_optimal.{name}", current.total / best.total, "current practice / time optimal")
    report.table(
        f"{name}: {len(work.space)} candidates, {work.records.source}; equation 11: {speedup:.2f}",
        ("arm", "seconds", "initial", "by cycle", "CPU", "MiB written", "MiB read", "best", "how"),
        [_row(each, runs.cores) for each in arms],
    )


def _row(found: Measured, cores: int) -> tuple[str, ...]:
    # FLOPs optimal is no run.
    used = (f"{found.busy(cores):.0%}", f"{found.written / _MIB:,.1f}", f"{found.read / _MIB:,.1f}")
    return (
        found.arm,
        f"{found.total:.1f}",
        f"{found.initial:.1f}",
        ", ".join(f"{cycle.seconds:.1f}" for cycle in found.cycles),
        *(used if found.busy(cores) else ("", "", "")),
        f"{found.cycles[-1].best:.3f}",
        found.how,
    )


def _nothing_frozen(report: Report, runs: Runs) -> None:
    """Compare with a grid search where everything learns: then there is nothing to share."""
    work = runs.workload("FTU")
    work = replace(work, trainer=Unfrozen(work.trainer), scale=replace(work.scale, cycles=1))
    searched = min(grid_search(runs.spark, work) for _ in range(max(2, runs.repeats)))
    adapted = min(runs.ours(replace(work, name=f"FTU {turn}"), OURS).total for turn in range(max(2, runs.repeats)))
    report.ratio("vs_grid_search_nothing_frozen", searched / adapted, "GridSearch / ours, all of FTU learns", 0.98)


if __name__ == "__main__":
    main()
