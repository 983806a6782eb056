"""Ways to train many configurations over one table, each a function that a process or a Spark task runs.

All of them train the same networks on the same rows with the same optimiser, one thread a worker, and evaluate every
configuration on all validation rows after each epoch. Nothing but torch is in their loops.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pyspark import cloudpickle

from udfs.gang import gang
from udfs.shards import PreparedData, Tensors, load_shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from udfs.gang import Gang

__all__ = ["BATCH", "Arm", "Work", "network", "optimizer_of", "train_all"]

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCH = 32


def network(features: int, params: dict[str, Any]) -> torch.nn.Module:
    """A perceptron of two hidden layers, as the seeds' Criteo workload has."""
    first, second = params["hidden"]
    return torch.nn.Sequential(
        torch.nn.Linear(features, first),
        torch.nn.ReLU(),
        torch.nn.Linear(first, second),
        torch.nn.ReLU(),
        torch.nn.Linear(second, 2),
    )


def optimizer_of(net: torch.nn.Module, params: dict[str, Any]) -> torch.optim.Optimizer:
    """Adam, as the seeds use."""
    return torch.optim.Adam(net.parameters(), lr=params["lr"], weight_decay=params["decay"])


@dataclass(frozen=True)
class Work:
    """The training task of all arms.

    Parameters
    ----------
    prepared : PreparedData
    configs : tuple of dict
    epochs, seed : int
    batch : int
        Rows of a step; all-reduce has a share of them in each task.
    """

    prepared: PreparedData
    configs: tuple[dict[str, Any], ...]
    epochs: int
    seed: int
    batch: int = BATCH

    @property
    def features(self) -> int:
        """Numbers of a row."""
        return int(self.prepared.inputs[0].shape[0])

    def rows(self, split: str, partitions: Iterable[int] | None = None) -> Tensors:
        """Return the rows of a split, or those of some shards."""
        wanted = self.prepared.partitions if partitions is None else tuple(partitions)
        parts = [load_shard(self.prepared, split, number) for number in wanted]
        inputs = np.concatenate([part.inputs[0] for part in parts])
        return Tensors((inputs,), (np.concatenate([part.labels[0] for part in parts]),), len(inputs))


def train_all(work: Work, configs: Sequence[int]) -> tuple[float, float, dict[int, list[float]]]:
    """A bare loop: one configuration after the other on all rows.

    Returns
    -------
    float
        Seconds of training and validation, without the loading.
    float
        Of these, seconds of CPU.
    dict of int to list of float
        Validation error by epoch.
    """
    torch.set_num_threads(1)
    train, held = work.rows("train"), work.rows("validation")
    _warm(work)
    started, worked = time.perf_counter(), time.process_time()
    errors = {}
    for number in configs:
        torch.manual_seed(work.seed + number)
        net = network(work.features, work.configs[number])
        solver = optimizer_of(net, work.configs[number])
        errors[number] = []
        for epoch in range(work.epochs):
            _epoch(net, solver, train, _order(work.seed, number, epoch, train.rows), work.batch)
            errors[number].append(_error(net, held))
    return time.perf_counter() - started, time.process_time() - worked, errors


