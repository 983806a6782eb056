from __future__ import annotations

import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pytest
import torch
from sessions import CONNECT

from udfs.gang import Gang, GangError, gang
from udfs.gang import _gang as allreduce
from udfs.gang._horovod import _interface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession


class Room:
    """Where the members of a gang, threads of this process, exchange messages as Spark's tasks do."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.calls = [0] * size
        self._messages = [""] * size
        self._barrier = threading.Barrier(size, timeout=60)

    def exchange(self, rank: int) -> Callable[[str], list[str]]:
        def swap(message: str) -> list[str]:
            self.calls[rank] += 1
            self._messages[rank] = message
            self._barrier.wait()
            return list(self._messages)

        return swap


def members(size: int, work: Callable[[Gang], Any], timeout_s: float = 60.0) -> list[Any]:
    """Return the result of ``work`` in each member of a gang; an error is a result too."""
    room = Room(size)

    def member(rank: int) -> Any:
        try:
            joined = Gang.connect(rank, size, "127.0.0.1", room.exchange(rank), timeout_s)
            try:
                return work(joined)
            finally:
                joined.close()
        except GangError as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        found = list(pool.map(member, range(size)))
    assert room.calls == [int(size > 1)] * size, "each exchange costs a second of Spark's time"
    return found


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allreduce, "_GRACE_S", 0.0)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rank_and_size(size: int) -> None:
    assert members(size, lambda joined: (joined.rank, joined.size)) == [(rank, size) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 3])
def test_mean_is_weighted(size: int) -> None:
    weights = [2.0, 0.0, 5.0][:size]

    def work(joined: Gang) -> tuple[float, list[torch.Tensor]]:
        # What a member without rows holds may be anything.
        value = float("nan") if weights[joined.rank] == 0 else joined.rank + 1.0
        tensors = [torch.full((2, 3), value), torch.tensor(10 * value), torch.full((4,), value, dtype=torch.float64)]
        return joined.mean_(tensors, weights[joined.rank]), tensors

    expected = sum(weight * (rank + 1) for rank, weight in enumerate(weights)) / sum(weights)
    found = members(size, work)
    for total, (matrix, scalar, double) in found:
        assert total == sum(weights)
        torch.testing.assert_close(matrix, torch.full((2, 3), expected))
        torch.testing.assert_close(scalar, torch.tensor(10 * expected))
        torch.testing.assert_close(double, torch.full((4,), expected, dtype=torch.float64))
    assert len({tensors[0].numpy().tobytes() for _, tensors in found}) == 1


def test_mean_of_nothing_is_zero() -> None:
    def work(joined: Gang) -> tuple[float, torch.Tensor]:
        tensor = torch.full((2,), float("nan"))
        return joined.mean_([tensor], 0.0), tensor

    for total, tensor in members(2, work):
        assert total == 0.0
        assert tensor.tolist() == [0.0, 0.0]


def test_a_strided_tensor_and_half_precision_are_changed_in_place() -> None:
    def work(joined: Gang) -> tuple[torch.Tensor, torch.Tensor]:
        whole = torch.zeros(2, 4)
        column = whole[:, 1]
        column += joined.rank
        # A third of most of these is no number of float16: the sum has to be made in float32.
        half = torch.linspace(1, 2, 100).half()
        joined.mean_([column, half])
        return whole, half

    for whole, half in members(3, work):
        assert whole.tolist() == [[0, 1, 0, 0], [0, 1, 0, 0]]
        assert torch.equal(half, torch.linspace(1, 2, 100).half())


def test_many_buckets_are_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(joined: Gang) -> list[torch.Tensor]:
        draw = torch.Generator().manual_seed(joined.rank)
        tensors = [torch.randn(length, generator=draw) for length in (3, 50, 0, 7, 1)]
        joined.mean_(tensors, joined.rank + 1)
        joined.sum_(tensors)
        return tensors

    whole = members(2, work)
    monkeypatch.setattr(allreduce, "_BUCKET", 40)
    for one, other in zip(whole, members(2, work), strict=True):
        for ours, theirs in zip(one, other, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_sum_keeps_whole_numbers() -> None:
    def work(joined: Gang) -> list[torch.Tensor]:
        tensors = [torch.tensor([2**53 + joined.rank]), torch.tensor(0.5)]
        joined.sum_(tensors)
        return tensors

    for whole, half in members(3, work):
        assert whole.item() == 3 * 2**53 + 3
        assert half.item() == 1.5


def test_broadcast() -> None:
    def work(joined: Gang) -> list[float]:
        tensors = [torch.tensor(float(joined.rank)), torch.tensor([joined.rank * 10.0])]
        joined.broadcast_(tensors, source=2)
        return [tensor.item() for tensor in tensors]

    assert members(3, work) == [[2.0, 20.0]] * 3


def test_messages_of_any_length() -> None:
    messages = [b"one\0", b"", b"\0" * 1000]
    assert members(3, lambda joined: joined.all_gather(messages[joined.rank])) == [messages] * 3
    assert members(2, lambda joined: joined.all_gather(b"")) == [[b"", b""]] * 2


def test_a_member_that_leaves_ends_the_others() -> None:
    def work(joined: Gang) -> str:
        if joined.rank == 1:
            return "left"
        joined.sum_([torch.ones(3)])
        return "went on"

    first, second, third = members(3, work)
    assert second == "left"
    for error in (first, third):
        assert isinstance(error, GangError)
        assert "of 3 waited for another one that left or fell behind" in str(error)


def test_a_member_that_falls_behind_is_not_waited_for_for_ever() -> None:
    waited = threading.Event()

    def work(joined: Gang) -> None:
        if joined.rank == 1:
            assert waited.wait(20)
            return
        try:
            joined.sum_([torch.ones(3)])
        finally:
            waited.set()

    first, _ = members(2, work, timeout_s=1.0)
    assert isinstance(first, GangError)


def test_a_stranger_is_found_out() -> None:
    room = Room(2)

    def member(rank: int) -> str:
        def exchange(message: str) -> list[str]:
            found = room.exchange(rank)(message)
            if rank == 0:
                # The process that answers in place of member 1 does not know its token.
                found[1] = found[1].replace('"token": "', '"token": "00')
            return found

        with pytest.raises(GangError, match="does not know what the members know"):
            Gang.connect(rank, 2, "127.0.0.1", exchange, 60)
        return "refused"

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(member, range(2))) == ["refused", "refused"]


def test_an_interface_that_is_not_ours() -> None:
    with pytest.raises(GangError, match=r"listening on 203\.0\.113\.1"):
        Gang.connect(0, 2, "203.0.113.1", lambda message: [message, message], 1)


def test_a_backend_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GangError, match=r"backend must be one of gloo, horovod, got 'mpi'"):
        Gang.connect(0, 1, "127.0.0.1", list, backend="mpi")
    monkeypatch.setitem(sys.modules, "horovod", None)
    monkeypatch.setitem(sys.modules, "horovod.torch", None)
    with pytest.raises(GangError, match=r"examples/build_horovod\.sh of cerebro-spark builds it"):
        Gang.connect(0, 2, "127.0.0.1", list, backend="horovod")


def test_horovod_is_told_the_interface_by_name() -> None:
    there = {
        one.address: name
        for name, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family == socket.AF_INET
    }
    assert {address: _interface(address) for address in there} == there
    assert _interface("localhost") == _interface("127.0.1.1") == there["127.0.0.1"]
    with pytest.raises(GangError, match=r"network interface of this machine, got 203\.0\.113\.1"):
        _interface("203.0.113.1")


def test_a_gang_needs_a_barrier_stage(spark: SparkSession) -> None:
    with pytest.raises(GangError, match=r"barrier=True"), gang():
        pass

    def alone(_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            with gang():
                yield pa.record_batch({"said": ["met"]})
        except GangError as error:
            yield pa.record_batch({"said": [str(error)]})

    assert "barrier=True" in spark.range(1).mapInArrow(alone, "said string").first()[0]


def test_tasks_of_a_barrier_stage(spark: SparkSession) -> None:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = sum(sum(batch.column(0).to_pylist()) for batch in batches)
        with gang() as tasks:
            value = torch.tensor(float(mine))
            tasks.sum_([value])
            yield pa.record_batch({"rank": [tasks.rank], "size": [tasks.size], "sum": [value.item()]})

    for _ in range(2):  # Spark keeps the workers' processes: the second gang meets where the first one did
        df = spark.range(10).repartition(2).mapInArrow(work, "rank long, size long, sum double", barrier=True)
        assert sorted(map(tuple, df.collect())) == [(0, 2, 45.0), (1, 2, 45.0)]


def test_the_error_of_the_task_that_fails_is_the_one_that_is_seen(spark: SparkSession) -> None:
    def work(_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with gang() as tasks:
            tasks.sum_([torch.ones(3)])
            if tasks.rank == 1:
                raise ZeroDivisionError("this one's own")
            tasks.sum_([torch.ones(3)])
        yield pa.record_batch({"x": [1]})

    df = spark.range(4).repartition(2).mapInArrow(work, "x long", barrier=True)
    with pytest.raises(Exception, match=r"ZeroDivisionError: this one's own") as caught:
        df.collect()
    assert "GangError" not in str(caught.value)
    if not CONNECT:
        assert spark.range(3).count() == 3
