"""Strangers that flood an endpoint: it goes on for the run's own, and its memory does not grow."""

from __future__ import annotations

import hashlib
import secrets
import socket
import struct
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from udfs.rpc import (
    Caller,
    CallError,
    Credentials,
    Endpoint,
    Limits,
    RefusedError,
    Request,
    WireProtocol,
    new_credentials,
)
from udfs.rpc._address import host_and_port
from udfs.rpc._channel import _ENCRYPTED_GREETING, Channel, Kind, prove_to_endpoint
from udfs.rpc._encryption import context_of_caller
from udfs.rpc._socket import deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN, ENCRYPTED = (new_credentials(encrypted=encrypted) for encrypted in (False, True))
MIB = 1 << 20


@dataclass(frozen=True)
class Digest:
    text: str


@dataclass(frozen=True)
class Hash(Request[Digest]):
    text: str


PROTOCOL = WireProtocol("attacked", 1, (Hash,))


def answer(request: Request[Any]) -> Digest:
    assert isinstance(request, Hash)
    return Digest(hashlib.sha256(request.text.encode()).hexdigest())


@pytest.fixture(params=[PLAIN, ENCRYPTED], ids=["plain", "encrypted"])
def credentials(request: pytest.FixtureRequest) -> Credentials:
    given: Credentials = request.param
    return given


@pytest.fixture
def endpoint(credentials: Credentials) -> Iterator[Endpoint]:
    with Endpoint("127.0.0.1", credentials, PROTOCOL, answer) as made:
        yield made


