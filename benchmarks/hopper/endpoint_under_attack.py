"""Endpoint of a run under attack: growth of its memory, and latency of the run's calls during the attack.

``python -m benchmarks.hopper.endpoint_under_attack`` starts an endpoint, an attacker, and a worker that calls, each
in a process of its own. ``--junk 10000``, with and without ``--encrypt``, is what docs/security.md quotes. With
``--encrypt`` it also measures what encryption costs a fetch of ``--fetch`` megabytes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import socket
import statistics
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.report import Report, load_average
from udfs.rpc import Caller, Credentials, Endpoint, Request, WireProtocol, new_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

_MIB = 1 << 20
_CALL_S = 30.0


@dataclass(frozen=True)
class Taken:
    """Acknowledgement of a heartbeat."""


@dataclass(frozen=True)
class Beat(Request[Taken]):
    """Heartbeat of a worker, sent once a second."""

    worker: str


_PROTOCOL = WireProtocol("attacked", 1, (Beat,))


@dataclass(frozen=True)
class Measured:
    """One attack.

    Attributes
    ----------
    grown_bytes : int
        Most resident memory of the endpoint during the attack, less that before it.
    open_s, fresh_s : float
        Median call on an open connection, and on one of its own.
    slowest_s : float
        Slowest of these calls.
    """

    name: str
    seconds: float
    grown_bytes: int
    open_s: float
    fresh_s: float
    slowest_s: float
    calls: int
    refused: int
    dropped: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack an endpoint in four ways and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--junk", type=int, default=1_000, help="calls of strangers")
    parser.add_argument("--megabytes", type=int, default=200, help="of one message")
    parser.add_argument("--half-open", type=int, default=500, help="connections that say nothing")
    parser.add_argument("--calm", type=float, default=2.0, help="seconds without an attack, to compare with")
    parser.add_argument("--encrypt", action="store_true", help="encrypt the run's connections")
    parser.add_argument("--fetch", type=int, default=100, help="megabytes of a checkpoint that a worker fetches")
    parser.add_argument("--repeats", type=int, default=5, help="fetches of it, plain and encrypted in turn")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    processes = multiprocessing.get_context("spawn")
    with _endpoint(processes, new_credentials(encrypted=options.encrypt)) as (ask, location, credentials):
        measured = [
            _measure(processes, ask, location, credentials, name, attack, sizes)
            for name, attack, sizes in (
                ("nothing", _rest, (options.calm,)),
                (f"{options.junk:,} junk calls", _junk, (options.junk,)),
                (f"a message of {options.megabytes} MB", _large, (options.megabytes,)),
                (f"{options.half_open} half-open connections", _half_open, (options.half_open, options.calm)),
            )
        ]
    report = Report(f"An endpoint under attack, {_words(options.encrypt)}; load {load_average()}")
    _report(report, measured)
    if options.encrypt:
        _compare_fetches(report, processes, options.fetch, options.repeats)
    report.show(as_json=options.json)


def _words(encrypted: bool) -> str:
    return "encrypted" if encrypted else "plain"


def _compare_fetches(report: Report, processes: Any, megabytes: int, repeats: int) -> None:
    """Fetch the same bytes in turn from a plain endpoint and from an encrypted one."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}
    with ExitStack() as stack:
        sides = {}
        for encrypted in seconds:
            credentials = new_credentials(encrypted=encrypted)
            ask, location, _ = stack.enter_context(_endpoint(processes, credentials, megabytes))
            caller = Caller(location, credentials, _PROTOCOL)
            stack.callback(caller.close)
            sides[encrypted] = caller, ask
        for _ in range(repeats + 1):
            for encrypted, (caller, ask) in sides.items():
                cpu_before = time.process_time() + ask("cpu")
                begun = time.perf_counter()
                fetched = caller.fetch("state", timeout_s=600)
                seconds[encrypted].append(time.perf_counter() - begun)
                cpu[encrypted].append(time.process_time() + ask("cpu") - cpu_before)
                assert len(fetched) == megabytes * 1_000_000
    # The first one connects, and takes the memory.
    medians = {encrypted: statistics.median(times[1:]) for encrypted, times in seconds.items()}
    cpu_medians = {encrypted: statistics.median(times[1:]) for encrypted, times in cpu.items()}
    report.table(
        f"A fetch of {megabytes} MB over the loopback",
        ("", "s median", "s least", "CPU s of both sides", "MB per CPU s"),
        [
            (
                _words(encrypted),
                f"{medians[encrypted]:.3f}",
                f"{min(times[1:]):.3f}",
                f"{cpu_medians[encrypted]:.3f}",
                f"{megabytes / cpu_medians[encrypted]:.0f}",
            )
            for encrypted, times in seconds.items()
        ],
    )
    report.ratio("fetch.encrypted", medians[False] / medians[True], f"fetch of {megabytes} MB: plain / encrypted")
    report.ratio("fetch_cpu.encrypted", cpu_medians[False] / cpu_medians[True], "the same, CPU seconds of both sides")


