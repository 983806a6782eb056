"""Gang: the tasks of a barrier stage, connected for collective operations over the cluster's network."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from pyspark import BarrierTaskContext, TaskContext

from optimizer.arguments import choice_error
from udfs.gang._errors import GangError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

__all__ = ["BACKENDS", "Backend", "Gang", "gang"]

Backend = Literal["gloo", "horovod"]
"""Library of the collective operations: gloo, which is part of torch, or Horovod, if it is installed."""
BACKENDS: tuple[str, ...] = get_args(Backend)

# Time of one step of the slowest task, plus the transfer. The rows are in memory before the tasks connect.
_TIMEOUT_S = 120.0

# Bytes of one all-reduce, and therefore of the memory that it takes in addition to the tensors.
_BUCKET = 64 * 2**20

# Seconds for Spark to receive the error of the failed task and end the others, so that users see the original error.
_GRACE_S = 5.0


class Gang:
    """Membership of this task in a barrier stage. Every task must call the same operations in the same order.

    An operation raises :class:`GangError` if another task leaves, or does not call it in time.

    Create instances with :func:`gang`, or with :meth:`connect` outside Spark.

    Attributes
    ----------
    rank : int
        Index of this task, from 0; in a barrier stage, the index of its partition.
    size : int
        Number of tasks.

    Examples
    --------
    >>> alone = Gang(0, 1)
    >>> alone.all_gather(b"here")
    [b'here']
    """

    def __init__(self, rank: int, size: int, group: Any = None, grace_s: float | None = None) -> None:
        self.rank = rank
        self.size = size
        self._group = group
        self._grace_s = grace_s

    @classmethod
    def connect(
        cls,
        rank: int,
        size: int,
        host: str,
        exchange: Callable[[str], list[str]],
        timeout_s: float = _TIMEOUT_S,
        backend: Backend = "gloo",
        *,
        operation_timeout_s: float | None = None,
        grace_s: float | None = None,
    ) -> Gang:
        """Connect to the other tasks.

        The tasks exchange their addresses through ``exchange``, which must be a channel that only members can use, such
        as Spark's. Then every member proves to every other that it knows the exchanged messages. Later messages of gloo
        are neither encrypted nor signed (torch is built without TLS for gloo), so the network between the executors
        must be as trusted as it is for Spark's shuffles.

        Parameters
        ----------
        rank, size : int
            Index of this task, from 0, and number of tasks.
        host : str
            Name or address of the interface to listen on.
        exchange : callable
            Function that takes the message of this task and returns those of all tasks, ordered by rank. It is called
            exactly once.
        timeout_s : float
            Seconds to wait for another task, here and in every operation. Default 120.
        backend : {"gloo", "horovod"}
            Library of the collective operations. Horovod has one global state per process, so that a process can be a
            member of one gang at a time. Default ``"gloo"``.
        operation_timeout_s : float, optional
            Seconds to wait for another task in an operation of gloo. Default ``timeout_s``.
        grace_s : float, optional
            Seconds between the failure of an operation and its error, in which Spark receives the error of the task
            that failed. Default 5.

        Raises
        ------
        GangError
            The task cannot listen on the interface; another task cannot be reached or does not know the exchanged
            messages; or Horovod is not installed.
        """
        if backend not in BACKENDS:
            raise GangError(choice_error("backend", backend, BACKENDS))
        if size == 1:
            return cls(rank, size)
        token = secrets.token_hex(16)
        tokens: list[str] = []

        def swap(address: bytes) -> list[bytes]:
            messages = [json.loads(text) for text in exchange(json.dumps({"at": address.hex(), "token": token}))]
            tokens.extend(message["token"] for message in messages)
            return [bytes.fromhex(message["at"]) for message in messages]

        meet = _horovod if backend == "horovod" else _process_group
        group = meet(rank, size, host, swap, timeout_s)
        if operation_timeout_s is not None:
            group._set_default_timeout(timedelta(seconds=operation_timeout_s))  # noqa: SLF001 - no public name
        made = cls(rank, size, group, grace_s)
        known = "".join(tokens)
        proofs = [hashlib.sha256(f"{known}{member}".encode()).digest() for member in range(size)]
        if made.all_gather(proofs[rank]) != proofs:
            made.close()
            raise GangError(f"task {rank}: what answered in a member's place does not know what the members know")
        return made

    def close(self) -> None:
        """Leave the gang. Afterwards no task may call an operation that involves this task."""
        group, self._group = self._group, None
        if hasattr(group, "leave"):  # the group of torch leaves when it is garbage-collected
            group.leave()

    def mean_(self, tensors: Sequence[torch.Tensor], weight: float = 1.0, *, total: float | None = None) -> float:
        """Replace tensors by their weighted means over the tasks, in place.

        The mean is the sum of ``weight * tensor`` divided by the sum of ``weight``. If the weights are the numbers of
        rows, the means over the batches of the tasks become the mean over the whole batch. Equal sizes give the same
        bits every time.

        Parameters
        ----------
        tensors : sequence of torch.Tensor
            Floating-point tensors, of the same shapes and in the same order in every task. Half precision is summed in
            float32.
        weight : float
            Non-negative weight of this task. The tensors of a task with weight 0 have no influence, even if they
            contain NaN. Default 1.
        total : float, optional
            Sum of the weights of all tasks, if every task knows it. Default: an exchange of its own computes it.

        Returns
        -------
        float
            Sum of the weights. If it is 0, the tensors are set to zero.

        Raises
        ------
        GangError
            Another task left, or did not call the operation in time.
        """
        import torch  # an optional extra

        if total is None:
            total = self._reduced(torch.tensor([float(weight)], dtype=torch.float64))
        if total == 0:
            for tensor in tensors:
                tensor.zero_()
            return 0.0
        for bucket in _buckets(tensors):
            scaled = [tensor.to(torch.promote_types(tensor.dtype, torch.float32)).reshape(-1) for tensor in bucket]
            joined = torch.cat(scaled).cpu()
            joined = joined.mul_(weight / total) if weight else torch.zeros_like(joined)
            self._all_reduce(joined)
            _spread(joined, bucket)
        return total

    def sum_(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace tensors by their sums over the tasks, in place, without a change of element types.

        Raises
        ------
        GangError
            Another task left, or did not call the operation in time.
        """
        import torch  # an optional extra

        for bucket in _buckets(tensors):
            joined = torch.cat([tensor.reshape(-1) for tensor in bucket]).cpu()
            self._all_reduce(joined)
            _spread(joined, bucket)

    def broadcast_(self, tensors: Sequence[torch.Tensor], source: int = 0) -> None:
        """Replace tensors by those of the task with rank ``source``, in place.

        Raises
        ------
        GangError
            Another task left, or did not call the operation in time.
        """
        import torch  # an optional extra

        if self._group is None:
            return
        options = torch.distributed.BroadcastOptions()
        options.rootRank = source
        for bucket in _buckets(tensors):
            joined = torch.cat([tensor.reshape(-1) for tensor in bucket]).cpu()
            self._wait(self._group.broadcast([joined], options))
            _spread(joined, bucket)

    def all_gather(self, message: bytes) -> list[bytes]:
        """Gather the messages of all tasks, ordered by rank. The messages may differ in length.

        Raises
        ------
        GangError
            Another task left, or did not call the operation in time.
        """
        import torch  # an optional extra

        if self._group is None:
            return [message]
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(message)
        self._all_reduce(lengths)
        longest = int(lengths.max())
        padded = torch.tensor(list(message.ljust(longest, b"\0")), dtype=torch.uint8)
        gathered = [torch.empty_like(padded) for _ in range(self.size)]
        if longest:
            self._wait(self._group.allgather([gathered], [padded]))
        return [bytes(text[:length].tolist()) for text, length in zip(gathered, lengths, strict=True)]

    def _reduced(self, tensor: torch.Tensor) -> float:
        self._all_reduce(tensor)
        return tensor.item()

    def _all_reduce(self, tensor: torch.Tensor) -> None:
        if self._group is not None:
            self._wait(self._group.allreduce([tensor]))

    def _wait(self, work: Any) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            time.sleep(_GRACE_S if self._grace_s is None else self._grace_s)
            raise GangError(
                f"task {self.rank} of {self.size} waited for another one that left or fell behind; "
                f"that task's own error says why ({str(error).splitlines()[0]})"
            ) from error


