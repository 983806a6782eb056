"""One operator of scikit-learn at a time, compiled, beside scikit-learn and ONNX Runtime: thesis Tables 5.11 and 5.12.

``python -m benchmarks.compiling.operators`` fits the thesis's 13 operators on Iris, widened to 20 columns by noise, and
times each side on the same rows of float32 with the same number of threads: milliseconds of CPU, medians of five warm
calls. Predictors predict classes, featurizers transform. Then the same of one row, and the time from a fitted operator
to its first answer. ``--rows 1000000`` is the thesis's size, and takes minutes for the support vector machines.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compiling._times import Spent

_AHEAD, _SLOWEST = 11, 0.7
_SIDES = ("scikit-learn", "ONNX Runtime", "compiled")


def main(arguments: Sequence[str] | None = None) -> None:
    """Time the operators and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1, help="of each side")
    parser.add_argument("--operators", help="some of them by class, with commas; all by default")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    from benchmarks.compiling._operators import OPERATORS, measured  # libraries read the variable on import
    from benchmarks.harness.report import Report, load_average

    wanted = list(OPERATORS) if options.operators is None else options.operators.split(",")
    unknown = set(wanted) - set(OPERATORS)
    if unknown:
        sys.exit(f"--operators {', '.join(sorted(unknown))}: there are {', '.join(OPERATORS)}")
    report = Report(f"operators, {options.rows:,} rows, {options.threads} thread(s), load {load_average()}")
    found = {name: measured(OPERATORS[name], options.rows, options.threads) for name in wanted}
    for title, part, scale in (
        (f"Table 5.11: milliseconds of CPU for {options.rows:,} rows", "many", 1e3),
        ("Table 5.12: microseconds of CPU for one row", "one", 1e6),
    ):
        rows = [
            (name, *(f"{getattr(one, part)[side].cpu * scale:.1f}" for side in _SIDES), _gains(getattr(one, part)))
            for name, one in found.items()
        ]
        report.table(title, ("operator", *_SIDES, "over scikit-learn; over ONNX Runtime"), rows)
    report.table(
        "Milliseconds by the clock of conversion, the first answer to one row included",
        ("operator", *_SIDES[1:], ""),
        [(name, *(f"{one.converted_s[side] * 1e3:.1f}" for side in _SIDES[1:]), "") for name, one in found.items()],
    )
    gains = {name: one.many["scikit-learn"].cpu / one.many["compiled"].cpu for name, one in found.items()}
    for name, gain in gains.items():
        report.ratio(f"vs_sklearn.{name}", gain, "CPU seconds of scikit-learn over those of compiled")
    ahead = sum(gain > 1 for gain in gains.values())
    report.ratio("ahead", ahead / len(gains), f"{ahead} operators of {len(gains)} ahead", _AHEAD / len(OPERATORS))
    report.ratio("slowest", min(gains.values()), "the least of these ratios", _SLOWEST)
    singles = [one.one["scikit-learn"].cpu / one.one["compiled"].cpu for one in found.values()]
    report.ratio("slowest_one_row", min(singles), "one row: the least of them")
    report.show(as_json=options.json)


def _gains(spent: dict[str, Spent]) -> str:
    return "; ".join(f"{spent[side].cpu / spent['compiled'].cpu:.2f}" for side in _SIDES[:2])


if __name__ == "__main__":
    main()