def _report(report: Report, measured: list[Measured]) -> None:
    calm, *attacks = measured
    report.table(
        "Per attack",
        ("attack", "s", "refused", "dropped", "grown MiB", "own calls", "ms open", "ms fresh", "ms slowest", ""),
        [
            (
                each.name,
                f"{each.seconds:.1f}",
                f"{each.refused:,}",
                f"{each.dropped:,}",
                f"{each.grown_bytes / _MIB:.1f}",
                f"{each.calls:,}",
                f"{each.open_s * 1e3:.2f}",
                f"{each.fresh_s * 1e3:.2f}",
                f"{each.slowest_s * 1e3:.0f}",
                "",
            )
            for each in measured
        ],
    )
    report.note("A worker's own calls: on the connection that it has (open), and on a new one (fresh). All succeeded.")
    grown = max(each.grown_bytes for each in attacks) / _MIB
    report.ratio("memory", 50 / max(grown, 0.01), f"50 MiB / growth of the worst attack, {grown:.1f} MiB", 1)
    for name, each in zip(("junk", "large", "half_open"), attacks, strict=True):
        report.ratio(f"latency.{name}", calm.open_s / each.open_s, "median open call: calm / attacked")
        report.ratio(f"latency_fresh.{name}", calm.fresh_s / each.fresh_s, "median call that connects: calm / attacked")


def _measure(
    processes: Any,
    ask: Callable[[str], tuple[int, int, int]],
    location: str,
    credentials: Credentials,
    name: str,
    attack: Callable[..., None],
    sizes: tuple[Any, ...],
) -> Measured:
    _, refused, dropped = ask("begin")
    over = processes.Event()
    attacker = processes.Process(target=_run, args=(attack, location, over, sizes))
    open_s, fresh_s = list[float](), list[float]()
    worker = Caller(location, credentials, _PROTOCOL)
    begun = time.perf_counter()
    attacker.start()
    while not over.is_set() or len(fresh_s) < 3:
        open_s.append(_timed(worker))
        fresh = Caller(location, credentials, _PROTOCOL)
        fresh_s.append(_timed(fresh))
        fresh.close()
        time.sleep(0.005)
    seconds = time.perf_counter() - begun
    attacker.join()
    worker.close()
    if attacker.exitcode:
        raise SystemExit(f"the attack by {name} failed")
    grown, refused_after, dropped_after = ask("end")
    return Measured(
        name=name,
        seconds=seconds,
        grown_bytes=grown,
        open_s=statistics.median(open_s),
        fresh_s=statistics.median(fresh_s),
        slowest_s=max(open_s + fresh_s),
        calls=len(open_s) + len(fresh_s),
        refused=refused_after - refused,
        dropped=dropped_after - dropped,
    )


def _timed(caller: Caller) -> float:
    begun = time.perf_counter()
    caller.call(Beat("w0"), timeout_s=_CALL_S)
    return time.perf_counter() - begun


# The attacker's process.


def _run(attack: Callable[..., None], location: str, over: Event, sizes: tuple[Any, ...]) -> None:
    host, _, port = location.rpartition("://")[2].rpartition(":")
    try:
        attack((host, int(port)), *sizes)
    finally:
        over.set()


def _rest(_target: tuple[str, int], seconds: float) -> None:
    time.sleep(seconds)


def _junk(target: tuple[str, int], count: int) -> None:
    for number in range(count):
        with socket.create_connection(target, timeout=_CALL_S) as connection, suppress(ConnectionError):
            connection.sendall(secrets.token_bytes(48 + number % 1000))
            while connection.recv(1000):
                pass


def _large(target: tuple[str, int], megabytes: int) -> None:
    """Send a large message, again and again for a while: each is cut off."""
    part = bytes(1_000_000)
    until = time.monotonic() + 2
    while time.monotonic() < until:
        with socket.create_connection(target, timeout=_CALL_S) as connection, suppress(ConnectionError):
            for _ in range(megabytes):
                connection.sendall(part)


def _half_open(target: tuple[str, int], count: int, seconds: float) -> None:
    connections = [socket.create_connection(target, timeout=_CALL_S) for _ in range(count)]
    time.sleep(seconds)
    for connection in connections:
        connection.close()


# The endpoint's process.


@contextmanager
def _endpoint(
    processes: Any, credentials: Credentials, megabytes: int = 0
) -> Iterator[tuple[Callable[[str], Any], str, Credentials]]:
    here, there = processes.Pipe()
    process = processes.Process(target=_serve, args=(there, credentials, megabytes))
    process.start()

    def ask(question: str) -> Any:
        here.send(question)
        return here.recv()

    yield ask, here.recv(), credentials
    here.send(None)
    process.join()


def _serve(questions: Connection, credentials: Credentials, megabytes: int) -> None:
    before = 0
    held = {"state": secrets.token_bytes(megabytes * 1_000_000)}.get
    with Endpoint("127.0.0.1", credentials, _PROTOCOL, lambda _: Taken(), held) as endpoint:
        questions.send(endpoint.location)
        while question := questions.recv():
            if question == "cpu":
                questions.send(time.process_time())
                continue
            if question == "begin":
                Path("/proc/self/clear_refs").write_text("5")  # the peak is the present
                before = _resident("VmRSS")
            questions.send((_resident("VmHWM") - before, endpoint.refused, endpoint.dropped))


def _resident(name: str) -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