@contextmanager
def gang(timeout_s: float = _TIMEOUT_S, backend: Backend = "gloo") -> Iterator[Gang]:
    """Connect the tasks of this barrier stage within a ``with`` block.

    Every task of ``DataFrame.mapInArrow(function, schema, barrier=True)`` must call it, after it has read its rows: the
    wait for the other tasks to connect has no time limit, whereas an operation has. The connection costs one
    ``allGather`` (1 s); a single task needs none.

    If a task fails, the others end at once. The task reports its error to Spark before its connections close, and the
    errors of the others refer to it.

    Parameters
    ----------
    timeout_s : float
        Seconds to wait for another task in an operation. Choose it longer than the slowest task takes between two
        operations. Default 120.
    backend : {"gloo", "horovod"}
        Library of the collective operations. With ``"horovod"``, ``horovod.torch`` is initialized within the block with
        the ranks of the gang, so that its ``DistributedOptimizer`` can be used in addition to the operations of the
        gang. Its ``rank()`` and ``size()`` are those of the gang; its ``local_rank()`` is 0 everywhere, because every
        task counts as a node. The time limit applies to the operations of the gang; operations of Horovod end when the
        process of another task ends. Default ``"gloo"``.

    Raises
    ------
    GangError
        The task does not belong to a barrier stage, or the tasks cannot connect; see :meth:`Gang.connect`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> def sizes(batches):
    ...     rows = sum(batch.num_rows for batch in batches)
    ...     with gang() as tasks:
    ...         counts = tasks.all_gather(str(rows).encode())
    ...     yield pa.RecordBatch.from_pydict({"counts": [b" ".join(sorted(counts)).decode()]})
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.active()
    >>> spark.range(5).repartition(2).mapInArrow(sizes, "counts string", barrier=True).collect()[0][0]
    '2 3'
    """
    context = TaskContext.get()
    if not isinstance(context, BarrierTaskContext):
        raise GangError("a gang meets in a barrier stage: DataFrame.mapInArrow(..., barrier=True)")
    rank = context.partitionId()
    addresses = [info.address for info in context.getTaskInfos()]
    host = addresses[rank].rsplit(":", 1)[0].strip("[]")
    joined = Gang.connect(rank, len(addresses), host, context.allGather, timeout_s, backend)
    try:
        yield joined
    except Exception:
        # Keep the connections open until this process ends, after Spark has received the error. If they were closed
        # here, Spark could receive the resulting error of another task first.
        _left_open.append(joined)
        raise
    except BaseException:
        joined.close()
        raise
    joined.close()


