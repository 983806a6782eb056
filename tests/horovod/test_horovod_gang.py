"""Two Spark tasks that sum by Horovod: the results equal those of torch's gloo, and no task waits for a dead one."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyspark import cloudpickle
from sessions import CONNECT

from udfs.gang import GangError, gang
from udfs.mlp import Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, Row, SparkSession

    from udfs.gang import Backend

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="examples/build_horovod.sh builds Horovod"),
    pytest.mark.skipif(CONNECT, reason="tasks are the same on Connect"),
]

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TRAINING = Training(
    hidden=(16, 8),
    regression=False,
    classes=3,
    epochs=3,
    step_size=0.02,
    solver="adam",
    batch_size=32,
    backend="gloo",
    standardise=True,
    l2=0.01,
    seed=3,
    device="cpu",
    largest=2**30,
    features="features",
    label="label",
)


def rows(spark: SparkSession, count: int = 301) -> DataFrame:
    """Three classes that overlap, on two partitions."""
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 3, count)
    features = draw.normal(size=(count, 6)).astype(np.float32) + labels[:, None].astype(np.float32)
    table = spark.createDataFrame(
        list(zip(features.tolist(), labels.astype(float).tolist(), strict=True)), "features array<float>, label double"
    )
    return table.repartition(2).sortWithinPartitions("features", "label")


def in_two_tasks(
    spark: SparkSession, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> list[Row]:
    return spark.range(2).repartition(2).mapInArrow(work, schema, barrier=True).collect()


def operations(backend: Backend, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each operation of a gang once, on what depends on the rank."""
    list(batches)  # Spark keeps the process of a task that has read all
    before = dict(os.environ)
    with gang(backend=backend) as tasks:
        draw = torch.Generator().manual_seed(tasks.rank)
        mean = [torch.randn(size, generator=draw) for size in (1000, 1, 7)] + [torch.randn(5, generator=draw).double()]
        tasks.mean_(mean, weight=3.0 - tasks.rank)
        whole = torch.tensor([2**53 + tasks.rank, tasks.rank])
        tasks.sum_([whole])
        there = [torch.full((3,), float(tasks.rank)), torch.tensor(tasks.rank)]
        tasks.broadcast_(there, source=1)
        said = tasks.all_gather(b"x\0" * (1 + 3 * tasks.rank))
        found = {
            "mean": [tensor.numpy().tobytes().hex() for tensor in mean],
            "whole": whole.tolist(),
            "there": [tensor.tolist() for tensor in there],
            "said": [message.hex() for message in said],
        }
    assert dict(os.environ) == before, "a later Horovod of this process is to have its own settings"
    yield pa.record_batch({"rank": [tasks.rank], "pid": [os.getpid()], "found": [json.dumps(found)]})


def test_every_operation_gives_what_gloo_gives(spark: SparkSession) -> None:
    run = partial(in_two_tasks, spark, schema="rank long, pid long, found string")
    expected = {row["rank"]: row["found"] for row in run(partial(operations, "gloo"))}
    assert expected[0] == expected[1]
    assert set(expected) == {0, 1}
    processes: list[set[int]] = []
    for _ in range(3):
        found = run(partial(operations, "horovod"))
        assert {row["rank"]: row["found"] for row in found} == expected
        processes.append({row["pid"] for row in found})
    # Spark keeps its workers' processes: they have shut Horovod down, and started it again.
    assert processes[0] & processes[1]
    assert processes[1] & processes[2]


def test_a_perceptron_gets_the_same_weights(spark: SparkSession) -> None:
    table = rows(spark)
    found = [
        table.mapInArrow(replace(TRAINING, backend=backend), Training.schema, barrier=True).collect()
        for backend in ("gloo", "horovod")
    ]
    ((ours,), (theirs,)) = found
    report = json.loads(theirs["report"])
    assert report == json.loads(ours["report"])
    assert report["tasks"] == 2
    assert report["losses"][-1] < 0.8 * report["losses"][0]
    assert bytes(theirs["network"]) == bytes(ours["network"])


def steps(backend: Backend, _batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A few steps of momentum; by Horovod's own optimiser where Horovod is the backend."""
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
    solver: Any = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    with gang(backend=backend) as tasks:
        if backend == "horovod":
            import horovod.torch as hvd

            assert (hvd.rank(), hvd.size(), hvd.local_rank()) == (tasks.rank, tasks.size, 0)
            solver = hvd.DistributedOptimizer(solver, named_parameters=net.named_parameters())
        draw = torch.Generator().manual_seed(100 + tasks.rank)
        for _ in range(20):
            solver.zero_grad()
            net(torch.randn(16, 6, generator=draw)).square().mean().backward()
            if backend == "gloo":
                tasks.mean_([parameter.grad for parameter in net.parameters()])
            solver.step()
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()])
    yield pa.record_batch({"weights": [weights.numpy().tobytes()]})


def test_the_optimiser_of_horovod_averages_as_the_gang_does(spark: SparkSession) -> None:
    found = {}
    for backend in ("gloo", "horovod"):
        one, other = in_two_tasks(spark, partial(steps, backend), "weights binary")
        assert one == other, "all tasks have the same weights"
        found[backend] = np.frombuffer(bytes(one["weights"]), np.float32)
    np.testing.assert_allclose(found["horovod"], found["gloo"], rtol=0, atol=1e-6)


def leaving(how: str, _batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The second task goes, in the middle of it; the first one waits for it."""
    with gang(timeout_s=10.0 if how == "stays away" else 60.0, backend="horovod") as tasks:
        tasks.sum_([torch.ones(3)])
        if tasks.rank == 1:
            if how == "raises":
                raise ZeroDivisionError("this one's own")
            if how == "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(500)
        tasks.sum_([torch.ones(3)])
    yield pa.record_batch({"x": [1]})


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", r"ZeroDivisionError: this one's own"),
        ("is killed", r"Python worker exited unexpectedly|waited for another one that left"),
        ("stays away", r"GangError: task 0 of 2 waited for another one that left or fell behind"),
    ],
)
def test_a_task_that_dies_ends_the_job(spark: SparkSession, how: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        in_two_tasks(spark, partial(leaving, how), "x long")
    run = partial(in_two_tasks, spark, schema="rank long, pid long, found string")
    assert {row["rank"] for row in run(partial(operations, "horovod"))} == {0, 1}


def twice(_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with gang(backend="horovod") as tasks:
        try:
            with gang(backend="horovod"):
                said = "a second one"
        except GangError as error:
            said = str(error)
        tasks.sum_([torch.ones(1)])
    yield pa.record_batch({"said": [said]})


def test_one_gang_at_a_time(spark: SparkSession) -> None:
    for row in in_two_tasks(spark, twice, "said string"):
        assert "Horovod runs in this process already" in row["said"]
