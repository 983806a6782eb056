"""Sequential specialization in simulation: the tables of the thesis beside the corrected algorithm.

``python -m benchmarks.specialization.policy`` runs no model. Simulated models err by the accuracies of the thesis and
by confusion curves that agree with its Table 5.2 (``_thesis.py``). It prints

* Table C.1, and Tables 5.3 and 5.4 by the formula (1 - s) R + s (r + c R);
* Table 5.2 as speed-ups and differences of the accuracy to the oracle's, and changes every 10, 20 and 30 s;
* Figure 5.5: what parts of the algorithm contribute, on scenes of 5 to 60 s with a cast of eight persons. The margin
  is -0.05; elsewhere it is the default.

The variable training skew of Figure 5.5 needs trained models and is not simulated. Default: within a minute.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness.report import Report, load_average
from benchmarks.specialization._thesis import CHANGES, TABLE_52, TABLE_53, TABLE_C1, policy_of, segments_of
from optimizer.specialization import Segment, SimulatedRun, detection, draw_labels, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.specialization import Policy

_CAST = 8
_ABLATION_MARGIN = -0.05


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate all tables, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="simulations whose mean is printed")
    parser.add_argument("--minutes", type=float, default=5.0, help="length of a segment of Table 5.2")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report(f"Sequential specialization in simulation, means of {options.runs} runs")
    _table_c1(report)
    _table_53(report)
    _table_52(report, options.runs, options.minutes)
    _changes(report, options.runs, options.minutes)
    _ablations(report, options.runs, options.minutes)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _table_c1(report: Report) -> None:
    rows = []
    for number, (classes, accuracy, dominant, skew, window, support, within, other) in enumerate(TABLE_C1, 1):
        ours = detection(
            classes=classes, accuracy=accuracy, dominant=dominant, skew=skew, window=window, support=support
        )
        printed, computed = (
            [f"{p_in:.3f}" if math.isfinite(p_in) else "", f"{p_out:.3g}"]
            for p_in, p_out in ((within, other), (ours.dominant, ours.other))
        )
        rows.append([str(number), *map(str, (classes, accuracy, dominant, skew, window, support)), *printed, *computed])
    columns = ["row", "N", "a*", "n", "p", "w", "k", "p_in printed", "p_out printed", "p_in", "p_out"]
    report.table("Table C.1", columns, rows)


def _table_53(report: Report) -> None:
    rows = []
    for name, special, cascade, printed in TABLE_53:
        latency = (1 - special) * 2576 + special * (40.4 + cascade * 2576)
        rows.append([name, f"{special:.1%}", f"{cascade:.1%}", str(printed), f"{latency:.0f}"])
    columns = ["video", "special rate", "cascade rate", "ms printed", "ms by the formula"]
    report.table("Tables 5.3 and 5.4, CPU", columns, rows)


def _table_52(report: Report, runs: int, minutes: float) -> None:
    rows = []
    for row in TABLE_52:
        policy = policy_of(row.task)
        ours = _simulate(policy, _streams(segments_of(row, minutes), policy.classes, runs))
        name = "+".join(f"({n}, {p:g})" if n else "random" for n, p in row.segments)
        cells = [f"{row.speedup:.2f}", f"{ours.speedup:.2f}", f"{_formula(policy, ours):.2f}"]
        accuracy = [f"{row.accuracy:+.1f}", f"{_difference(ours):+.1f}"]
        counts = [f"{ours.special_rate:.2f}", f"{ours.cascade_rate:.2f}", f"{ours.transitions}", f"{ours.trained}"]
        rows.append([row.task, name, *cells, *accuracy, *counts])
        if row.segments == ((5, 0.9),):
            report.ratio("five_classes", ours.speedup, "(n=5, p=.9), faces: speed-up", 4)
            report.ratio("five_classes_of_formula", ours.speedup / _formula(policy, ours), "of its formula", 0.85)
        if row.segments == ((0, 0.0),):
            report.ratio(f"random_{row.task}", ours.speedup, f"random {row.task}: speed of the oracle", 0.97)
    columns = ["task", "segments (n, p)", "thesis", "speed-up", "formula", "thesis pp", "accuracy pp", "s", "c"]
    report.table("Table 5.2: speed-up, difference of accuracy", [*columns, "phases", "trained"], rows)


def _changes(report: Report, runs: int, minutes: float) -> None:
    rows = []
    for seconds, printed in CHANGES:
        policies = [policy_of("faces", counts_training=counts) for counts in (False, True)]
        segments = [Segment(5, 0.9, seconds / 60)] * max(2, round(minutes * 60 / seconds))
        streams = _streams(segments, policies[0].classes, runs)
        beside, counted = (_simulate(policy, streams) for policy in policies)
        rows.append(
            [
                f"{seconds} s",
                f"{printed:.2f}",
                *(f"{each.speedup:.2f} ({_difference(each):+.1f} pp)" for each in (beside, counted)),
            ]
        )
        report.ratio(f"changes_{seconds}", beside.speedup, f"faces, changes every {seconds} s: speed-up", printed)
    report.table("Changes, faces (n=5, p=.9)", ["every", "thesis", "speed-up", "4 s of the GPU per training"], rows)


def _ablations(report: Report, runs: int, minutes: float) -> None:
    whole = replace(policy_of("faces"), margin=_ABLATION_MARGIN)
    variants = {
        "whole algorithm": whole,
        "window of 30, without refinement": replace(whole, window=30, refines=False),
        "window of 60, without refinement": replace(whole, window=60, refines=False),
        "simple exit": replace(whole, exit="skew"),
        "without costs": replace(whole, counts_cost=False),
        "without experts": replace(whole, experts=0),
    }
    episodes = [_episode(4 * minutes, whole.classes, seed) for seed in range(runs)]
    uniform = _streams([Segment(0, 0.0, minutes)], whole.classes, runs)
    rows, base = [], None
    for name, policy in variants.items():
        ours = _simulate(policy, episodes)
        base = base or ours
        change = ours.speedup / base.speedup - 1
        noise = _simulate(policy, uniform)
        cells = [f"{ours.speedup:.2f}", f"{change:+.0%}", f"{_difference(ours):+.1f}"]
        rows.append([name, *cells, str(ours.transitions), str(ours.trained), f"{noise.speedup:.2f}"])
        report.fact(name, round(ours.speedup, 3))
    columns = ["variant", "speed-up", "relative", "accuracy pp", "phases", "trained", "random input"]
    report.table(f"Figure 5.5: scenes of 5 to 60 s with 1 to 4 of {_CAST} persons", columns, rows)


def _simulate(policy: Policy, streams: Sequence[NDArray[np.int64]]) -> SimulatedRun:
    """Return the means of a run on each stream; counts are rounded."""
    results = [simulate(policy, labels, seed=seed) for seed, labels in enumerate(streams)]
    fields = {
        name: float(np.mean([getattr(result, name) for result in results]))
        for name in SimulatedRun.__dataclass_fields__
    }
    counts = {name: round(fields.pop(name)) for name in ("transitions", "trained")}
    return SimulatedRun(**fields, **counts)


def _streams(segments: Sequence[Segment], classes: int, runs: int) -> list[NDArray[np.int64]]:
    return [draw_labels(segments, classes=classes, seed=seed) for seed in range(runs)]


def _episode(minutes: float, classes: int, seed: int) -> NDArray[np.int64]:
    """Return the faces of an episode: scenes with some of a small cast, and 5 % other faces."""
    random, frames = np.random.default_rng([seed, 2]), round(minutes * 360)
    cast, parts, left = random.choice(classes, _CAST, replace=False), [], frames
    while left > 0:
        length = int(random.integers(30, 361))
        persons = random.choice(cast, int(random.integers(1, 5)), replace=False)
        labels = persons[random.integers(len(persons), size=length)]
        parts.append(np.where(random.random(length) < 0.05, random.integers(classes, size=length), labels))
        left -= length
    return np.concatenate(parts)[:frames]


def _formula(policy: Policy, run: SimulatedRun) -> float:
    rate = policy.compacts[0].seconds / policy.seconds + run.cascade_rate
    return 1 / (1 - run.special_rate + run.special_rate * rate)


def _difference(run: SimulatedRun) -> float:
    return 100 * (run.accuracy - run.oracle_accuracy)


if __name__ == "__main__":
    main()
