"""Load on a server from a process of its own, and the CPU seconds of every part while it lasts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from vista_spark.serving import Api

__all__ = ["Client", "Load", "Loaded", "Part", "backend_processes", "cpu_of_parts"]

_PROGRAM = "benchmarks.serving._client"

Part = dict[str, float]


@dataclass(frozen=True, slots=True)
class Load:
    """Requests to be sent.

    Parameters
    ----------
    rates : mapping of str to float
        Requests per second by model; Poisson, open loop.
    seconds : float
    slo_ms : float
    seed : int
    body : {"image", "tensor"}
        A JPEG of 500 x 375 pixels, or one number as JSON.
    alone : int
        Instead send so many requests of each model, one after the other.
    bodies : int
        Different images.
    """

    rates: Mapping[str, float]
    seconds: float
    slo_ms: float
    seed: int = 0
    body: str = "image"
    alone: int = 0
    bodies: int = 32


@dataclass(frozen=True, slots=True)
class Loaded:
    """Outcomes of the requests, as observed by their sender.

    Attributes
    ----------
    models : dict of str to dict
        By model: ``sent``, ``in_time``, ``ended`` by how, ``p50_ms``, ``p99_ms`` of answers, ``lag_p99_ms`` by which
        requests were sent later than they were due.
    seconds : float
        Of arrivals.
    cpu : dict of str to float
        Cores' worth of CPU by part: seconds of CPU by seconds of the run.
    """

    models: dict[str, dict[str, Any]]
    seconds: float
    cpu: Part

    @property
    def sent(self) -> int:
        """Requests of all models."""
        return sum(one["sent"] for one in self.models.values())

    @property
    def in_time(self) -> int:
        """Requests that were answered within their deadline."""
        return sum(one["in_time"] for one in self.models.values())

    @property
    def share(self) -> float:
        """Part of the requests that was answered in time."""
        return self.in_time / max(1, self.sent)

    @property
    def good_rate(self) -> float:
        """Answers in time per second."""
        return self.in_time / self.seconds

    @property
    def ended(self) -> Counter[str]:
        """Requests by outcome: ``"answered"``, an HTTP status, or the name of an error."""
        return sum((Counter(one["ended"]) for one in self.models.values()), Counter())

    @property
    def said(self) -> dict[str, str]:
        """Messages of the server with an unexpected status, by status."""
        return {status: words for one in self.models.values() for status, words in one["said"].items()}

    def worst(self, name: str) -> float:
        """Return the largest value of a figure over the models; NaN without models."""
        found = [one[name] for one in self.models.values() if one[name] is not None]
        return max(found) if found else float("nan")


class Client:
    """The client's process; a context manager."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def run(self, api: Api, load: Load) -> Loaded:
        """Send a load to a server and wait until every request has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = cpu_of_parts()
        order = asdict(load) | {"rates": dict(load.rates), "url": api.url, "token": api.token}
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client ended with {self._process.wait()}: what it printed says why")
        found = json.loads(line)
        after = cpu_of_parts()
        seconds = {"client": found["cpu_s"]} | {part: after[part] - before[part] for part in after}
        return Loaded(found["models"], load.seconds, {part: cpu / found["wall_s"] for part, cpu in seconds.items()})


def cpu_of_parts() -> Part:
    """Read the CPU seconds of this process, which is driver and front end, of Spark's JVM and of its Python tasks."""
    own = psutil.Process()
    jvm, tasks = 0.0, 0.0
    for process in own.children(recursive=True):
        try:
            name, command, times = process.name(), " ".join(process.cmdline()), process.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile
        if "pyspark.worker" in command:
            tasks += times.user + times.system
        elif name == "java":
            jvm += times.user + times.system
    mine = own.cpu_times()
    return {"driver and front end": mine.user + mine.system, "JVM": jvm, "backends": tasks}


def backend_processes() -> list[psutil.Process]:
    """Find the Python tasks of this process's Spark, those that have computed most first."""
    found: list[tuple[float, psutil.Process]] = []
    for process in psutil.Process().children(recursive=True):
        try:
            # Spark's daemon, which forks the tasks' processes, is a child of the JVM.
            parent = " ".join(psutil.Process(process.ppid()).cmdline())
            if "pyspark.worker" in parent and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process.cpu_times().user, process))
        except psutil.Error:
            continue
    return [process for _, process in sorted(found, key=lambda pair: -pair[0])]
