"""Model selection without this project: processes that train each candidate alone, in bare torch or Keras.

*Current practice* trains whole models on all labels of the cycle. Each begins from the whole checkpoint that was
written when the search began, and ends by writing another one; records stay in memory. *Time optimal* trains the
branches alone: the frozen part's outputs are in memory already, and no second is counted for that. Both evaluate every
epoch, as the arms on Spark do. Of the project they take the user's function, which builds a model and its optimizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.adaptation._meter import Meter, forget
from benchmarks.adaptation._outcome import Cycle, Measured
from benchmarks.adaptation._trainees import stem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from types import TracebackType
    from typing import Self

    from benchmarks.adaptation._outcome import Trained
    from benchmarks.adaptation._trainees import Mode
    from benchmarks.adaptation._workloads import Workload

__all__ = ["Arrangement", "Fleet", "best_arrangement", "measure"]

_PROBED, _TURNS = 24, 2
_PROGRAM = "benchmarks.adaptation._trainees"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Arrangement of the candidates on the cores: processes, and threads of each.

    Parameters
    ----------
    processes, threads : int
        Each process trains one candidate at a time, with so many threads within an operation.
    layout : {"NCHW", "NHWC"}
        Of images in memory, for torch.
    """

    processes: int
    threads: int
    layout: str = "NCHW"

    def __str__(self) -> str:
        layout = f", {self.layout}" if self.layout == "NHWC" else ""
        return f"{self.processes} x {self.threads} thread{'s'[: self.threads > 1]}{layout}"


class Fleet:
    """Processes of one arrangement, started as programs: threads of torch and a JVM's gateway do not survive a fork.

    Parameters
    ----------
    processes, threads : int
    """

    def __init__(self, processes: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self._links: list[Connection] = []
        self._homes: dict[tuple[Any, ...], Connection] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}
        for _ in range(processes):
            here, there = Pipe()
            command = [sys.executable, "-m", _PROGRAM, str(there.fileno()), str(threads)]
            self._started.append(subprocess.Popen(command, pass_fds=[there.fileno()], env=environment))
            there.close()
            self._links.append(here)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """Ids of the processes."""
        return [process.pid for process in self._started]

    def close(self) -> None:
        """End the processes."""
        for link in self._links:
            link.close()
        for process in self._started:
            process.wait()

    def open(self, work: Workload, folder: Path, layout: str) -> None:
        """Give every process the records, as if it had read them from its own disk."""
        self._homes.clear()
        for link in self._links:
            link.send(("open", work, folder, layout))
        for link in self._links:
            _received(link)

    def map(self, orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run each order on the next idle process, in sequence; return the results in the sequence of the orders.

        A process prefers the candidates that it ran before, because Keras has compiled them there.
        """
        waiting = list(enumerate(orders))
        found: dict[int, Any] = {}
        lock = threading.Lock()

        def feed(link: Connection) -> None:
            while True:
                with lock:
                    if not waiting:
                        return
                    homes = [self._homes.get(order[:2], link) for _, order in waiting]
                    place, order = waiting.pop(homes.index(link) if link in homes else 0)
                    self._homes[order[:2]] = link
                link.send(order)
                found[place] = _received(link)

        with ThreadPoolExecutor(len(self._links)) as feeders:
            list(feeders.map(feed, self._links))
        return [found[place] for place in range(len(orders))]


def _received(link: Connection) -> Any:
    answer = link.recv()
    if isinstance(answer, BaseException):
        raise answer
    return answer


def best_arrangement(
    work: Workload, fleets: Sequence[Fleet], layouts: Sequence[str], mode: Mode, flops: Sequence[float]
) -> tuple[Fleet, Arrangement, dict[str, float]]:
    """Let each arrangement train two candidates for an epoch of few records, and choose the fastest.

    Returns
    -------
    Fleet, Arrangement
        The fleet has the workload open, but without checkpoints or features.
    dict of str to float
        Seconds of each.
    """
    few = replace(work, scale=replace(work.scale, cycles=1, records=min(_PROBED, work.scale.total)))
    order = sorted(range(len(work.space)), key=lambda number: flops[number])
    probed = [order[-1], order[len(order) // 2]]
    seconds: dict[Arrangement, tuple[float, Fleet]] = {}
    for fleet in fleets:
        for layout in layouts:
            with tempfile.TemporaryDirectory() as folder:
                fleet.open(few, Path(folder), layout)
                _prepare(few, fleet, Path(folder), mode, probed)
                orders = [("train", number, mode, 0, 1) for number in probed]
                # The first turn pays for what is made once.
                fleet.map(orders)
                taken = min(_timed(fleet, orders) for _ in range(_TURNS))
            seconds[Arrangement(fleet.processes, fleet.threads, layout)] = taken, fleet
    chosen = min(seconds, key=lambda each: seconds[each][0])
    return seconds[chosen][1], chosen, {str(each): taken for each, (taken, _) in seconds.items()}


def _timed(fleet: Fleet, orders: Sequence[tuple[Any, ...]]) -> float:
    started = time.perf_counter()
    fleet.map(orders)
    return time.perf_counter() - started


def _prepare(work: Workload, fleet: Fleet, folder: Path, mode: Mode, numbers: Sequence[int]) -> None:
    """Write the initial checkpoints and the features."""
    if mode == "whole":
        fleet.map([("initial", number) for number in numbers])
        return
    first = {work.space[number]["scheme"]: number for number in reversed(numbers)}
    fleet.map([("features", number, folder / stem(scheme)) for scheme, number in first.items()])


def measure(
    arm: str,
    work: Workload,
    fleet: Fleet,
    arrangement: Arrangement,
    mode: Mode,
    flops: Sequence[float],
    *,
    cold: bool = False,
) -> Measured:
    """Run all cycles of an arm.

    Parameters
    ----------
    arm : str
        Its name in tables.
    work : Workload
    fleet : Fleet
    arrangement : Arrangement
        Of the fleet.
    mode : {"whole", "branch"}
    flops : sequence of float
        Of each candidate: the longest ones come first, so that no process waits long at the end.
    cold : bool
        Whether the page cache has no file when a cycle begins.
    """
    order = sorted(range(len(work.space)), key=lambda number: -flops[number])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fleet.open(work, folder, arrangement.layout)
        started = time.perf_counter()
        with Meter(fleet.pids) as meter:
            _prepare(work, fleet, folder, mode, order)
        # Features are there already: nothing of this arm goes to them.
        initial = (time.perf_counter() - started, meter.used.written) if mode == "whole" else (0.0, 0)
        cycles = []
        for cycle in range(work.scale.cycles):
            if cold:
                forget(folder)
            started = time.perf_counter()
            with Meter(fleet.pids) as meter:
                trained: list[Trained] = fleet.map([("train", number, mode, cycle) for number in order])
            seconds, used = time.perf_counter() - started, meter.used
            best = max(each.metric for each in trained)
            cycles.append(Cycle(seconds, used.cpu, used.written, used.read, best))
    return Measured(arm, str(arrangement), *initial, tuple(cycles))
