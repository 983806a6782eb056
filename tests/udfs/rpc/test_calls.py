"""Calls of a run: the run's own are answered, everybody else's refused."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray  # noqa: TC002 - type hints of a message are read when it is checked

from udfs.packing import pack
from udfs.rpc import (
    Caller,
    CallError,
    Credentials,
    Endpoint,
    Held,
    Limits,
    RefusedError,
    Request,
    Seal,
    WireProtocol,
    digest_of,
    new_credentials,
)
from udfs.rpc._address import host_and_port
from udfs.rpc._channel import Channel, Kind, prove_to_endpoint
from udfs.rpc._socket import deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = b"of this run alone"
CREDENTIALS = Credentials(SECRET)
ENCRYPTED = new_credentials(encrypted=True)
LARGE = np.random.default_rng(0).bytes(20_000_000)


HELD = {"c0/3": LARGE, "c0/4": b"", "digest": Held(LARGE, digest_of(LARGE))}


@dataclass(frozen=True)
class Echo:
    text: list[Any]
    table: NDArray[np.float64]
    nested: dict[str, Any]


@dataclass(frozen=True)
class Say(Request[Echo]):
    text: list[Any]
    table: NDArray[np.float64]
    nested: dict[str, Any]


@dataclass(frozen=True)
class Done:
    number: int


@dataclass(frozen=True)
class Count(Request[Done]):
    number: int


PROTOCOL = WireProtocol("test", 1, (Say, Count))


@pytest.fixture
def heard() -> list[int]:
    return []


@pytest.fixture(params=[CREDENTIALS, ENCRYPTED], ids=["plain", "encrypted"])
def credentials(request: pytest.FixtureRequest) -> Credentials:
    """Of tests that do not look at single bytes."""
    given: Credentials = request.param
    return given


@pytest.fixture
def endpoint(heard: list[int]) -> Iterator[Endpoint]:
    with answering(heard, CREDENTIALS) as made:
        yield made


@pytest.fixture
def member_endpoint(heard: list[int], credentials: Credentials) -> Iterator[Endpoint]:
    with answering(heard, credentials) as made:
        yield made


def answering(heard: list[int], credentials: Credentials) -> Endpoint:
    def answer(request: Request[Any]) -> Any:
        if isinstance(request, Say):
            return Echo(request.text, request.table, request.nested)
        assert isinstance(request, Count)
        heard.append(request.number)
        if request.number == -1:
            raise ValueError("of the supervisor")
        if request.number == -2:
            raise RefusedError("an unexpected number")
        return Done(request.number)

    return Endpoint("127.0.0.1", credentials, PROTOCOL, answer, HELD.get)


@pytest.fixture
def caller(member_endpoint: Endpoint, credentials: Credentials) -> Iterator[Caller]:
    made = Caller(member_endpoint.location, credentials, PROTOCOL)
    yield made
    made.close()


@contextmanager
def channel_to(endpoint: Endpoint, secret: bytes = SECRET) -> Iterator[Channel]:
    """A connection of a member, to send what no caller sends."""
    with connection_to(endpoint.location) as connection:
        yield prove_to_endpoint(connection, secret, deadline(5))


def connection_to(location: str) -> socket.socket:
    return socket.create_connection(host_and_port(location), timeout=5)


def ask(channel: Channel, content: bytes, kind: Kind = Kind.CALL) -> tuple[Kind, bytes]:
    channel.send(kind, content, deadline(5))
    answer, length = channel.receive_header(deadline(5))
    return answer, channel.receive_content(length, deadline(5))


def test_calls_carry_plain_data_and_arrays(caller: Caller) -> None:
    say = Say(["ä", None, 1.5, True], np.eye(2), {"a": {"b": (1, 2)}, "type": "x", "fields": {}})
    echo = caller.call(say, timeout_s=5)
    assert echo.text == say.text
    assert echo.nested == say.nested
    np.testing.assert_array_equal(echo.table, np.eye(2))


def test_bytes_arrive_complete(caller: Caller) -> None:
    assert caller.fetch("c0/3", timeout_s=30) == LARGE
    assert caller.fetch("c0/4", timeout_s=30) == b""
    with pytest.raises(CallError, match="nothing is held under 'c0/5'"):
        caller.fetch("c0/5", timeout_s=5)


def test_bytes_that_are_held_arrive_with_their_digest(credentials: Credentials) -> None:
    """It is the receiver's own: one that the holder has wrong is never believed."""
    held = {"state": Held(LARGE, digest_of(LARGE)), "none": Held(b"", digest_of(b"")), "spoiled": Held(LARGE, "0" * 32)}
    with Endpoint("127.0.0.1", credentials, PROTOCOL, held=held.get) as endpoint:
        caller = Caller(endpoint.location, credentials, PROTOCOL)
        for name in ("state", "none"):
            assert caller.fetch_held(name, timeout_s=30) == held[name]
        with pytest.raises(RefusedError, match="not signed"):
            caller.fetch_held("spoiled", timeout_s=30)
        assert caller.fetch("state", timeout_s=30) == LARGE, "the next one is asked for on another connection"
        caller.close()


