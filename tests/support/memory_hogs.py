"""Tasks that take more memory than an executor has: the job of the tests of the memory guard."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark import TaskContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = ["LIMIT", "endless", "pairs", "settings"]

MIB = 2**20
LIMIT = "1400m"
# The JVM takes 350 to 500 MiB, a worker 100 before it computes.
_PAIR_MIB = 600
_WAIT_S = 90.0


def settings(**added: str) -> dict[str, str]:
    """Return the settings of a Spark whose executor has room for one of two tasks."""
    small = {"spark.ui.enabled": "false", "spark.driver.memory": "480m", "spark.executor.memory": "480m"}
    return small | {"spark.cerebro.memory.limit": LIMIT} | added


def _mark(folder: Path, name: str) -> None:
    folder.joinpath(name).write_text(str(os.getpid()))


def _grown(mebibytes: int) -> list[np.ndarray]:
    blocks = []
    for _ in range(mebibytes // 10):
        blocks.append(np.ones(10 * MIB // 8))
        time.sleep(0.03)
    return blocks


def pairs(batches: Iterator[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Grow at the same time as the other task, in the first try."""
    context = TaskContext.get()
    assert context is not None
    partition, attempt = context.partitionId(), context.attemptNumber()
    _mark(folder, f"begun-{partition}-{attempt}")
    until = time.monotonic() + _WAIT_S
    while attempt == 0 and len(list(folder.glob("begun-*-0"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    blocks = _grown(_PAIR_MIB)
    time.sleep(3)
    assert blocks
    _mark(folder, f"ended-{partition}-{attempt}")
    yield from batches


def endless(batches: Iterator[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Grow without end in the first partition, deaf to SIGTERM."""
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _mark(folder, f"begun-0-{context.attemptNumber()}")
        _grown(4000)
    yield from batches


if __name__ == "__main__":
    import memory_hogs
    from pyspark import cloudpickle

    from vista_spark import session

    cloudpickle.register_pickle_by_value(memory_hogs)
    job, master, place = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = session(master, conf=settings(), ship=not master.startswith("local"))
    function = getattr(memory_hogs, job)
    rows = spark.range(0, 2, 1, 2).mapInArrow(lambda batches: function(batches, place), "id long").collect()
    sys.stdout.write(f"ROWS {sorted(row.id for row in rows)}\n")
