"""Plans under enforced memory limits: finished, refused with a reason, or crashed.

``python -m benchmarks.transfer.crash_matrix`` runs every plan for every model under every limit, each in processes of
its own, all of them together under one limit (a cgroup where this user may make one, a watchdog like YARN's
otherwise). The naive plans run as one would set Spark up by habit: three quarters of the memory for the JVM, a task
on every core, as many partitions as Spark chooses. ``--guard`` runs each of them once more with the JVM plugin's memory
guard. Ours runs as `vista plan` says. Every cell extracts the same layers from the same photographs and trains the same
models. What counts: ours never crashes, finishes where it said that it would, and stays below its prediction; with the
guard a naive plan finishes, or fails with ``PythonWorkerMemoryExceeded``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.memory_limit import Outcome, enforcement, run_limited
from benchmarks.harness.report import Report, load_average
from optimizer.sizes import number_of_bytes
from vista_spark.network import profile

if TYPE_CHECKING:
    from collections.abc import Sequence

_CELL = "benchmarks.transfer._crash_cell"

# Name, logical plan, task slots (0: every core).
_PLANS = (
    ("lazy, 1 worker", "lazy", 1),
    ("lazy, all cores", "lazy", 0),
    ("eager, all cores", "eager", 0),
    ("pre-materialised, all cores", "pre-materialised", 0),
)
_OURS = ("ours", "auto", 0)
# Output of a crash that is caused by insufficient memory, unless the system killed the process.
_MEMORY = re.compile("OutOfMemory|not enough memory|heap space|cannot allocate memory", re.IGNORECASE)

_FEW = ("lazy, all cores",)

_GUARD = ", guard"
_EXCEEDED = "PythonWorkerMemoryExceeded"

# A naive plan that takes so many times ours is stopped.
_PATIENCE = 2

_USUAL: dict[str, Any] = {
    "downstream": "logistic",
    "features": 1,
    "heap": 0,
    "join": None,
    "partitions": None,
    "pooling": None,
}

# Vista, section 4.1.1, names four ways to crash. The first is the matrix itself: networks beside a heap of 3/4.
# Of the others each is set up as one would by habit for SQL: a small heap, Spark's own broadcast, one partition a core.
_SCENARIOS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "2: user memory, a forest on 62,720 features",
        {
            "layers": "conv18",
            "pooling": "none",
            "downstream": "forest",
            "heap": 450 << 20,
            "plan": "eager",
            "images": 512,
        },
    ),
    (
        "3: one large partition, of a layer kept whole",
        {"layers": "block1", "pooling": "none", "partitions": 1, "heap": 700 << 20, "plan": "eager", "images": 256},
    ),
    (
        "4: the driver, which broadcasts 60,000 columns",
        {"layers": "pool", "features": 60_000, "join": "broadcast", "heap": 700 << 20, "plan": "eager", "images": 512},
    ),
)


@dataclass(frozen=True)
class Cell:
    """Cell of the matrix: one run.

    Attributes
    ----------
    verdict : {"finished", "refused", "crashed", "timed out"}
    predicted_bytes : int
        The plan's peak; 0 for a naive plan and a refused one.
    outcome : Outcome
    said : str
        Why it was refused, or what it said last.
    """

    model: str
    limit: str
    plan: str
    verdict: str
    predicted_bytes: int
    outcome: Outcome
    said: str

    @property
    def measured_over_predicted(self) -> float | None:
        """Ratio of measured to predicted bytes, of a plan of ours that ran."""
        return self.outcome.peak_bytes / self.predicted_bytes if self.predicted_bytes else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the matrix and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mobilenet_v2,alexnet,vgg16")
    parser.add_argument("--plans", choices=("few", "all"), default="few", help=f"beside ours; few: {_FEW[0]}")
    parser.add_argument(
        "--scenarios",
        choices=("yes", "no", "only"),
        default="no",
        help="2 to 4 of the paper's four, after or instead of the matrix",
    )
    parser.add_argument("--guard", action="store_true", help="run the naive plans with the memory guard as well")
    parser.add_argument("--limits", default="3g", help="of all processes together, with commas")
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--layers", type=int, default=3, help="the top so many")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds a cell")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    models = options.models.split(",") if options.scenarios != "only" else []
    for model in models:
        profile(model)  # measured before, and outside of any limit
    plans = [plan for plan in _PLANS if options.plans == "all" or plan[0] in _FEW]
    if options.guard:
        plans += [(f"{name}{_GUARD}", logical, slots) for name, logical, slots in plans]
    cells = []
    for model in models:
        for limit in options.limits.split(","):
            ours = _run(model, limit, _OURS, options, {}, options.timeout)
            # One that pages its own code in and out may take hours to fail.
            patience = min(options.timeout, _PATIENCE * max(ours.outcome.seconds, 20.0))
            cells += [*(_run(model, limit, plan, options, {}, patience) for plan in plans), ours]
    for name, scenario in _SCENARIOS if options.scenarios != "no" else ():
        habit = (f"scenario {name}, by habit", scenario["plan"], 0)
        ours = {key: scenario[key] for key in scenario.keys() - {"heap", "join", "partitions", "plan"}}
        cells += [
            _run("mobilenet_v2", "4g", habit, options, scenario, options.timeout),
            _run("mobilenet_v2", "4g", (f"scenario {name}, ours", "auto", 0), options, ours, options.timeout),
        ]
    _report(cells, options)


def _run(
    model: str,
    limit: str,
    plan: tuple[str, str, int],
    options: argparse.Namespace,
    scenario: dict[str, Any],
    timeout: float,
) -> Cell:
    name, logical, slots = plan
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        wanted = {
            "model": model,
            "slots": slots or options.cores,
            "limit": number_of_bytes(limit),
            "images": options.images,
            "layers": options.layers,
            "answer": str(answer),
            "scratch": folder,
            "guard": name.endswith(_GUARD),
            **_USUAL,
            **scenario,
            "plan": logical,
        }
        outcome = run_limited(
            [sys.executable, "-m", _CELL, json.dumps(wanted)], number_of_bytes(limit), timeout=timeout, environment={}
        )
        said: dict[str, Any] = json.loads(answer.read_text()) if answer.is_file() else {}
    if outcome.timed_out:
        verdict = "timed out"
    elif "refused" in said:
        verdict = "refused"
    elif outcome.returncode == 0 and said.get("scores"):
        verdict = "finished"
    elif _EXCEEDED in outcome.output and not outcome.killed:
        verdict = "refused"
    elif outcome.killed or _MEMORY.search(outcome.output):
        verdict = "crashed"
    else:
        raise SystemExit(f"{model} {limit} {name} failed for a reason other than memory:\n{outcome.output}")
    last = (outcome.output.strip().splitlines() or [""])[-1]
    words = said.get("refused") or (last[:100] if verdict != "finished" else "")
    cell = Cell(model, limit, name, verdict, int(said.get("predicted_bytes", 0)), outcome, words)
    print(f"{model} {limit} {name}: {verdict}, {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    return cell


def _report(cells: list[Cell], options: argparse.Namespace) -> None:
    report = Report(
        f"Crash matrix: {options.images} photographs, top {options.layers} layers, {options.cores} cores, "
        f"limits by {enforcement()}; load {load_average()}"
    )
    mega = 2**20
    report.table(
        "Every plan under every limit",
        (
            "model, limit, plan",
            "verdict",
            "seconds",
            "peak MiB",
            "predicted MiB",
            "ratio",
            "jvm / workers / driver MiB, and why",
        ),
        [
            (
                f"{cell.model}, {cell.limit}, {cell.plan}",
                cell.verdict + (" (killed)" if cell.outcome.killed else ""),
                f"{cell.outcome.seconds:.0f}",
                f"{cell.outcome.peak_bytes / mega:,.0f}",
                f"{cell.predicted_bytes / mega:,.0f}" if cell.predicted_bytes else "",
                f"{ratio:.2f}" if (ratio := cell.measured_over_predicted) else "",
                " / ".join(
                    f"{cell.outcome.by_process.get(kind, 0) / mega:,.0f}" for kind in ("jvm", "worker", "driver")
                )
                + (f"; {cell.said}" if cell.said else ""),
            )
            for cell in cells
        ],
    )
    ours = [cell for cell in cells if cell.plan.endswith("ours")]
    failed = ("crashed", "timed out")
    report.ratio(
        "crashes_ours", sum(cell.verdict in failed for cell in ours), f"cells of {len(ours)} in which ours crashed", 0
    )
    guarded = [cell for cell in cells if cell.plan.endswith(_GUARD)]
    naive = [cell for cell in cells if not cell.plan.endswith(("ours", _GUARD))]
    report.ratio(
        "crashes_naive",
        sum(cell.verdict in failed for cell in naive),
        f"cells of {len(naive)} in which a naive plan crashed",
        1,
    )
    if guarded:
        report.ratio(
            "crashes_guarded",
            sum(cell.verdict in failed for cell in guarded),
            f"cells of {len(guarded)} in which a naive plan crashed with the guard",
            0,
        )
    ratios = [ratio for cell in ours if cell.verdict == "finished" and (ratio := cell.measured_over_predicted)]
    if ratios:
        report.ratio("measured_over_predicted_min", min(ratios), "peak measured / predicted, ours, the lowest", 0.7)
        report.ratio("measured_over_predicted_max", max(ratios), "the highest: never above 1", 1.0)
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
