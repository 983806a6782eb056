"""Baseline: a configuration per Spark task with all data local, as a study with MLflow on Spark trains."""

from __future__ import annotations

import sys
import time
import types
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pyspark import cloudpickle

from benchmarks.hopper._arms import BATCH, Work, _epoch, _error, _order, network, optimizer_of
from optimizer.procedures import Ended, EpochResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from optimizer.procedures import Procedure

__all__ = ["Study", "perceptron"]

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def perceptron(features: int, params: dict[str, Any]) -> torch.nn.Module:
    """A perceptron of two hidden layers, of ``width`` and half of it; ours trains the same."""
    return network(features, {"hidden": [params["width"], params["width"] // 2]})


@dataclass(frozen=True)
class _Grant:
    """Epochs ``first`` to ``last`` of a configuration, trained in one task from the state of the last grant."""

    work: Work
    folder: str
    trial_id: str
    number: int
    params: dict[str, Any]
    first: int
    last: int
    make: Callable[[dict[str, Any]], torch.nn.Module]
    schema: str = field(default="errors array<double>", init=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # as a task imports it

        for _ in batches:
            pass
        torch.set_num_threads(1)
        train, held = self._data()
        torch.manual_seed(self.work.seed + self.number)
        net = self.make(self.params)
        solver = optimizer_of(net, self.params)
        state = Path(self.folder) / f"{self.trial_id}.pt"
        if self.first:
            kept = torch.load(state)
            net.load_state_dict(kept["net"])
            solver.load_state_dict(kept["solver"])
        errors = []
        for epoch in range(self.first, self.last):
            _epoch(net, solver, train, _order(self.work.seed, self.number, epoch, train.rows), BATCH)
            errors.append(_error(net, held))
        torch.save({"net": net.state_dict(), "solver": solver.state_dict()}, state)
        yield pa.RecordBatch.from_pydict({"errors": pa.array([errors], pa.list_(pa.float64()))})

    def _data(self) -> Any:
        # Spark uses its Python processes again: the rows stay there from task to task.
        kept: Any = sys.modules.setdefault("rows_of_the_rival", types.ModuleType("rows_of_the_rival"))
        if not hasattr(kept, "rows"):
            kept.rows = (self.work.rows("train"), self.work.rows("validation"))
        return kept.rows


@dataclass
class Study:
    """Study whose procedure decides in the driver, with a Spark job of one task per grant.

    Parameters
    ----------
    spark : SparkSession
    work : Work
    folder : str
        Where states lie between grants.
    workers : int
    make : callable
        Makes the network of a configuration's params.
    """

    spark: SparkSession
    work: Work
    folder: str
    workers: int
    make: Callable[[dict[str, Any]], torch.nn.Module]

    def warm(self, params: dict[str, Any]) -> None:
        """Start the workers, import and load: none of it is timed."""
        with ThreadPoolExecutor(self.workers) as pool:
            for index in range(self.workers):
                pool.submit(self._train, _Grant(self.work, self.folder, f"warm{index}", 0, params, 0, 1, self.make))

    def run(
        self, procedure: Procedure, known: Mapping[tuple[str, int], float], seconds: float | None = None
    ) -> tuple[float, float]:
        """Run a procedure to its end, or for a number of seconds.

        Parameters
        ----------
        procedure : Procedure
            Procedure whose metric is accuracy.
        known : mapping of (str, int) to float
            Metrics that the procedure receives instead of the measured ones, so that both systems decide alike.
        seconds : float, optional
            Seconds after which no further task starts.

        Returns
        -------
        float
            Duration in seconds.
        float
            Share of the workers' time without a task.
        """
        started, busy = time.perf_counter(), 0.0
        running: dict[Any, tuple[_Grant, float]] = {}
        waiting: list[str] = []
        with ThreadPoolExecutor(self.workers) as pool:
            results: list[EpochResult | Ended] = []
            while True:
                over = seconds is not None and time.perf_counter() - started > seconds
                idle = max(0, self.workers - len(running) - len(waiting))
                if not over:
                    # One may be paused and promoted at once.
                    for name in dict.fromkeys(each.trial_id for each in procedure.ask(results, idle=idle)):
                        trial = procedure.ledger[name]
                        if trial.live and trial.finished < trial.granted:
                            waiting.append(trial.trial_id)
                while waiting and len(running) < self.workers and not over:
                    trial = procedure.ledger[waiting.pop(0)]
                    grant = _Grant(
                        self.work,
                        self.folder,
                        trial.trial_id,
                        trial.number,
                        trial.params,
                        trial.finished,
                        trial.granted,
                        self.make,
                    )
                    running[pool.submit(self._train, grant)] = grant, time.perf_counter()
                if not running:
                    break
                results = []
                for each in wait(running, return_when=FIRST_COMPLETED).done:
                    grant, began = running.pop(each)
                    busy += time.perf_counter() - began
                    for epoch, error in enumerate(each.result(), grant.first + 1):
                        accuracy = known.get((grant.trial_id, epoch), 1.0 - error)
                        results.append(EpochResult(grant.trial_id, epoch, {"accuracy": accuracy}))
        took = time.perf_counter() - started
        return took, 1 - busy / (self.workers * took)

    def _train(self, grant: _Grant) -> list[float]:
        (row,) = self.spark.range(0, 1, 1, 1).mapInArrow(grant, grant.schema).collect()
        return list(row["errors"])
