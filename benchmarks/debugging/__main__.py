"""Data debugging with 5 % of the labels flipped: recall of the flips, and the accuracy that corrections bring back.

``python -m benchmarks.debugging`` takes a real table (the adult census) and real images (scikit-learn's handwritten
digits). It trains networks on right labels, on flipped labels, and on labels that a reviewer has corrected among the 10
% most suspicious rows of ``find_label_errors``. All runs are searches on Spark with two workers of one thread each.
Recalls are compared with cleanlab's own on the same out-of-sample probabilities. Takes less than five minutes on two
idle cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the loop on each data set, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=["adult", "digits"], default=["adult", "digits"])
    parser.add_argument("--adult-rows", type=int, default=2000, help="training rows of the table")
    parser.add_argument("--digits-rows", type=int, default=900, help="training rows of the images, of 1,797")
    parser.add_argument("--repeats", type=int, default=4, help="networks per training, whose accuracies are averaged")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    # They import torch and Spark.
    from benchmarks.debugging._data import adult, digits
    from benchmarks.debugging._loop import run_loop
    from cerebro_spark import Store
    from vista_spark import session

    started, load = time.perf_counter(), load_average()
    report = Report("Data debugging with 5 % flipped labels")
    sets = {"adult": lambda: adult(options.adult_rows), "digits": lambda: digits(options.digits_rows)}
    rows = []
    spark = session("local[2]", conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
    try:
        for name in options.data:
            with tempfile.TemporaryDirectory() as folder:
                result = run_loop(spark, Store.from_uri(folder), sets[name](), options.repeats, options.folds)
            for share, recall in result.recall.items():
                percent = round(100 * share)
                report.ratio(f"{name}_recall_{percent}", recall, f"flipped rows among the first {percent} %")
                theirs = result.cleanlab_recall[share]
                report.ratio(f"{name}_recall_{percent}_vs_cleanlab", recall / theirs, "recall / cleanlab's", 1)
            report.ratio(f"{name}_recovered", result.recovered, "accuracy won back / accuracy lost", 0.5)
            accuracies = (result.clean, result.flipped, result.corrected)
            rows.append(
                [
                    name,
                    *(f"{accuracy:.4f}" for accuracy in accuracies),
                    f"{result.training_seconds:.0f}",
                    f"{result.search_seconds:.0f}",
                    f"{options.repeats} networks, {options.folds} folds",
                ]
            )
    finally:
        spark.stop()
    columns = ["data", "right labels", "flipped", "corrected", "training s", "find_label_errors s", "what"]
    report.table("Accuracy on held-out rows with right labels", columns, rows)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
