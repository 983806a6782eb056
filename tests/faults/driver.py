"""The driver of a search that a test disturbs: ``python driver.py MASTER STORE RUN fit|resume|repeat [SETTINGS]``."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import cerebro_spark
from cerebro_spark import ModelTrainer, Selection, SparkBackend, Store
from cerebro_spark.callbacks import Callback, RunStarted, UnitFinished
from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Journal
from optimizer.space import choice, log_uniform
from udfs.hopper import Checkpoints

CONFIGS = {"lr": [0.1, 0.01], "width": [4, 8]}
# Of procedures that draw configurations.
SPACE = {"lr": log_uniform(1e-3, 1e-1), "width": choice([4, 8])}

# By configuration, "lr width": how it ends its worker's process.
DEADLY: dict[str, str] = {}


def end_process(how: str) -> None:
    """Take the worker's process down, as user code may."""
    if how == "exit":
        os._exit(7)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "memory":
        # As the kernel does where the memory is used up.
        os.kill(os.getpid(), signal.SIGKILL)


class Slow(torch.nn.Module):
    """Takes its time in training, so that a fault finds it at work; may hang once, or wait while a file is there."""

    def __init__(self, width: int, seconds: float, hang: str, hold: str, deadly: str) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3, width), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(width, 2)
        )
        self.seconds, self.hang, self.hold, self.deadly = seconds, hang, hold, deadly

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training:
            end_process(self.deadly)
            time.sleep(self.seconds)
            while self.hold and Path(self.hold).exists():
                time.sleep(0.1)
            if self.hang and not Path(self.hang).exists():
                Path(self.hang).touch()
                time.sleep(3600)
        return self.layers(rows)


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    last = params == {"lr": 0.01, "width": 8}
    net = Slow(
        params["width"], SECONDS, HANG if last else "", HOLD, DEADLY.get(f"{params['lr']} {params['width']}", "")
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=16
    )


class Progress(Callback):
    """Notes where this process started, and what it trained itself."""

    def __init__(self) -> None:
        self.units_at_start: dict[str, int] = {}
        self.trained = 0
        self.first: dict[str, UnitFinished] = {}

    def run_started(self, event: RunStarted) -> None:
        self.units_at_start = {trial.trial_id: trial.units for trial in event.trials}

    def unit_finished(self, event: UnitFinished) -> None:
        self.trained += event.kind == "train"
        self.first.setdefault(event.trial_id, event)


def report(found: Selection, progress: Progress) -> dict[str, Any]:
    kept = Checkpoints(found.prepared.store, found.run_id)
    records = {trial.trial_id: kept.last(trial.trial_id) for trial in found.trials}
    return {
        "digests": {trial_id: record and record.digest for trial_id, record in records.items()},
        "statuses": {trial.trial_id: trial.status for trial in found.trials},
        "histories": found.history(),
        "decisions": [
            str(decision)
            for exchange in Journal(found.prepared.store, found.run_id).orders()
            for decision in exchange.decisions
        ],
        "clones": sum(trial.source is not None for trial in found.trials),
        "redone": found.outcome.redone,
        "tracebacks": {trial.trial_id: trial.traceback for trial in found.trials},
        "losses": [str(loss) for loss in found.outcome.losses],
        "workers": sorted({event.worker for event in found.outcome.events}),
        "units": sum(event.kind == "train" for event in found.outcome.events),
        "units_at_start": progress.units_at_start,
        "trained": progress.trained,
        "from_store": sorted(trial_id for trial_id, event in progress.first.items() if event.from_store),
    }


def main() -> None:
    master, uri, run, mode = sys.argv[1:5]
    settings: dict[str, Any] = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    global SECONDS, HANG, HOLD
    SECONDS, HANG, HOLD = settings.pop("seconds", 0.05), settings.pop("hang", ""), settings.pop("hold", "")
    DEADLY.update(settings.pop("deadly", {}))
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    for package in ("cerebro_spark", "udfs"):
        logging.getLogger(package).setLevel(logging.INFO)
    backend_settings = settings.pop("backend", {})
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    spark = SparkSession.builder.master(master).getOrCreate()
    store = Store.from_uri(uri)
    backend = SparkBackend(spark, **{"num_workers": 3, "threads": 1} | backend_settings)
    progress = Progress()
    kind = settings.pop("procedure", "GridSearch")
    usual = {
        "backend": backend,
        "store": store,
        "trainer_fn": trainer_fn,
        "feature_columns": ["a", "b", "c"],
        "label_columns": ["label"],
        "schedule": "fixed",
        "callbacks": [progress],
        "progress": False,
        "seed": 3,
    }
    own = {"search_space": CONFIGS, "num_epochs": 3} if kind == "GridSearch" else {"search_space": SPACE}
    try:
        if mode == "resume" and kind == "GridSearch":
            found = Selection.resume(
                store, run, backend=backend, trainer_fn=trainer_fn, callbacks=[progress], progress=False
            )
        elif mode == "resume":
            found = getattr(cerebro_spark, kind)(**usual | own | settings).resume(run)
        else:
            rows = spark.range(480).selectExpr(
                "sin(id) a", "cos(id * 2) b", "sin(id * 3) c", "int(sin(id) + cos(id * 2) > 0) label"
            )
            search = getattr(cerebro_spark, kind)(**usual | own | settings)
            found = search.fit(rows, run_id=run, if_begun="take_over" if mode == "repeat" else "error")
    except RunError as error:
        print("STOPPED", error, flush=True)
    else:
        print("FOUND", json.dumps(report(found, progress)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
