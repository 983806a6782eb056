"""The arms on Spark: :class:`cerebro_spark.Adaptation` with all its optimisations or some, and a grid search."""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from benchmarks.adaptation._meter import Meter, forget
from benchmarks.adaptation._outcome import Cycle, Measured
from cerebro_spark import Adaptation, GridSearch, ModelTrainer, SparkBackend, Store
from optimizer.adaptation import Costs
from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from benchmarks.adaptation._workloads import Kind, Trainer, Workload

__all__ = ["MAT_ALL", "NO_FUSE", "NO_MAT", "OURS", "Setting", "Unfrozen", "grid_search", "opened", "ours"]

# Goes to the workers by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


_ROOT = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class Setting:
    """Settings of an arm on Spark.

    Parameters
    ----------
    name : str
        In tables.
    materialise, fuse : bool
        Optimisations that are on.
    disk_bytes : int
        For stored layers.
    memory_bytes : int
        Of a worker.
    workers : int
        With one thread each.
    replicas : int, optional
        Workers that read each shard; all by default.
    costs : Costs, optional
        Measured by default.
    bytes_per_second : float, optional
        That the reader of stored layers is held to.
    """

    name: str
    materialise: bool = True
    fuse: bool = True
    disk_bytes: int = 25 << 30
    memory_bytes: int = 4 << 30
    workers: int = 2
    replicas: int | None = None
    costs: Costs | None = None
    bytes_per_second: float | None = None


OURS = Setting("ours")
NO_MAT = Setting("without materialising", materialise=False)
NO_FUSE = Setting("without fusing", fuse=False)
# As the paper's own: its optimizer told that a read costs nothing, and no fusing.
MAT_ALL = Setting("MAT-ALL", fuse=False, costs=Costs(flops_per_second=1e9, bytes_per_second=1e18))


def opened(workers: int) -> SparkSession:
    """Open a session whose workers find the networks' modules."""
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.executorEnv.PYTHONPATH": _ROOT}
    return session(f"local[{workers}]", conf=settings)


def ours(spark: SparkSession, work: Workload, setting: Setting, *, cold: bool = False) -> Measured:
    """Run all cycles of an arm on Spark; a cycle's clock starts with its DataFrame, which lies on disk as Parquet.

    Parameters
    ----------
    spark : SparkSession
        With as many slots as workers.
    work : Workload
    setting : Setting
    cold : bool
        Whether the page cache has no file of the store when a cycle begins.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = work.scale.records
        frames = [
            work.records.frame(spark, cycle * size, (cycle + 1) * size, folder) for cycle in range(work.scale.cycles)
        ]
        started = time.perf_counter()
        campaign = Adaptation(
            backend=SparkBackend(spark, num_workers=setting.workers, threads=1),
            store=Store.from_uri(str(folder / "store")),
            trainer_fn=work.trainer,
            search_space=list(work.space),
            id_column="id",
            feature_columns=list(work.records.inputs),
            label_columns=["label"],
            image_size=work.image_size,
            test_fraction=0.2,
            max_records=work.scale.total,
            disk_bytes=setting.disk_bytes,
            memory_bytes=setting.memory_bytes,
            materialise=setting.materialise,
            fuse=setting.fuse,
            costs=setting.costs,
            bytes_per_second=setting.bytes_per_second,
            replicas=setting.replicas,
            metric=work.metric,
            progress=False,
        )
        initial = time.perf_counter() - started
        cycles = []
        for frame in frames:
            if cold:
                forget(folder)
            started = time.perf_counter()
            with Meter([os.getpid()]) as meter:
                selection = campaign.fit(frame)
            seconds, used = time.perf_counter() - started, meter.used
            best = max(trial.history[-1][f"val_{work.metric}"] for trial in selection.trials)
            cycles.append(Cycle(seconds, used.cpu, used.written, used.read, best))
    return Measured(setting.name, f"{setting.workers} x 1 thread, Spark", initial, 0, tuple(cycles))


@dataclass(frozen=True)
class Unfrozen:
    """A workload's function with nothing frozen; of torch.

    Parameters
    ----------
    trainer : Trainer
    """

    trainer: Trainer

    @property
    def kind(self) -> Kind:
        """The same as the function's."""
        return self.trainer.kind

    def __call__(self, params: Mapping[str, Any]) -> ModelTrainer:
        """Build one candidate of which everything learns."""
        made = self.trainer(params)
        # A copy: pre-trained weights may be pages of a file.
        net = copy.deepcopy(made.model).requires_grad_(True)
        return replace(made, model=net, optimizer=type(made.optimizer)(net.parameters(), lr=params["lr"]))


def grid_search(spark: SparkSession, work: Workload, workers: int = 2) -> float:
    """Time a grid search over the first cycle's records, from the DataFrame on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = work.records.frame(spark, 0, work.scale.records, folder)
        started = time.perf_counter()
        GridSearch(
            backend=SparkBackend(spark, num_workers=workers, threads=1),
            store=Store.from_uri(str(folder / "store")),
            trainer_fn=work.trainer,
            search_space=list(work.space),
            num_epochs=work.space[0]["epochs"],
            feature_columns=list(work.records.inputs),
            label_columns=["label"],
            image_size=work.image_size,
            test_fraction=0.2,
            metric=work.metric,
            progress=False,
        ).fit(frame)
        return time.perf_counter() - started
