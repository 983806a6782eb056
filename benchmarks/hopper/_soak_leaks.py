"""Resource leaks of a driver: open resources after a search, compared with those after its first search."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["DESCRIPTORS", "MEMORY_BYTES", "Footprint", "footprint", "growth", "leaks", "settled"]

DESCRIPTORS = 8
"""As many more may be open: py4j keeps connections for threads, and closes them by and by."""

MEMORY_BYTES = 2 << 20
"""The driver may grow by so much a search, once it has done a few."""

# So many of Spark's Python processes per slot: Spark keeps idle ones for a minute, to use them again.
_PYTHON_WORKERS = 2

# Searches of a driver that are not looked at for its memory, and as many as it takes to see a slope.
_WARM_UP, _ENOUGH = 2, 5

_SETTLE_S = 30.0
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Footprint:
    """Open files, processes and temporary files after a search.

    Attributes
    ----------
    jobs : int
        Spark jobs that run.
    threads : dict of str to int
        Python threads of the driver by name, numbers left out.
    descriptors : int
        Of the driver.
    heartbeats, workers : int
        Processes below the driver: heartbeats of workers, and Python workers of Spark, idle ones included.
    outside : tuple of str
        Files below the folder of temporary files, the home folder and the working folder.
    driver_bytes, jvm_bytes, worker_bytes : int
        Resident memory of the driver's Python, of its JVM, and of the largest Python worker.
    """

    jobs: int
    threads: dict[str, int]
    descriptors: int
    heartbeats: int
    workers: int
    outside: tuple[str, ...]
    driver_bytes: int
    jvm_bytes: int
    worker_bytes: int


def footprint(spark: SparkSession, folders: Sequence[Path]) -> Footprint:
    """Measure this process, its descendants and some folders."""
    jvm, heartbeats, workers = 0, 0, [0]
    for process in psutil.Process().children(recursive=True):
        try:
            command, resident = " ".join(process.cmdline()), process.memory_info().rss
        except psutil.Error:
            continue  # it ended meanwhile
        if "heartbeat of" in command:
            heartbeats += 1
        elif "pyspark.worker" in command:
            workers.append(resident)
        else:
            jvm = max(jvm, resident)
    return Footprint(
        jobs=len(spark.sparkContext.statusTracker().getActiveJobsIds()),
        threads=dict(Counter(_DIGITS.sub("#", thread.name) for thread in threading.enumerate())),
        descriptors=psutil.Process().num_fds(),
        heartbeats=heartbeats,
        # One of them is Spark's daemon, which forks the others.
        workers=max(0, len(workers) - 2),
        outside=tuple(sorted(str(path) for folder in folders for path in folder.rglob("*"))),
        driver_bytes=psutil.Process().memory_info().rss,
        jvm_bytes=jvm,
        worker_bytes=max(workers),
    )


def settled(spark: SparkSession, folders: Sequence[Path], first: Footprint | None, slots: int) -> Footprint:
    """Measure until nothing leaks, for half a minute at most, because processes take a moment to end."""
    until = time.monotonic() + _SETTLE_S
    while True:
        found = footprint(spark, folders)
        if time.monotonic() > until or not leaks(first or found, found, slots):
            return found
        time.sleep(0.5)


def leaks(first: Footprint, last: Footprint, slots: int) -> list[str]:
    """List the resources that leak.

    Parameters
    ----------
    first, last : Footprint
        After the driver's first search, and after a later one.
    slots : int
        Of the session.
    """
    found = []
    if last.jobs:
        found.append(f"{last.jobs} Spark jobs run on")
    if last.heartbeats:
        found.append(f"{last.heartbeats} heartbeats run on")
    if last.workers > _PYTHON_WORKERS * slots:
        found.append(f"{last.workers} Python workers for {slots} slots")
    more = {name: count for name, count in last.threads.items() if count > first.threads.get(name, 0)}
    if more:
        found.append(f"threads: {more}, at first {first.threads}")
    if last.descriptors > first.descriptors + DESCRIPTORS:
        found.append(f"{last.descriptors} descriptors, {first.descriptors} at first")
    files = sorted(set(last.outside) - set(first.outside))
    if files:
        found.append(f"{len(files)} files outside of the store: {', '.join(files[:5])}")
    return found


def growth(resident: Sequence[int]) -> float | None:
    """Fit a line to a process's memory after each search, those of the warm-up left out.

    Returns
    -------
    float or None
        Bytes a search; ``None`` for fewer than five searches, over which noise looks like growth.

    Examples
    --------
    >>> growth([100, 110, 130, 131, 132, 133, 134, 135])
    1.0
    """
    looked_at = np.array(resident[_WARM_UP:], float)
    if len(looked_at) < _ENOUGH:
        return None
    return round(float(np.polyfit(np.arange(len(looked_at)), looked_at, 1)[0]), 3)
