"""Horovod as the backend of a gang: its collective operations, started between tasks that already know each other."""

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


# Seconds between two polls of an operation; Horovod itself begins one every millisecond. Its own wait never sleeps, and
# so takes the core that its background thread needs.
_LOOK_S = 1e-4


class _Pending(NamedTuple):
    """An operation that starts when its result is waited for."""

    wait: Callable[[], object]


class HorovodGroup:
    """Horovod, initialised in this process; its operations are called as those of torch's process groups are.

    Horovod's own launchers start processes of their own, by ssh or by Spark's RDDs. Here the tasks of a stage are the
    processes: the first one answers, until all are initialised, what Horovod asks of a launcher.

    Parameters
    ----------
    rank, size : int
    host : str
        Name or address of the interface to listen on.
    swap : callable
        Takes this member's message and gives those of all, by rank; called once.
    timeout_s : float
        Seconds to wait for another member, in every operation.

    Raises
    ------
    udfs.gang.GangError
        Horovod is not installed for torch, runs in this process already, or the members did not meet.
    """

    def __init__(self, rank: int, size: int, host: str, swap: Callable[[bytes], list[bytes]], timeout_s: float) -> None:
        try:
            import horovod.torch as hvd  # (an optional backend, which has to be built)
            import torch  # an optional extra
        except ImportError as error:
            raise GangError(
                f"no Horovod for torch is installed where the tasks run ({error}): examples/build_horovod.sh of "
                'cerebro-spark builds it; backend="gloo" needs none'
            ) from error
        if hvd.is_initialized():
            raise GangError("Horovod runs in this process already, and can do so once: leave that gang first")
        self._hvd = hvd
        self._timeout_s = timeout_s
        with _rendezvous(rank, host) as own:
            address, port = swap(own)[0].decode().rsplit(" ", 1)
            member = {
                # A node of its own for each task: gloo has nothing to gain from knowing who shares one.
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
                self.allreduce([torch.zeros(1)]).wait()  # until then the others may still have questions
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
        """Replace one tensor by that of the member ``options.rootRank``, in place."""
        (tensor,) = tensors
        name = _name("broadcast", tensor)
        return _Pending(partial(self._run, self._hvd.broadcast_async_, tensor, options.rootRank, name=name))

    def allgather(self, found: list[list[torch.Tensor]], own: list[torch.Tensor]) -> _Pending:
        """Put the members' tensors, all of one length, into those that are given for them."""
        ((places,), (tensor,)) = found, own

        def gather() -> None:
            together = self._run(self._hvd.allgather_async, tensor, name=_name("allgather", tensor))
            for place, part in zip(places, together.chunk(len(places)), strict=True):
                place.copy_(part)

        return _Pending(gather)

    def _run(self, start: Callable[..., int], *arguments: Any, **options: Any) -> Any:
        # Horovod waits for ever for a member that lives and does not come: its stall inspector was seen to let it.
        handle = start(*arguments, **options)
        ends = time.monotonic() + self._timeout_s
        while not self._hvd.poll(handle):
            if time.monotonic() > ends:
                raise RuntimeError(f"Horovod: nothing came in {self._timeout_s:g} s")
            time.sleep(_LOOK_S)
        return self._hvd.synchronize(handle)

    def leave(self) -> None:
        """Shut Horovod down; this process can initialise it again."""
        self._hvd.shutdown()


def _name(operation: str, tensor: torch.Tensor) -> str:
    # Horovod matches operations by name. Those that it makes up count calls in a process, and a process that Spark kept
    # from another gang has counted more than a new one.
    return f"gang.{operation}.{tensor.dtype}.{tensor.numel()}"


@contextmanager
def _rendezvous(rank: int, host: str) -> Iterator[bytes]:
    """Listen, in the first member, where the members tell each other their addresses; ends with the block."""
    if rank:
        yield b""
        return
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    # Its own class for this would listen on every interface.
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
    """Horovod reads its settings from the environment, as it starts; a later user of this process has others."""
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
    """Find the name of the network interface that has an address: Horovod takes names."""
    import psutil  # (comes with Horovod)

    wanted = ipaddress.ip_address(_address(host))
    found = [
        (name, ipaddress.ip_interface(f"{one.address}/{one.netmask or 32}"))
        for name, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family == socket.AF_INET
    ]
    # Debian gives a machine's name 127.0.1.1, which no interface has and the loopback's network holds.
    exact = [name for name, own in found if wanted == own.ip]
    inside = [name for name, own in found if wanted in own.network]
    if not inside:
        raise GangError(f"no network interface of this machine has the address {wanted} of {host}, where this task is")
    return str((exact or inside)[0])
