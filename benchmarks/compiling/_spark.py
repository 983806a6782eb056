"""Compiled models inside Spark: rows in Parquet, Spark ML's models on them, and a bare loop of processes."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import make_classification

from benchmarks.adaptation._meter import Meter
from vista_spark import CompiledPipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

__all__ = ["NAMES", "Took", "bare", "into_nothing", "only_to_python", "timed", "write_rows"]

_COLUMNS, _FILES = 20, 8
NAMES = tuple(f"c{place}" for place in range(_COLUMNS))
"""Columns of the rows, of double."""


class Took(NamedTuple):
    """Medians of warm runs.

    Parameters
    ----------
    seconds : float
        By the clock.
    cpu_s : float
        Of all processes that take part.
    """

    seconds: float
    cpu_s: float


def write_rows(rows: int, folder: Path) -> list[Path]:
    """Write drawn rows of two classes to Parquet files of one size and return the files."""
    table, labels = make_classification(rows, _COLUMNS, n_informative=10, random_state=0)
    folder.mkdir(parents=True)
    files = []
    for place, (part, own) in enumerate(
        zip(np.array_split(table, _FILES), np.array_split(labels, _FILES), strict=True)
    ):
        columns = {name: part[:, column] for column, name in enumerate(NAMES)} | {"label": own.astype(np.float64)}
        files.append(folder / f"part-{place}.parquet")
        pq.write_table(pa.table(columns), files[-1])
    return files


def into_nothing(df: DataFrame) -> None:
    """Compute all rows of a DataFrame and discard them."""
    df.write.format("noop").mode("overwrite").save()


def only_to_python(df: DataFrame) -> DataFrame:
    """Send rows to Python workers, which return zeros without reading them."""

    def zeros(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Sent by value: workers do not have this module.
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"prediction": np.zeros(batch.num_rows)})

    return df.mapInArrow(zeros, "prediction double")


def timed(call: Callable[[], Any], repeats: int) -> Took:
    """Time a call after a first one, with the CPU seconds of this process and all below it."""
    call()
    found = []
    for _ in range(repeats):
        with Meter([os.getpid()]) as meter:
            began = time.perf_counter()
            call()
            seconds = time.perf_counter() - began
        found.append((seconds, meter.used.cpu))
    return Took(statistics.median(one for one, _ in found), statistics.median(one for _, one in found))


def bare(model: Path, files: list[Path], processes: int, batch: int, repeats: int) -> Took:
    """Time processes of one thread that read the files by pyarrow, predict, and keep nothing."""
    shares = [(str(model), [str(file) for file in files[place::processes]], batch) for place in range(processes)]
    context = multiprocessing.get_context("spawn")
    with ExitStack() as held:
        # One pool a share: in a pool of two, the process that is there first takes both shares of a short pass.
        pools = [held.enter_context(context.Pool(1, _begin)) for _ in shares]

        def all_shares() -> list[int]:
            waiting = [pool.apply_async(_predict, (share,)) for pool, share in zip(pools, shares, strict=True)]
            return [one.get() for one in waiting]

        return timed(all_shares, repeats)


def _begin() -> None:
    import torch  # in the process that predicts

    torch.set_num_threads(1)


def _predict(share: tuple[str, list[str], int]) -> int:
    path, files, batch = share
    if path not in _OPENED:
        _OPENED[path] = CompiledPipeline.load(path, threads=1)
    count = 0
    for file in files:
        for rows in pq.ParquetFile(file).iter_batches(batch, columns=list(NAMES), use_threads=False):
            table = np.column_stack([column.to_numpy() for column in rows.columns])
            count += len(_OPENED[path].predict(table))
    return count


_OPENED: dict[str, CompiledPipeline] = {}
