"""One small network per group: GroupedSearch against ``applyInPandas`` and joblib on the same rows.

``python -m benchmarks.grouping`` draws rows of the adult census into groups of 100 and trains a network of one hidden
layer for each group: 20 epochs of Adam in batches of 32, on 75 rows, evaluated on the other 25. The peers run plain
loops of torch, one group at a time, in as many processes of one thread. Each reads the same Parquet file and keeps the
weights and the metrics of all groups. The times of GroupedSearch include the sorting, and the packing of the models.
``--groups 10000`` is the full size. By default it takes less than five minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Train all groups in three ways, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=2000, help="number of groups")
    parser.add_argument("--rows", type=int, default=100, help="rows of each group")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=32, help="width of the hidden layer")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread")
    parser.add_argument("--large", type=int, default=0, help="rows of one more group, such as 1,000 times --rows")
    parser.add_argument("--peers", nargs="*", choices=["pandas", "joblib"], default=["pandas", "joblib"])
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    # They import torch and Spark.
    from benchmarks.grouping._arms import grouped_search, with_joblib, with_pandas, write_rows
    from vista_spark import session

    started, load = time.perf_counter(), load_average()
    report = Report(f"{options.groups:,} groups of {options.rows} rows")
    conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "8"}
    spark = session(f"local[{options.workers}]", conf=conf)
    try:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder, "rows.parquet")
            write_rows(table, options.groups, options.rows, options.large)
            work = (table, options.epochs, options.hidden)
            ours = grouped_search(spark, *work, workers=options.workers, folder=Path(folder))
            peers = {}
            if "pandas" in options.peers:
                peers["applyInPandas"] = with_pandas(spark, *work)
            if "joblib" in options.peers:
                peers["joblib"] = with_joblib(*work, workers=options.workers)
    finally:
        spark.stop()
    columns = ["what", "seconds", "ms a group", "mean validation loss"]
    rows = [
        [name, f"{result.seconds:.1f}", f"{1000 * result.seconds / options.groups:.2f}", f"{result.loss:.4f}"]
        for name, result in {"GroupedSearch": ours, **peers}.items()
    ]
    rows += [[f"  {part}", f"{seconds:.1f}", "", ""] for part, seconds in ours.parts.items()]
    report.table("Time to train all groups", columns, rows)
    for name, result in peers.items():
        report.ratio(f"faster_than_{name}", result.seconds / ours.seconds, f"{name} / GroupedSearch", 5)
    report.ratio("driver_mib", ours.driver_bytes / 2**20, "growth of the driver's memory in MiB")
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