_left_open: list[Gang] = []


def _horovod(rank: int, size: int, host: str, swap: Callable[[bytes], list[bytes]], timeout_s: float) -> Any:
    from udfs.gang._horovod import HorovodGroup  # an optional backend

    return HorovodGroup(rank, size, host, swap, timeout_s)


def _process_group(rank: int, size: int, host: str, swap: Callable[[bytes], list[bytes]], timeout_s: float) -> Any:
    # torch.distributed.init_process_group creates a global group, and the process may already have another.
    from torch import distributed  # an optional extra

    class Meeting(distributed.Store):  # type: ignore[name-defined, misc]  # of the C++ half
        """Store without a server, to which gloo writes the address of this task and from which it reads the others."""

        def __init__(self) -> None:
            super().__init__()
            self._own: tuple[str, bytes] = ("", b"")
            self._found: dict[str, bytes] = {}

        def set(self, key: str, value: Any) -> None:
            self._own = key, bytes(value)

        def wait(self, *_keys_and_timeout: Any) -> None:
            if not self._found:
                key, value = self._own
                prefix = key.removesuffix(str(rank))
                self._found = {f"{prefix}{member}": address for member, address in enumerate(swap(value))}

        def get(self, key: str) -> bytes:
            self.wait()
            return self._found[key]

        def check(self, _keys: list[str]) -> bool:
            return bool(self._found)

        def has_extended_api(self) -> bool:
            return False

    gloo: Any = distributed.ProcessGroupGloo
    options = gloo._Options()  # noqa: SLF001 - the name that torch exports it by
    options._timeout = timedelta(seconds=timeout_s)  # noqa: SLF001
    meeting = Meeting()  # keep a reference: torch keeps only the C++ part alive
    try:
        # By default gloo resolves the name of the machine, which may give the loopback address.
        options._devices = [gloo.create_device(hostname=host)]  # noqa: SLF001
        return gloo(meeting, rank, size, options)
    except RuntimeError as error:
        raise GangError(f"task {rank} of {size}, listening on {host}, did not meet the others: {error}") from error


def _buckets(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Group consecutive tensors of the same element type and device into buckets for one all-reduce each."""
    bucket: list[torch.Tensor] = []
    size = 0
    for tensor in tensors:
        nbytes = tensor.numel() * tensor.element_size()
        alike = bucket and (tensor.dtype, tensor.device) == (bucket[0].dtype, bucket[0].device)
        if bucket and (not alike or size + nbytes > _BUCKET):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += nbytes
    if bucket:
        yield bucket


def _spread(joined: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    start = 0
    for tensor in tensors:
        tensor.copy_(joined[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()
