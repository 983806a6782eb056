"""A run of the model hopper with workers in plain processes: a driver in this process, without Spark.

Run as a program, it is one worker, whose settings are in a file.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from places import IMPORTS
from simulated_run import SPEC, run_context

from cerebro_spark.hopper import Coordinator, Director, Trial
from optimizer.hybrids import HybridSettings
from optimizer.procedures import Listed
from udfs.hopper import HOPPER, WorkerSettings
from udfs.rpc import Endpoint, new_credentials
from udfs.shards import PreparedData, Shard, ShardWriter, TensorColumn, TensorGroup, shard_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.store import Store

__all__ = ["FAULTS", "PlainRun", "prepare_rows"]

FAULTS = ("rendezvous", "connection", "step", "averaging", "end")
"""Phases of a joint unit in which a worker kills itself."""

WIDTH = 4


def prepare_rows(store: Store, sizes: Sequence[int], *, width: int = WIDTH, validation: int = 0) -> PreparedData:
    """Write shards of random rows, of ``sizes`` rows each, in double precision as far as the sum of a row decides."""
    draw = np.random.default_rng(0)
    split = [*sizes, *([validation] * len(sizes) if validation else [])]
    rows = sum(split)
    inputs = draw.normal(size=(rows, width)).astype(np.float32)
    labels = (inputs.sum(1) > 0).astype(np.int64)
    columns = (TensorColumn("x", "float32", (width,)), TensorColumn("y", "int64"))
    numbers = np.repeat(np.arange(len(split), dtype=np.int32), split)
    values = [pa.array(numbers), pa.array(inputs.tolist(), pa.list_(pa.float32())), pa.array(labels)]
    batch = pa.RecordBatch.from_arrays(values, names=["c0", "c1", "c2"])
    writer = ShardWriter(store, "data", columns, (), len(sizes))
    reports = [row for part in writer(iter([batch])) for row in part.to_pylist()]
    shards = tuple(
        Shard(
            each["split"],
            each["partition"],
            shard_path(each["split"], each["partition"]),
            each["rows"],
            each["rows"] * (4 * width + 8),
            each["digest"],
        )
        for each in reports
    )
    groups = (TensorGroup("x", columns[:1]),), (TensorGroup("y", columns[1:]),)
    return PreparedData(store, "data", *groups, shards, 0, 0.25 if validation else 0.0, "f00")


@dataclass
class PlainRun:
    """Training of listed configurations by worker processes, of which one may kill itself once.

    ``fault`` is one of :data:`FAULTS`; ``seconds`` has, after the run, the times at which the worker was ``"killed"``
    and at which its team had ``"ended"``.
    """

    prepared: PreparedData
    trainer_fn: Callable[[dict[str, Any]], Any]
    folder: Path
    configurations: Sequence[dict[str, Any]] = ({},)
    epochs: int = 2
    hybrid: HybridSettings = field(default_factory=HybridSettings)
    fault: str = ""
    threads: int = 1
    trials: list[Trial] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    duration: float = 0.0

    def run(self, timeout_s: float = 240.0) -> PlainRun:
        """Train to the end; the trials are as the coordinator has them then."""
        workers = len(self.prepared.partitions)
        spec = replace(SPEC, configs=list(self.configurations), epochs=self.epochs, hybrid=self.hybrid.to_dict())
        # A process may take long to start again on a busy machine.
        backend = SimpleNamespace(num_workers=workers, most_workers=workers, rejoin_s=600.0)
        context = run_context(workers, spec=spec, prepared=self.prepared, backend=backend)
        journal: Any = SimpleNamespace(run="run", orders=list, order=lambda _: None)
        director = Director(
            Listed(list(self.configurations), epochs=self.epochs), journal, slots=workers, trial=self.trials_of(context)
        )
        director.begin()
        coordinator = Coordinator(director, context, self)
        credentials = new_credentials(encrypted=False)
        endpoint = Endpoint("127.0.0.1", credentials, HOPPER, coordinator.answer)
        processes = [
            threading.Thread(target=self._supervise, args=(number, coordinator, endpoint.location, credentials))
            for number in range(workers)
        ]
        begun = time.monotonic()
        try:
            for process in processes:
                process.start()
            until = time.monotonic() + timeout_s
            while not coordinator.wait(0.05):
                self._watch(coordinator)
                coordinator.look_after()
                if time.monotonic() > until:
                    raise TimeoutError(f"the run did not end: {coordinator._state.assignments}")
        finally:
            self.duration = time.monotonic() - begun
            coordinator.fail(RuntimeError("the test is over"))
            for process in processes:
                process.join(60)
            endpoint.shutdown()
            coordinator.shut_down()
        self.trials, self.events = director.trials, coordinator.events
        return self

    @staticmethod
    def trials_of(_: Any) -> Callable[[str, dict[str, Any]], Trial]:
        return Trial

    # The coordinator's writer.

    def write_ends(self, trials: Any) -> None:
        """Write nothing."""

    def write_epochs(self, trials: Any, events: Any) -> None:
        for trial in trials:
            if trial.running:
                sums = trial.training_sums(trial.epoch)["loss"]
                trial.history.append({"loss": float(sums[0] / sums[1])})

    def _watch(self, coordinator: Coordinator) -> None:
        """Record the time at which a team whose worker was killed has ended."""
        if "killed" in self.seconds and not any(each.team for each in coordinator._state.assignments):
            self.seconds.setdefault("ended", time.monotonic())

    def _supervise(self, number: int, coordinator: Coordinator, location: str, credentials: Any) -> None:
        """Start a worker's process again after its death, as Spark does."""
        name, fault = f"w{number}", self.fault if number == 1 else ""
        settings = WorkerSettings(
            worker=name,
            run="run",
            trainer_fn=self.trainer_fn,
            sample=dict(self.configurations[0]),
            prepared=self.prepared,
            partitions=(number,),
            seed=0,
            threads=self.threads,
        )
        while not coordinator.wait(0.0):
            file = self.folder / f"{name}-{uuid.uuid4().hex}"
            file.write_bytes(pickle.dumps((settings.packed(), location, credentials, fault)))
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(IMPORTS), "OMP_NUM_THREADS": str(self.threads)}
            with subprocess.Popen([sys.executable, __file__, str(file)], env=environment) as process:
                while process.poll() is None:
                    if coordinator.wait(0.1):
                        with suppress(subprocess.TimeoutExpired):
                            process.wait(15)
                        process.kill()
            if fault and process.returncode == -signal.SIGKILL:
                self.seconds.setdefault("killed", time.monotonic())
            coordinator.lose(name, "its process was killed")
            fault = ""


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _break(fault: str) -> None:
    """Have this process kill itself in a phase of a joint unit."""
    from udfs.gang import Gang
    from udfs.hopper._team_link import TeamLink
    from udfs.hybrids import JointEpoch

    if fault == "rendezvous":
        TeamLink.exchange = lambda *_: _kill()  # type: ignore[assignment,method-assign,return-value]
    elif fault == "connection":
        exchange = TeamLink.exchange

        def meet(self: Any, message: str) -> list[str]:
            exchange(self, message)
            _kill()
            return []

        TeamLink.exchange = meet  # type: ignore[method-assign]
    elif fault == "step":
        mean, calls = Gang.mean_, iter(range(10**6))

        def step(self: Any, *arguments: Any, **options: Any) -> float:
            if next(calls) == 2:
                _kill()
            return mean(self, *arguments, **options)

        Gang.mean_ = step  # type: ignore[method-assign]
    elif fault == "averaging":
        JointEpoch._average = lambda *_: _kill()  # type: ignore[assignment,method-assign]
    elif fault == "end":
        JointEpoch._merged = lambda *_: _kill()  # type: ignore[assignment,method-assign,return-value]


def main(file: str) -> None:
    """Serve one run to its end."""
    from udfs.heartbeat import Output
    from udfs.hopper._interruption import Interruption
    from udfs.hopper._process_place import Place
    from udfs.hopper._process_turns import Turn
    from udfs.hopper._service import Service
    from udfs.node import limit_threads
    from udfs.rpc import Caller

    packed, location, credentials, fault = pickle.loads(Path(file).read_bytes())
    settings = WorkerSettings.unpacked(packed)
    limit_threads(settings.threads)
    _break(fault)
    turn, output = Turn(), Output()
    output.start()

    def serve() -> None:
        try:
            place = Place(turn, Caller(location, credentials, HOPPER), settings.worker, uuid.uuid4().hex)
            with Service(settings, location, credentials, place, output, Interruption(30.0)) as service:
                service.serve()
        finally:
            turn.stop()

    threading.Thread(target=serve, daemon=True).start()
    turn.work()
    output.stop()


if __name__ == "__main__":
    main(sys.argv[1])
