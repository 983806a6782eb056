"""The driver of the soak's searches, a process of its own: ``python _soak_driver.py DESCRIPTOR FOLDER EPOCHS``."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pyspark.sql import SparkSession

from benchmarks.hopper._soak_leaks import Footprint, settled
from cerebro_spark import GridSearch, ModelTrainer, Selection, SparkBackend, Store
from optimizer.errors import CerebroError
from udfs.hopper import Checkpoints

if TYPE_CHECKING:
    from udfs.shards import PreparedData

__all__ = ["WORKERS"]

WORKERS, SHARDS, REPLICAS = 3, 4, 2
ROWS, BATCH = 64_000, 256
SPACE = {"lr": [1e-2, 1e-3], "width": [4, 8]}
# So little that some shards of each worker are mapped from the node's cache.
MEMORY = 1 << 20
# A step waits, so that a fault finds a unit at work though the networks are small.
STEP_S = 0.005


class Slow(torch.nn.Module):
    """A small network with all that a checkpoint has to carry; it takes its time in training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3, width),
            torch.nn.BatchNorm1d(width),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.2),
            torch.nn.Linear(width, 2),
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Compute the logits."""
        if self.training:
            time.sleep(STEP_S)
        return self.layers(rows)  # type: ignore[no-any-return]


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build a configuration."""
    net = Slow(params["width"])
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=BATCH,
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    )


class Driver:
    """A Spark session, and the searches in it.

    Parameters
    ----------
    folder : Path
        Of the store, of temporary files and of Spark's scratch.
    epochs : int
    """

    def __init__(self, folder: Path, epochs: int) -> None:
        self._spark = (
            SparkSession.builder.master(f"local[{WORKERS},4]")
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(folder / "scratch" / "warehouse"))
            .getOrCreate()
        )
        self._store = Store.from_uri(str(folder / "store"))
        self._epochs = epochs
        self._outside = [folder / name for name in ("tmp", "home", "work")]
        self._first: Footprint | None = None
        self._rows = self._spark.range(ROWS).selectExpr(
            "sin(id) a", "cos(id * 2) b", "sin(id * 3) c", "int(sin(id) + cos(id * 2) > 0) label"
        )

    def answer(self, order: str, run: str) -> dict[str, Any]:
        """Run ``"fit"``, ``"resume"`` or ``"prepare"``, and return the outcome and the remaining resources."""
        try:
            reply = getattr(self, f"_{order}")(run)
        except CerebroError as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        except Exception:  # the soak reports it
            reply = {"crash": traceback.format_exc()}
        found = settled(self._spark, self._outside, self._first, WORKERS)
        self._first = self._first or found
        return reply | {"first": self._first, "footprint": found}

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()

    @property
    def _backend(self) -> SparkBackend:
        # Whether the restarts of a worker suffice is not what is tried here.
        return SparkBackend(self._spark, num_workers=WORKERS, threads=1, memory_bytes=MEMORY, restarts=1_000_000)

    @property
    def _search(self) -> GridSearch:
        return GridSearch(
            backend=self._backend,
            store=self._store,
            trainer_fn=trainer_fn,
            search_space=SPACE,
            num_epochs=self._epochs,
            num_shards=SHARDS,
            replicas=REPLICAS,
            feature_columns=["a", "b", "c"],
            label_columns=["label"],
            schedule="fixed",
            progress=False,
            seed=3,
        )

    def _prepare(self, _run: str) -> dict[str, Any]:
        prepared: PreparedData = self._search.prepare(self._rows)
        return {"prepared": prepared.name}

    def _fit(self, run: str) -> dict[str, Any]:
        return self._found(self._search.fit(self._rows, run_id=run))

    def _resume(self, run: str) -> dict[str, Any]:
        found = Selection.resume(self._store, run, backend=self._backend, trainer_fn=trainer_fn, progress=False)
        return self._found(found)

    def _found(self, found: Selection) -> dict[str, Any]:
        """Read every final checkpoint back, with all that it holds: weights, optimizer, generators."""
        kept, digests = Checkpoints(self._store, found.run_id), {}
        for trial in found.trials:
            record = kept.last(trial.trial_id)
            if trial.status == "finished" and (record is None or record.version != self._epochs * SHARDS):
                return {"error": f"the last record of {trial.trial_id} is damaged: Selection.resume goes on before it"}
            digests[trial.trial_id] = record and record.digest
            if record is not None:
                kept.read(trial.trial_id, record.version, record.digest)
        return {
            "digests": digests,
            "statuses": {trial.trial_id: trial.status for trial in found.trials},
            "tracebacks": {trial.trial_id: trial.traceback for trial in found.trials if trial.traceback},
            "histories": found.history(),
            "losses": len(found.outcome.losses),
            "redone": found.outcome.redone,
        }


def main() -> None:
    """Answer orders until the connection is closed."""
    link, folder, epochs = Connection(int(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s")
    for package in ("cerebro_spark", "udfs"):
        logging.getLogger(package).setLevel(logging.INFO)
    os.chdir(folder / "work")
    driver = Driver(folder, epochs)
    while True:
        try:
            order, run = link.recv()
        except EOFError:
            break
        link.send(driver.answer(order, run))
    driver.close()


if __name__ == "__main__":
    main()