def test_a_stranger_is_refused(endpoint: Endpoint, heard: list[int]) -> None:
    stranger = Caller(endpoint.location, Credentials(b"a guess"), PROTOCOL)
    with pytest.raises(RefusedError, match="not signed with this run's secret"):
        stranger.call(Count(1), timeout_s=5)
    with pytest.raises(RefusedError, match="not signed"):
        stranger.fetch("c0/3", timeout_s=5)
    assert heard == []
    assert endpoint.refused == 2


class Overheard:
    """A connection through which everything passes that it overhears."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.sent = self.received = b""

    def sendall(self, content: bytes) -> None:
        self.sent += bytes(content)
        self._connection.sendall(content)

    def recv_into(self, buffer: memoryview) -> int:
        count = self._connection.recv_into(buffer)
        self.received += bytes(buffer[:count])
        return count

    def settimeout(self, seconds: float) -> None:
        self._connection.settimeout(seconds)

    def close(self) -> None:
        self._connection.close()


def overheard(endpoint: Endpoint) -> Overheard:
    """A whole connection of a member: its proof, and one call."""
    with connection_to(endpoint.location) as connection:
        tap = Overheard(connection)
        channel = prove_to_endpoint(tap, SECRET, deadline(5))  # type: ignore[arg-type]
        assert ask(channel, PROTOCOL.encode(Count(7)))[0] is Kind.DONE
    return tap


def test_a_connection_that_was_overheard_is_of_no_use(endpoint: Endpoint, heard: list[int]) -> None:
    tap = overheard(endpoint)
    with connection_to(endpoint.location) as connection:
        connection.sendall(tap.sent)
        greeting = connection.recv(1000)
        assert greeting[:16] == tap.received[:16]
        assert greeting != tap.received[:32]
        with suppress(ConnectionResetError):  # what follows the proof was not read
            assert connection.recv(1000)[:1] == b"r"
    wait_until(lambda: endpoint.refused == 1)
    assert heard == [7]


def test_a_request_that_is_sent_twice_on_its_connection_is_refused(endpoint: Endpoint, heard: list[int]) -> None:
    with connection_to(endpoint.location) as connection:
        tap = Overheard(connection)
        channel = prove_to_endpoint(tap, SECRET, deadline(5))  # type: ignore[arg-type]
        before = len(tap.sent)
        ask(channel, PROTOCOL.encode(Count(7)))
        connection.sendall(tap.sent[before:])
        with suppress(ConnectionResetError):  # its second half was not read
            assert connection.recv(1000) == b""
    wait_until(lambda: endpoint.refused == 1)
    assert heard == [7]


def test_a_request_is_for_one_purpose_alone(endpoint: Endpoint) -> None:
    """The kind is signed: a fetch cannot be made of a call."""
    with connection_to(endpoint.location) as connection:
        seal = Seal(SECRET, connection.recv(1000)[16:], bytes(16))
        connection.sendall(bytes(16) + seal.sign("caller", 0))
        assert len(connection.recv(1000)) == 33
        call, fetch = (struct.pack(">BQ", kind, 4) for kind in (Kind.CALL, Kind.FETCH))
        connection.sendall(fetch + seal.sign("request header", 0, call) + b"c0/3" + seal.sign("request", 0, b"c0/3"))
        with suppress(ConnectionResetError):
            assert connection.recv(1000) == b""
    wait_until(lambda: endpoint.refused == 1)


@pytest.mark.parametrize(
    ("name", "at"),
    [*(("c0/3", at) for at in (0, 60, 5_000_000, 20_000_040, -1)), ("digest", 5_000_000), ("digest", -1)],
)
def test_an_answer_that_is_altered_on_its_way_is_refused(name: str, at: int, endpoint: Endpoint) -> None:
    """A bit of the proof, of a header, of the bytes that were fetched, and of their signature."""
    with Altering(endpoint.location, 32 + at if at >= 0 else 32 + 33 + 41 + len(LARGE)) as proxy:
        caller = Caller(proxy.location, CREDENTIALS, PROTOCOL)
        with pytest.raises(RefusedError, match="not signed with this run's secret"):
            caller.fetch(name, timeout_s=20)
        caller.close()


@pytest.mark.parametrize("junk", [b"short", bytes(48), bytes(200), b"\xff" * 5000, b"GET / HTTP/1.1\r\n" * 20])
def test_junk_is_refused(junk: bytes, endpoint: Endpoint, heard: list[int]) -> None:
    with connection_to(endpoint.location) as connection:
        connection.sendall(junk)
        with suppress(OSError):  # the endpoint may have ended the connection by now
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1000):
                pass
    # What is too short to be a proof is nothing to count.
    wait_until(lambda: endpoint.refused == (len(junk) >= 48))
    assert heard == []


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"signed, but no message", "malformed"),
        (pack({"method": "next", "message": {}}, lambda _: None), "malformed"),
        (WireProtocol("test", 2, (Count,)).encode(Count(1)), "version 2, and this side speaks 'test', version 1"),
        (WireProtocol("other", 1, (Count,)).encode(Count(1)), "protocol 'other'"),
        (PROTOCOL.encode(Done(1)), "'Done', which test does not have"),
        (PROTOCOL.encode(Count("one")), "Count.number is str, and has to be int"),  # type: ignore[arg-type]
    ],
)
def test_a_signed_request_that_is_not_of_the_protocol_is_refused_and_counted(
    payload: bytes, why: str, endpoint: Endpoint, heard: list[int]
) -> None:
    with channel_to(endpoint) as channel:
        kind, reason = ask(channel, payload)
        assert kind is Kind.REFUSED
        assert why in reason.decode()
        # It was a member's: the connection goes on.
        assert ask(channel, b"c0/4", Kind.FETCH) == (Kind.DONE, b"")
    assert endpoint.refused == 1
    assert heard == []


def test_an_endpoint_that_answers_nobody_refuses_calls() -> None:
    with Endpoint("127.0.0.1", CREDENTIALS, PROTOCOL) as endpoint:
        caller = Caller(endpoint.location, CREDENTIALS, PROTOCOL)
        with pytest.raises(RefusedError, match="which this endpoint does not answer"):
            caller.call(Count(1), timeout_s=5)
        with pytest.raises(CallError, match="nothing is held under 'c0/3'"):
            caller.fetch("c0/3", timeout_s=5)
        caller.close()


def test_whoever_answers_may_refuse_as_well(member_endpoint: Endpoint, caller: Caller) -> None:
    with pytest.raises(RefusedError, match="refused Count: an unexpected number"):
        caller.call(Count(-2), timeout_s=5)
    assert member_endpoint.refused == 1


@pytest.mark.parametrize("repeats", [False, True])
def test_an_impostor_in_the_drivers_place_is_not_believed(repeats: bool, endpoint: Endpoint) -> None:
    """It may listen on the port; it cannot sign, and what it overheard is of another connection."""
    recorded = overheard(endpoint).received

    def pretend() -> None:
        connection, _ = listener.accept()
        with connection, suppress(ConnectionResetError):
            connection.sendall(recorded if repeats else recorded[:32] + b"w" + bytes(32))
            connection.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=pretend)
        thread.start()
        caller = Caller(f"tcp://127.0.0.1:{listener.getsockname()[1]}", CREDENTIALS, PROTOCOL)
        with pytest.raises(RefusedError, match="not signed"):
            caller.call(Count(7), timeout_s=5)
        thread.join()


def test_a_server_of_another_kind_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example.org ESMTP ready when you are")

        thread = threading.Thread(target=serve)
        thread.start()
        caller = Caller(f"tcp://127.0.0.1:{listener.getsockname()[1]}", CREDENTIALS, PROTOCOL)
        with pytest.raises(RefusedError, match="no endpoint of this version"):
            caller.call(Count(7), timeout_s=5)
        thread.join()


def test_a_reply_of_another_type_is_refused() -> None:
    with Endpoint("127.0.0.1", CREDENTIALS, PROTOCOL, lambda request: request) as endpoint:
        caller = Caller(endpoint.location, CREDENTIALS, PROTOCOL)
        with pytest.raises(RefusedError, match="is 'Count', and has to be Done"):
            caller.call(Count(7), timeout_s=5)


def test_nobody_there_and_errors_inside(member_endpoint: Endpoint, caller: Caller, credentials: Credentials) -> None:
    with pytest.raises(CallError, match="of the supervisor"):
        caller.call(Count(-1), timeout_s=5)
    assert member_endpoint.refused == 0
    location = member_endpoint.location
    member_endpoint.shutdown()
    with pytest.raises(CallError, match="did not answer Count"):
        Caller(location, credentials, PROTOCOL).call(Count(1), timeout_s=2)


def test_one_caller_in_many_threads(member_endpoint: Endpoint, caller: Caller, heard: list[int]) -> None:
    """No reply goes astray, nothing is refused, and nothing is answered twice."""
    replies: dict[int, int] = {}

    def work(first: int) -> None:
        for number in range(first, first + 50):
            replies[number] = caller.call(Count(number), timeout_s=60).number
            if number % 50 == 0:
                assert caller.fetch("c0/3", timeout_s=60) == LARGE

    threads = [threading.Thread(target=work, args=(50 * place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == {number: number for number in range(400)}
    assert sorted(heard) == list(range(400))
    assert member_endpoint.refused == 0


def test_calls_in_turn_take_one_connection(member_endpoint: Endpoint, caller: Caller) -> None:
    for number in range(5):
        caller.call(Count(number), timeout_s=5)
    assert len(member_endpoint._connections._members) == 1


def test_a_caller_does_not_use_a_connection_that_the_endpoint_may_close() -> None:
    """The worker asks again after a unit of an hour."""
    limits = Limits(idle_s=0.6)
    with Endpoint("127.0.0.1", CREDENTIALS, PROTOCOL, lambda _: Done(1), limits=limits) as endpoint:
        caller = Caller(endpoint.location, CREDENTIALS, PROTOCOL, limits)
        for pause_s in (0.0, 0.15, 0.7):
            time.sleep(pause_s)
            assert caller.call(Count(1), timeout_s=5) == Done(1)
        caller.close()


def test_a_closed_caller_ends_the_calls_of_other_threads() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def answer(_: Request[Any]) -> Done:
        asked.set()
        go_on.wait(20)
        return Done(1)

    with Endpoint("127.0.0.1", CREDENTIALS, PROTOCOL, answer) as endpoint:
        caller = Caller(endpoint.location, CREDENTIALS, PROTOCOL)
        errors: list[Exception] = []

        def call() -> None:
            try:
                caller.call(Count(1), timeout_s=20)
            except CallError as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        assert asked.wait(10)
        caller.close()
        thread.join(5)
        assert not thread.is_alive()
        assert errors
        go_on.set()
        with pytest.raises(CallError, match="the caller was closed"):
            caller.call(Count(1), timeout_s=5)


def test_a_shutdown_leaves_no_thread_and_lets_an_answer_be_sent() -> None:
    before = set(threading.enumerate())
    asked = threading.Event()

    def answer(_: Request[Any]) -> Done:
        asked.set()
        time.sleep(0.3)
        return Done(1)

    endpoint = Endpoint("127.0.0.1", CREDENTIALS, PROTOCOL, answer)
    caller = Caller(endpoint.location, CREDENTIALS, PROTOCOL)
    replies: list[Done] = []
    thread = threading.Thread(target=lambda: replies.append(caller.call(Count(1), timeout_s=5)))
    thread.start()
    assert asked.wait(5)
    strangers = [connection_to(endpoint.location) for _ in range(3)]
    endpoint.shutdown()
    thread.join()
    caller.close()
    assert replies == [Done(1)]
    assert set(threading.enumerate()) <= before
    for stranger in strangers:
        stranger.close()
    with pytest.raises(ConnectionRefusedError):
        connection_to(endpoint.location)


class Altering:
    """A proxy that flips a bit of what the endpoint sends."""

    def __init__(self, location: str, place: int) -> None:
        self._target, self._place = host_and_port(location), place
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.location = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        inside, _ = self._listener.accept()
        with inside, socket.create_connection(self._target) as outside:
            requests = threading.Thread(target=self._pass, args=(inside, outside, -1))
            requests.start()
            self._pass(outside, inside, self._place)
            requests.join()

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket, place: int) -> None:
        seen = 0
        with suppress(OSError):
            while content := bytearray(source.recv(1 << 16)):
                if seen <= place < seen + len(content):
                    content[place - seen] ^= 4
                seen += len(content)
                target.sendall(content)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_an_exception_while_a_connection_is_accepted_leaves_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.rpc._endpoint._LOOK_S", 0.05)
    calls: list[int] = []
    with Endpoint(
        "127.0.0.1", CREDENTIALS, PROTOCOL, lambda request: Echo(request.text, request.table, {})
    ) as endpoint:
        add = endpoint._connections.add

        def fail_once(connection: Any) -> None:
            calls.append(1)
            if len(calls) == 1:
                raise ZeroDivisionError("injected")
            add(connection)

        monkeypatch.setattr(endpoint._connections, "add", fail_once)
        with closing(Caller(endpoint.location, CREDENTIALS, PROTOCOL)) as caller:
            request = Say(["a"], np.ones(1), {})
            with suppress(CallError):
                caller.call(request, timeout_s=1.0)
            assert caller.call(request, timeout_s=20.0).text == ["a"]
