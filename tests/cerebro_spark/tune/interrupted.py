"""A driver that is interrupted in every phase of a search: ``python interrupted.py FOLDER`` writes ``found.json``."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cerebro_spark import GridSearch, ModelTrainer, Selection, SparkBackend, Store
from udfs.heartbeat._process_state import ProcessState, process_state
from udfs.hopper import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

FOLDER = Path(sys.argv[1])
PATIENCE_S = 120.0


class Net(torch.nn.Module):
    """Does in training what the file ``mode`` says."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.Dropout(0.2), torch.nn.Linear(width, 2))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        mode = (FOLDER / "mode").read_text()
        if self.training and mode:
            print("the trainer prints")
            time.sleep(0.2)
            if mode == "hang" and self.layers[0].out_features == 8:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                (FOLDER / "hangs").write_text(str(os.getpid()))
                # PyDLL calls C without giving Python's global lock up.
                ctypes.PyDLL(None).sleep(600)
        return self.layers(rows)


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    if (FOLDER / "mode").read_text() == "build" and os.getpid() != DRIVER:
        (FOLDER / "builds").write_text(str(os.getpid()))
        time.sleep(600)
    net = Net(params["width"])
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=params["lr"]),
        loss=torch.nn.CrossEntropyLoss(),
        batch_size=16,
    )


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if (FOLDER / "mode").read_text() == "prepare":
            (FOLDER / "prepares").touch()
            time.sleep(600)
        yield batch


def until(happened: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


@contextmanager
def interrupted(mode: str, when: Callable[[], bool], times: int = 1) -> Iterator[dict[str, Any]]:
    """Send this process SIGINT once something has happened, and again while it cleans up."""
    found: dict[str, Any] = {"message": None}

    def interrupt() -> None:
        until(when)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    (FOLDER / "mode").write_text(mode)
    before = {thread.name for thread in threading.enumerate()}
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        yield found
    except KeyboardInterrupt as error:
        found["message"] = str(error)
    interrupter.join()
    (FOLDER / "mode").write_text("")
    found |= {
        "threads": sorted({thread.name for thread in threading.enumerate()} - before),
        "heartbeats": lasting_heartbeats(),
        "listening": len(listening()),
        "jobs": len(spark.sparkContext.statusTracker().getActiveJobsIds()),
        "count": spark.range(5).count(),
        "handler": signal.getsignal(signal.SIGINT).__module__,
    }


def lasting_heartbeats() -> list[str]:
    """Heartbeats, after a moment: the last thing that one does is to say that it ends."""
    deadline = time.monotonic() + 5.0
    while (left := [command for command in commands() if "heartbeat of" in command]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def commands() -> list[str]:
    """The command lines of this process's descendants."""
    parents, lines = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    descendants = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in descendants} - descendants:
        descendants |= grown
    return [lines[pid] for pid in descendants]


def listening() -> list[str]:
    """The inodes of the sockets on which this process listens."""
    mine = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            mine.add(str(descriptor.readlink()))
        except OSError:
            continue
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return [row[9] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine]


def digests(selection: Selection) -> dict[str, str]:
    kept = Checkpoints(selection.prepared.store, selection.run_id)
    return {trial.trial_id: kept.last(trial.trial_id).digest for trial in selection.trials}  # type: ignore[union-attr]


def search() -> GridSearch:
    return GridSearch(
        backend=backend,
        store=store,
        trainer_fn=trainer_fn,
        search_space={"lr": [0.1, 0.01], "width": [4, 8]},
        num_epochs=2,
        feature_columns=["a", "b"],
        label_columns=["label"],
        schedule="fixed",
        progress=False,
    )


DRIVER = os.getpid()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
cloudpickle.register_pickle_by_value(sys.modules["__main__"])
spark = (
    SparkSession.builder.master("local[3]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
backend = SparkBackend(spark, num_workers=2, threads=1)
store = Store.from_uri(str(FOLDER / "store"))
rows = spark.range(0, 96, 1, 2).selectExpr("id", "sin(id) a", "cos(id * 2) b", "int(sin(id) > 0) label")

found: dict[str, Any] = {}
(FOLDER / "mode").write_text("prepare")
with interrupted("prepare", (FOLDER / "prepares").exists) as found["prepare"]:
    search().fit(rows.mapInArrow(slowly, rows.schema), run_id="never")

data = search().prepare(rows)
calm = digests(search().fit(data, run_id="calm"))

others: list[Any] = []
other = spark.newSession()


def another_job() -> None:
    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while not (FOLDER / "enough").exists():
            time.sleep(0.1)
        yield from batches

    others.extend(other.range(0, 1, 1, 1).mapInArrow(wait, "id long").collect())


bystander = threading.Thread(target=another_job, name="bystander")
bystander.start()

with interrupted("build", (FOLDER / "builds").exists) as found["build"]:
    search().fit(data, run_id="disturbed")
found["build"]["gone"] = process_state(int((FOLDER / "builds").read_text())) is ProcessState.GONE


def some_units() -> bool:
    return len([*FOLDER.glob("store/runs/disturbed/checkpoints/*/*.json")]) > 2


with interrupted("slow", some_units) as found["units"]:
    Selection.resume(store, "disturbed", backend=backend, trainer_fn=trainer_fn, progress=False)

with interrupted("hang", (FOLDER / "hangs").exists, times=3) as found["hang"]:
    Selection.resume(store, "disturbed", backend=backend, trainer_fn=trainer_fn, progress=False)
found["hang"]["gone"] = process_state(int((FOLDER / "hangs").read_text())) is ProcessState.GONE

(FOLDER / "enough").touch()
bystander.join()
found["others"] = len(others)
resumed = Selection.resume(store, "disturbed", backend=backend, trainer_fn=trainer_fn, progress=False)
found["equal"] = digests(resumed) == calm
found["logs"] = [trial.log for trial in resumed.trials]
found["statuses"] = [trial.status for trial in resumed.trials]
(FOLDER / "found.json").write_text(json.dumps(found))
spark.stop()
