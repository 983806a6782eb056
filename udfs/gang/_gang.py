"""A gang: the tasks of one barrier stage, joined for collective operations over the cluster's interface."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from pyspark import BarrierTaskContext, TaskContext

from udfs.gang._errors import GangError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

__all__ = ["BACKENDS", "Backend", "Gang", "gang"]

Backend = Literal["gloo", "horovod"]
"""Library that sums: torch's own gloo; or Horovod, where it is installed."""
BACKENDS: tuple[str, ...] = get_args(Backend)

# A step of the slowest task, and its share of the network's time. The rows are in memory before the tasks meet.
_TIMEOUT_S = 120.0

# Bytes of one all-reduce, and so of what it takes beside the tensors.
_BUCKET = 64 * 2**20

# For Spark to hear from the task that failed, and to end the others: the error that people see is then that task's own.
_GRACE_S = 5.0


class Gang:
    """Membership of this task in a barrier stage. Every task calls the same operations in the same order.

    Made by :func:`gang`, or by :meth:`connect` where there is no Spark.

    Attributes
    ----------
    rank : int
        Which task this is, from 0; in a barrier stage, the number of its partition.
    size : int
        How many there are.

    Examples
    --------
    >>> alone = Gang(0, 1)
    >>> alone.all_gather(b"here")
    [b'here']
    """

    def __init__(self, rank: int, size: int, group: Any = None) -> None:
        self.rank = rank
        self.size = size
        self._group = group

    @classmethod
    def connect(
        cls,
        rank: int,
        size: int,
        host: str,
        exchange: Callable[[str], list[str]],
        timeout_s: float = _TIMEOUT_S,
        backend: Backend = "gloo",
    ) -> Gang:
        """Connect to the other tasks.

        The tasks tell each other their addresses through ``exchange``, which has to be a channel of the members
        alone, as Spark's own is. Then every member proves to every other that it has heard what went through it. What
        gloo sends afterwards is neither encrypted nor signed (torch's builds have no TLS for gloo), so the network
        between the executors has to be as trusted as it is for Spark's shuffles.

        Parameters
        ----------
        rank, size : int
        host : str
            Name or address of the interface to listen on.
        exchange : callable
            Takes this task's message and returns those of all, in the order of the ranks; called exactly once.
        timeout_s : float
            Seconds to wait for another task, here and in every operation.
        backend : {"gloo", "horovod"}
            Horovod is one for the whole process: a process can be in one gang at a time.

        Raises
        ------
        GangError
            The interface cannot be listened on; a task cannot be reached, or does not know what a member knows; Horovod
            is not installed.
        """
        if backend not in BACKENDS:
            raise GangError(f"backend={backend!r} is none of {', '.join(BACKENDS)}")
        if size == 1:
            return cls(rank, size)
        token = secrets.token_hex(16)
        tokens: list[str] = []

        def swap(address: bytes) -> list[bytes]:
            messages = [json.loads(text) for text in exchange(json.dumps({"at": address.hex(), "token": token}))]
            tokens.extend(message["token"] for message in messages)
            return [bytes.fromhex(message["at"]) for message in messages]

        meet = _horovod if backend == "horovod" else _process_group
        made = cls(rank, size, meet(rank, size, host, swap, timeout_s))
        known = "".join(tokens)
        proofs = [hashlib.sha256(f"{known}{member}".encode()).digest() for member in range(size)]
        if made.all_gather(proofs[rank]) != proofs:
            made.close()
            raise GangError(f"task {rank}: what answered in a member's place does not know what the members know")
        return made

    def close(self) -> None:
        """Leave; nothing can be done with the gang afterwards, and the others must not expect anything of this task."""
        group, self._group = self._group, None
        if hasattr(group, "leave"):  # torch's own leaves when nobody holds it any more
            group.leave()

    def mean_(self, tensors: Sequence[torch.Tensor], weight: float = 1.0) -> float:
        """Replace tensors by their weighted means over the tasks, in place.

        Weights of rows turn the means of the tasks' own batches into the mean of the whole batch, exactly, whatever the
        shares: sum of ``weight * tensor`` over sum of ``weight``. The same sizes give the same bits every time.

        Parameters
        ----------
        tensors : sequence of torch.Tensor
            Floating-point, of the same shapes and in the same order in every task; half precision is summed in float32.
        weight : float
            Not negative. What a task of weight 0 holds has no influence, not even where it is NaN.

        Returns
        -------
        float
            Sum of the weights. Where it is 0 the tensors are zero.

        Raises
        ------
        GangError
            Another task left or did not come in time.
        """
        import torch  # an optional extra

        total = torch.tensor(float(weight), dtype=torch.float64)
        if self._reduced(total.reshape(1)) == 0:
            for tensor in tensors:
                tensor.zero_()
            return 0.0
        for bucket in _buckets(tensors):
            scaled = [tensor.to(torch.promote_types(tensor.dtype, torch.float32)).reshape(-1) for tensor in bucket]
            joined = torch.cat(scaled).cpu()
            joined = joined.mul_(weight / total.item()) if weight else torch.zeros_like(joined)
            self._all_reduce(joined)
            _spread(joined, bucket)
        return float(total)

    def sum_(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace tensors by their sums over the tasks, in place; element types stay as they are.

        Raises
        ------
        GangError
            Another task left or did not come in time.
        """
        import torch  # an optional extra

        for bucket in _buckets(tensors):
            joined = torch.cat([tensor.reshape(-1) for tensor in bucket]).cpu()
            self._all_reduce(joined)
            _spread(joined, bucket)

    def broadcast_(self, tensors: Sequence[torch.Tensor], source: int = 0) -> None:
        """Replace tensors by those of one task, in place.

        Raises
        ------
        GangError
            Another task left or did not come in time.
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
        """Gather the messages of all tasks, in the order of the ranks; each may have another length.

        Raises
        ------
        GangError
            Another task left or did not come in time.
        """
        import torch  # an optional extra

        if self._group is None:
            return [message]
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(message)
        self._all_reduce(lengths)
        longest = int(lengths.max())
        own = torch.tensor(list(message.ljust(longest, b"\0")), dtype=torch.uint8)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        if longest:
            self._wait(self._group.allgather([gathered], [own]))
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
            time.sleep(_GRACE_S)
            raise GangError(
                f"task {self.rank} of {self.size} waited for another one that left or fell behind; "
                f"that task's own error says why ({str(error).splitlines()[0]})"
            ) from error


@contextmanager
def gang(timeout_s: float = _TIMEOUT_S, backend: Backend = "gloo") -> Iterator[Gang]:
    """Join the tasks of this barrier stage, for the length of a ``with`` block.

    To be called by every task of ``DataFrame.mapInArrow(function, schema, barrier=True)``, after its rows are read: the
    wait for the slowest to read them has no limit, that of an operation has. It costs one ``allGather`` (1 s), none
    where there is one task.

    A task that fails ends the others at once: its error goes to Spark before its connections close, and theirs, if they
    come to one, say so.

    Parameters
    ----------
    timeout_s : float
        Seconds to wait for another task in an operation: as long as the slowest may take between two of them.
    backend : {"gloo", "horovod"}
        With ``"horovod"``, ``horovod.torch`` is initialised within the block, with the ranks of the gang: its
        ``DistributedOptimizer`` can be used there beside the gang's own operations. Its ``rank()`` and ``size()`` are
        the gang's; its ``local_rank()`` is 0 everywhere, for every task counts as a node. The time limit is of the
        gang's operations; Horovod's own end when another task's process does.

    Raises
    ------
    GangError
        Not in a barrier stage, or as :meth:`Gang.connect` has it.

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
        # The end of this worker's process closes the connections, after Spark has the error. Were they closed here,
        # another task's complaint about it could be first.
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
    # No torch.distributed.init_process_group: that group is one for the whole process, which may have its own already.
    from torch import distributed  # an optional extra

    class Meeting(distributed.Store):  # type: ignore[name-defined, misc]  # of the C++ half
        """Store in which gloo puts this task's address and looks for the others'; it has no server."""

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
    meeting = Meeting()  # by this name, because torch keeps the C++ half alone alive
    try:
        # By default gloo would look up the machine's name, which may be its loopback's.
        options._devices = [gloo.create_device(hostname=host)]  # noqa: SLF001
        return gloo(meeting, rank, size, options)
    except RuntimeError as error:
        raise GangError(f"task {rank} of {size}, listening on {host}, did not meet the others: {error}") from error


def _buckets(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Neighbours of one element type and device, as many as one all-reduce takes at a time."""
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
