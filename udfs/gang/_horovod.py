"""Horovod as the backend of a gang: collective operations between tasks that already know their addresses."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from udfs.gang._errors import GangError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch

__all__ = ["HorovodGroup"]


# Seconds between two polls of an operation; Horovod starts operations once a millisecond. Horovod's own wait is a busy
# loop, which takes the core that its background thread needs.
_LOOK_S = 1e-4


class _Pending(NamedTuple):
    """Operation that starts when the caller waits for its result."""

    wait: Callable[[], object]


class HorovodGroup:
    """Horovod, initialized in this process, with the interface of torch's process groups.

    The launchers of Horovod start new processes, by ssh or by Spark's RDDs. Here the tasks of a stage are the
    processes, and the first task acts as the launcher until all tasks are initialized. For the
    parameters see :meth:`udfs.gang.Gang.connect`.

    Raises
    ------
    udfs.gang.GangError
        Horovod is not installed for torch, already runs in this process, or the members could not connect.
    """

    def __init__(self, rank: int, size: int, host: str, swap: Callable[[bytes], list[bytes]], timeout_s: float) -> None:
        try:
            import horovod.torch as hvd  # (an optional backend, which has to be built)
            import torch  # an optional extra
        except ImportError as error:
            raise GangError(
                f'backend="horovod" needs Horovod for torch, which is not installed where the tasks run ({error}): '
                'examples/build_horovod.sh of cerebro-spark builds it; backend="gloo" does not need it'
            ) from error
        if hvd.is_initialized():
            raise GangError("Horovod runs in this process already, and can do so once: leave that gang first")
        self._hvd = hvd
        self._timeout_s = timeout_s
        with _rendezvous(rank, host) as server_address:
            address, port = swap(server_address)[0].decode().rsplit(" ", 1)
            member = {
                # Every task counts as a node, because gloo does not use the information which tasks share one.
                "HOSTNAME": f"task-{rank}",
                "LOCAL_RANK": 0,
                "LOCAL_SIZE": 1,
                "RANK": rank,
                "CROSS_RANK": rank,
                "SIZE": size,
                "CROSS_SIZE": size,
                "CONTROLLER": "gloo",
                "CPU_OPERATIONS": "gloo",
                "GLOO_IFACE": _interface(host),
                "GLOO_RENDEZVOUS_ADDR": address,
                "GLOO_RENDEZVOUS_PORT": port,
                "GLOO_TIMEOUT_SECONDS": ceil(timeout_s),
            }
            try:
                with _environment({f"HOROVOD_{name}": str(value) for name, value in member.items()}):
                    hvd.init()
                self.allreduce([torch.zeros(1)]).wait()  # until then others may need the rendezvous
            except (RuntimeError, ValueError) as error:
                raise GangError(
                    f"task {rank} of {size}, listening on {host}, did not meet the others: {error}"
                ) from error

    def allreduce(self, tensors: list[torch.Tensor]) -> _Pending:
        """Sum one tensor over the members, in place."""
        (tensor,) = tensors
        name = _name("allreduce", tensor)
        return _Pending(partial(self._run, self._hvd.allreduce_async_, tensor, name=name, op=self._hvd.Sum))

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> _Pending:
        """Replace one tensor by that of the member with rank ``options.rootRank``, in place."""
        (tensor,) = tensors
        name = _name("broadcast", tensor)
        return _Pending(partial(self._run, self._hvd.broadcast_async_, tensor, options.rootRank, name=name))

    def allgather(self, output_lists: list[list[torch.Tensor]], inputs: list[torch.Tensor]) -> _Pending:
        """Copy the tensors of all members, which have equal lengths, into the output tensors."""
        ((outputs,), (tensor,)) = output_lists, inputs

        def gather() -> None:
            joined = self._run(self._hvd.allgather_async, tensor, name=_name("allgather", tensor))
            for output, part in zip(outputs, joined.chunk(len(outputs)), strict=True):
                output.copy_(part)

        return _Pending(gather)

    def _run(self, start: Callable[..., int], *arguments: Any, **options: Any) -> Any:
        # Horovod waits forever for a member that is alive but does not call the operation, despite its stall inspector.
        handle = start(*arguments, **options)
        ends = time.monotonic() + self._timeout_s
        while not self._hvd.poll(handle):
            if time.monotonic() > ends:
                raise RuntimeError(f"Horovod received no message within {self._timeout_s:g} s")
            time.sleep(_LOOK_S)
        return self._hvd.synchronize(handle)

    def leave(self) -> None:
        """Shut Horovod down; this process can initialize it again."""
        self._hvd.shutdown()


def _name(operation: str, tensor: torch.Tensor) -> str:
    # Horovod matches operations by name. Its default names count the calls of a process, and a process that Spark
    # reuses from another gang has counted more calls than a new process.
    return f"gang.{operation}.{tensor.dtype}.{tensor.numel()}"


@contextmanager
def _rendezvous(rank: int, host: str) -> Iterator[bytes]:
    """Run the rendezvous server of Horovod in the first member within a ``with`` block; yield its address."""
    if rank:
        yield b""
        return
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    # Horovod's RendezvousServer would listen on every interface.
    with RendezvousHTTPServer((_address(host), 0), RendezvousHandler, 0) as server:
        server.daemon_threads = True
        listening = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        listening.start()
        try:
            yield f"{server.server_address[0]} {server.server_address[1]}".encode()
        finally:
            server.shutdown()
            listening.join()


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within a ``with`` block: Horovod reads its settings from them when it starts."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _address(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise GangError(f"{host}, where Spark says that this task is, has no IPv4 address: {error}") from error


def _interface(host: str) -> str:
    """Return the name of the network interface with an address, because Horovod takes names."""
    import psutil  # (comes with Horovod)

    wanted = ipaddress.ip_address(_address(host))
    interfaces = [
        (name, ipaddress.ip_interface(f"{entry.address}/{entry.netmask or 32}"))
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    ]
    # Debian resolves the name of the machine to 127.0.1.1, which only the network of the loopback interface contains.
    exact = [name for name, interface in interfaces if wanted == interface.ip]
    inside = [name for name, interface in interfaces if wanted in interface.network]
    if not inside:
        raise GangError(
            f"host must have an address of a network interface of this machine, got {wanted} for {host}: the cluster "
            "resolves the name of this machine to another one"
        )
    return str((exact or inside)[0])