def connect(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection(host_and_port(endpoint.location), timeout=10)


@contextmanager
def member(endpoint: Endpoint, credentials: Credentials) -> Iterator[Channel]:
    """A connection of a member, to send what no caller sends."""
    encryption = context_of_caller(credentials) if credentials.encrypted else None
    channel = prove_to_endpoint(connect(endpoint), credentials.secret, deadline(10), encryption)
    yield channel
    channel.close()


def work(endpoint: Endpoint, credentials: Credentials) -> None:
    """Do what a member does."""
    caller = Caller(endpoint.location, credentials, PROTOCOL)
    for text in ("a", "b"):
        assert caller.call(Hash(text), timeout_s=20) == answer(Hash(text))
    caller.close()


@contextmanager
def memory_grows_at_most(limit: int) -> Iterator[None]:
    """The most resident memory at any moment of the block, beside that at its beginning."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is the present
    before = resident("VmRSS")
    yield
    assert resident("VmHWM") - before < limit


def resident(name: str) -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) << 10


def test_junk_calls(endpoint: Endpoint, credentials: Credentials) -> None:
    """Of those that open a connection each, and of one that guesses the secret. The benchmark sends 10,000."""
    with memory_grows_at_most(50 * MIB):
        for _ in range(200):
            with connect(endpoint) as connection, suppress(ConnectionError):
                connection.sendall(secrets.token_bytes(300))
                while connection.recv(100):
                    pass
        guess = Credentials(b"a guess at the secret", credentials.certificate)
        stranger = Caller(endpoint.location, guess, PROTOCOL)
        for _ in range(20):
            with pytest.raises(RefusedError):
                stranger.call(Hash("a"), timeout_s=10)
        work(endpoint, credentials)
    assert endpoint.refused == 220


def test_a_flood_of_refusals_does_not_flood_the_log(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    begun = time.monotonic()
    for _ in range(100):
        with connect(endpoint) as connection, suppress(ConnectionError):
            connection.sendall(bytes(48))
            while connection.recv(100):
                pass
    assert endpoint.refused == 100
    assert 1 <= len(caplog.records) <= 2 + time.monotonic() - begun


def test_200_mb_of_a_stranger(endpoint: Endpoint, credentials: Credentials) -> None:
    """It is cut off after its first 48 bytes, or 16 where an encrypted session is to begin."""
    part = bytes(MIB)
    with memory_grows_at_most(50 * MIB), connect(endpoint) as connection:
        sent = 0
        with suppress(ConnectionError):
            while sent < 200 * MIB:
                sent += connection.send(part)
        work(endpoint, credentials)
    assert sent < 200 * MIB
    assert endpoint.refused == 1


def test_200_mb_of_a_member(endpoint: Endpoint, credentials: Credentials) -> None:
    """Its size is refused before there is memory for it, and a caller does not send it."""
    with memory_grows_at_most(50 * MIB), member(endpoint, credentials) as channel:
        header = struct.pack(">BQ", Kind.CALL, 200 * MIB)
        channel._connection.sendall(header + channel._seal.sign("request header", 0, header))
        kind, length = channel.receive_header(deadline(10))
        assert kind is Kind.REFUSED
        assert b"a message of 209,715,200 bytes, more than 67,108,864" in channel.receive_content(length, deadline(10))
        assert channel._connection.recv(10) == b""
        work(endpoint, credentials)
    small = Caller(endpoint.location, credentials, PROTOCOL, Limits(message_bytes=1000))
    with pytest.raises(CallError, match=r"Hash takes \d,\d+ bytes, and a message may take 1,000"):
        small.call(Hash("a" * 2000), timeout_s=10)
    small.close()


@pytest.mark.parametrize("length", [1 << 32, 1 << 62, (1 << 64) - 1])
def test_a_header_that_lies_about_its_length(length: int, endpoint: Endpoint, credentials: Credentials) -> None:
    """Of a stranger the header is not signed, of a member it is: neither gets memory for it."""
    header = struct.pack(">BQ", Kind.CALL, length)
    with memory_grows_at_most(50 * MIB):
        with member(endpoint, credentials) as channel:
            channel._connection.sendall(header + bytes(32))
            assert channel._connection.recv(10) == b""
        with member(endpoint, credentials) as channel:
            channel._connection.sendall(header + channel._seal.sign("request header", 0, header))
            assert channel.receive_header(deadline(10))[0] is Kind.REFUSED
        work(endpoint, credentials)
    assert endpoint.refused == 2


def test_an_answer_that_lies_about_its_length() -> None:
    """Who sits in the endpoint's place does not know the secret: its header is not believed."""

    def lie() -> None:
        connection, _ = listener.accept()
        with connection, suppress(ConnectionError):
            connection.sendall(b"cerebro-spark 5\n" + bytes(16))
            connection.recv(48)
            connection.sendall(b"w" + bytes(32) + struct.pack(">BQ", Kind.DONE, 1 << 62) + bytes(32))
            connection.recv(10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lie)
        thread.start()
        caller = Caller(f"tcp://127.0.0.1:{listener.getsockname()[1]}", PLAIN, PROTOCOL)
        with pytest.raises(RefusedError):
            caller.fetch("c0/1", timeout_s=10)
        thread.join()


def test_500_half_open_connections(endpoint: Endpoint, credentials: Credentials) -> None:
    """The oldest strangers make room; one that is at work stays."""
    worker = Caller(endpoint.location, credentials, PROTOCOL)
    worker.call(Hash("a"), timeout_s=10)
    (at_work,) = endpoint._connections._members
    threads = threading.active_count()
    with memory_grows_at_most(50 * MIB), ExitStack() as stack:
        strangers = [stack.enter_context(connect(endpoint)) for _ in range(500)]
        work(endpoint, credentials)
        assert worker.call(Hash("b"), timeout_s=10) == answer(Hash("b"))
        assert at_work in endpoint._connections._members
        assert endpoint.dropped >= 500 - 64 - 2
        assert threading.active_count() - threads <= 2 * 64 + 2
        # The first was dropped, the last waits for its proof.
        strangers[0].settimeout(10)
        while strangers[0].recv(100):
            pass
        assert len(strangers[-1].recv(100)) == (16 if credentials.encrypted else 32)
    worker.close()


@pytest.mark.parametrize("encrypts", [False, True])
def test_a_stranger_that_says_a_byte_at_a_time_has_a_deadline(credentials: Credentials, encrypts: bool) -> None:
    """Also one that knows how an encrypted session begins."""
    limits = Limits(stranger_s=0.5)
    with (
        Endpoint("127.0.0.1", credentials, PROTOCOL, answer, limits=limits) as endpoint,
        connect(endpoint) as connection,
    ):
        if encrypts:
            connection.sendall(_ENCRYPTED_GREETING + b"\x16\x03\x01\x02\x00")
        begun = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - begun < 10:
                connection.sendall(b"\x01")
                time.sleep(0.05)
        assert time.monotonic() - begun < 5
        assert not endpoint._connections._strangers


def test_a_member_that_stops_in_the_middle_of_a_request_is_dropped(credentials: Credentials) -> None:
    limits = Limits(request_s=0.3)
    endpoint = Endpoint("127.0.0.1", credentials, PROTOCOL, answer, limits=limits)
    with endpoint, member(endpoint, credentials) as channel:
        header = struct.pack(">BQ", Kind.CALL, 1000)
        signature = channel._seal.sign("request header", 0, header)
        channel._connection.sendall(header + signature + b"the first few bytes")
        assert channel._connection.recv(10) == b""
        work(endpoint, credentials)


def test_a_member_that_does_not_take_its_answer_is_dropped(credentials: Credentials) -> None:
    limits = Limits(request_s=0.3, slowest=1 << 40)
    held = {"large": bytes(30 * MIB)}.get
    endpoint = Endpoint("127.0.0.1", credentials, PROTOCOL, answer, held, limits)
    with endpoint, member(endpoint, credentials) as channel:
        channel.send(Kind.FETCH, b"large", deadline(10))
        assert channel.receive_header(deadline(10)) == (Kind.DONE, 30 * MIB)
        (slow,) = endpoint._connections._members
        assert slow.thread is not None
        slow.thread.join(10)
        assert slow not in endpoint._connections._members
        work(endpoint, credentials)


def test_no_more_members_than_there_is_room_for(credentials: Credentials) -> None:
    limits = Limits(connections=2)
    with Endpoint("127.0.0.1", credentials, PROTOCOL, answer, limits=limits) as endpoint, ExitStack() as stack:
        first, second, third = (Caller(endpoint.location, credentials, PROTOCOL, limits) for _ in range(3))
        for caller in (first, second, third):
            stack.callback(caller.close)
        # A member that has its answer is admitted; one that has only proved itself may not be yet.
        for caller in (first, second):
            assert caller.call(Hash("a"), timeout_s=20) == answer(Hash("a"))
        with pytest.raises(CallError):
            third.call(Hash("a"), timeout_s=2)
        assert endpoint.dropped