@dataclass(frozen=True)
class Arm:
    """A way to train in Spark tasks. Call it with ``mapInArrow``; it reports a row a configuration.

    Parameters
    ----------
    work : Work
    how : {"task-parallel", "all-reduce", "horovod", "averaging"}
        A task trains its configurations on a full copy; or all tasks each configuration on their shards, with gradients
        averaged every step, by our gang or by Horovod's optimiser, or weights every epoch.
    tasks : int
    """

    work: Work
    how: str
    tasks: int
    schema: str = field(default="config int, errors array<double>, seconds double, sent long, cpu double", init=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Train the configurations of this task."""
        import pyarrow as pa  # as a task imports it

        numbers = [int(number) for batch in batches for number in batch.column(0).to_pylist()]
        if self.how == "task-parallel":
            seconds, cpu, errors = train_all(self.work, numbers)
            sent = 0
        else:
            with gang(backend="horovod" if self.how == "horovod" else "gloo") as together:
                seconds, cpu, errors, sent = self._together(together)
        yield pa.RecordBatch.from_pydict(
            {
                "config": pa.array(list(errors), pa.int32()),
                "errors": pa.array(list(errors.values()), pa.list_(pa.float64())),
                "seconds": [seconds] * len(errors),
                "sent": pa.array([sent] * len(errors), pa.int64()),
                "cpu": [cpu] * len(errors),
            }
        )

    def _together(self, together: Gang) -> tuple[float, float, dict[int, list[float]], int]:
        torch.set_num_threads(1)
        work = self.work
        train = work.rows("train", work.prepared.partitions[together.rank :: together.size])
        held = work.rows("validation", work.prepared.partitions[together.rank :: together.size])
        _warm(work)
        together.all_gather(b"ready")
        started, worked = time.perf_counter(), time.process_time()
        errors, sent = {}, 0
        for number, params in enumerate(work.configs):
            torch.manual_seed(work.seed + number)
            net = network(work.features, params)
            solver = optimizer_of(net, params)
            if self.how == "horovod":
                solver = _by_horovod(net, solver)
            size = sum(parameter.nbytes for parameter in net.parameters())
            errors[number] = []
            for epoch in range(work.epochs):
                order = _order(work.seed, number, epoch, train.rows)
                if self.how in {"all-reduce", "horovod"}:
                    # A share of the global batch each, so that the optimiser sees batches of the same size.
                    sent += size * _epoch(
                        net,
                        solver,
                        train,
                        order,
                        work.batch // together.size,
                        together,
                        averaging=self.how == "horovod",
                    )
                else:
                    _epoch(net, solver, train, order, work.batch)
                    together.mean_([parameter.data for parameter in net.parameters()])
                    sent += size
                wrong = torch.tensor([_error(net, held) * held.rows, held.rows], dtype=torch.float64)
                together.sum_([wrong])
                errors[number].append(float(wrong[0] / wrong[1]))
        return time.perf_counter() - started, time.process_time() - worked, errors, sent


def _epoch(
    net: torch.nn.Module,
    solver: torch.optim.Optimizer,
    data: Tensors,
    order: np.ndarray,
    size: int,
    together: Gang | None = None,
    *,
    averaging: bool = False,
) -> int:
    """One pass; gives the number of steps. An ``averaging`` solver averages gradients over the tasks by itself."""
    loss_of = torch.nn.CrossEntropyLoss()
    net.train()
    steps = range(0, len(order), size)
    if together is not None:
        # Shards differ by a row: everybody takes as many steps as the shortest allows.
        counts = [int(count) for count in together.all_gather(str(len(steps)).encode())]
        steps = steps[: min(counts)]
    for start in steps:
        picked = order[start : start + size]
        solver.zero_grad()
        rows, labels = torch.from_numpy(data.inputs[0][picked]), torch.from_numpy(data.labels[0][picked])
        loss_of(net(rows), labels).backward()
        if together is not None and not averaging:
            together.mean_([parameter.grad for parameter in net.parameters()])
        solver.step()
    return len(steps)


def _by_horovod(net: torch.nn.Module, solver: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Average gradients by Horovod, which sends each gradient while those before it are computed."""
    import horovod.torch as hvd  # where there is one

    return hvd.DistributedOptimizer(solver, named_parameters=net.named_parameters())


def _error(net: torch.nn.Module, data: Tensors) -> float:
    net.eval()
    with torch.inference_mode():
        wrong = 0
        for start in range(0, data.rows, 256):
            outputs = net(torch.from_numpy(data.inputs[0][start : start + 256]))
            wrong += int((outputs.argmax(1) != torch.from_numpy(data.labels[0][start : start + 256])).sum())
    return wrong / data.rows


def _order(seed: int, number: int, epoch: int, rows: int) -> np.ndarray:
    return np.random.default_rng([seed, number, epoch]).permutation(rows)


def _warm(work: Work) -> None:
    """Take a first step, which pays once for libraries, threads and memory."""
    net = network(work.features, work.configs[0])
    solver = optimizer_of(net, work.configs[0])
    for _ in range(3):
        net(torch.zeros(BATCH, work.features)).sum().backward()
        solver.step()
