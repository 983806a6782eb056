"""Calls of a run: the run's own are answered, everybody else's refused."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray  # noqa: TC002 - type hints of a message are read when it is checked
from pyarrow import flight

from udfs.packing import pack
from udfs.rpc import Caller, CallError, Endpoint, RefusedError, Request, Seal, WireProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = b"of this run alone"
LARGE = np.random.default_rng(0).bytes(20_000_000)


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


@pytest.fixture
def endpoint(heard: list[int]) -> Iterator[Endpoint]:
    def answer(request: Request[Any]) -> Any:
        if isinstance(request, Say):
            return Echo(request.text, request.table, request.nested)
        assert isinstance(request, Count)
        heard.append(request.number)
        if request.number == -1:
            raise ValueError("of the supervisor")
        if request.number == -2:
            raise RefusedError("a number that nobody asked for")
        return Done(request.number)

    with Endpoint("127.0.0.1", SECRET, PROTOCOL, answer, {"c0/3": LARGE, "c0/4": b""}.get) as made:
        yield made


@pytest.fixture
def caller(endpoint: Endpoint) -> Iterator[Caller]:
    made = Caller(endpoint.location, SECRET, PROTOCOL)
    yield made
    made.close()


def sealed(number: int = 7, seal: Seal | None = None) -> bytes:
    return (seal or Seal(SECRET)).close("call", PROTOCOL.encode(Count(number)))


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


def test_a_stranger_is_refused(endpoint: Endpoint, heard: list[int]) -> None:
    stranger = Caller(endpoint.location, b"a guess", PROTOCOL)
    with pytest.raises(RefusedError, match="not signed with this run's secret"):
        stranger.call(Count(1), timeout_s=5)
    with pytest.raises(RefusedError, match="not signed"):
        stranger.fetch("c0/3", timeout_s=5)
    assert heard == []
    assert endpoint.refused == 2


def test_a_replay_is_refused(endpoint: Endpoint, heard: list[int]) -> None:
    seal = Seal(SECRET)
    request = sealed(seal=seal)
    client = flight.FlightClient(endpoint.location)
    list(client.do_action(flight.Action("call", request)))
    with pytest.raises(flight.FlightUnauthenticatedError, match="sent before"):
        list(client.do_action(flight.Action("call", request)))
    # Nor is what was signed for one purpose of use for another.
    with pytest.raises(flight.FlightUnauthenticatedError, match="not signed"):
        client.do_get(flight.Ticket(seal.close("call", b"c0/3"))).read_all()
    assert heard == [7]
    assert endpoint.refused == 2


def test_requests_may_overtake_each_other(endpoint: Endpoint, heard: list[int]) -> None:
    seal = Seal(SECRET)
    requests = [sealed(number, seal) for number in range(4)]
    client = flight.FlightClient(endpoint.location)
    for number in (2, 0, 3, 1):
        list(client.do_action(flight.Action("call", requests[number])))
    for request in requests:
        with pytest.raises(flight.FlightUnauthenticatedError, match="sent before"):
            list(client.do_action(flight.Action("call", request)))
    assert heard == [2, 0, 3, 1]


@pytest.mark.parametrize("junk", [b"", b"short", bytes(200), b"\xff" * 5000])
def test_junk_is_refused(junk: bytes, endpoint: Endpoint) -> None:
    client = flight.FlightClient(endpoint.location)
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"malformed|not signed"):
        list(client.do_action(flight.Action("call", junk)))
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"malformed|not signed"):
        client.do_get(flight.Ticket(junk)).read_all()
    with pytest.raises(flight.FlightUnauthenticatedError, match="nobody offers"):
        list(client.do_action(flight.Action("shutdown", b"")))
    assert endpoint.refused == 3


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
    client = flight.FlightClient(endpoint.location)
    with pytest.raises(flight.FlightUnauthenticatedError, match=why):
        list(client.do_action(flight.Action("call", Seal(SECRET).close("call", payload))))
    assert endpoint.refused == 1
    assert heard == []


def test_whoever_answers_may_refuse_as_well(endpoint: Endpoint, caller: Caller) -> None:
    with pytest.raises(RefusedError, match="refused Count: a number that nobody asked for"):
        caller.call(Count(-2), timeout_s=5)
    assert endpoint.refused == 1


@pytest.mark.parametrize("secret", [b"a guess", SECRET])
def test_an_impostor_in_the_drivers_place_is_not_believed(secret: bytes) -> None:
    """It may listen on the port; it cannot sign, and an answer that it overheard is to another request."""
    overheard = Seal(secret).close_answer(sealed(), PROTOCOL.encode(Done(7)))

    class Impostor(flight.FlightServerBase):
        def do_action(self, _context: Any, _action: Any) -> Iterator[bytes]:
            yield overheard

    with Impostor("grpc+tcp://127.0.0.1:0") as server:
        caller = Caller(f"grpc+tcp://127.0.0.1:{server.port}", SECRET, PROTOCOL)
        with pytest.raises(RefusedError, match="not signed"):
            caller.call(Count(7), timeout_s=5)


def test_a_reply_of_another_type_is_refused() -> None:
    with Endpoint("127.0.0.1", SECRET, PROTOCOL, lambda request: request) as endpoint:
        caller = Caller(endpoint.location, SECRET, PROTOCOL)
        with pytest.raises(RefusedError, match="is 'Count', and has to be Done"):
            caller.call(Count(7), timeout_s=5)


def test_nobody_there_and_errors_inside(endpoint: Endpoint, caller: Caller) -> None:
    with pytest.raises(CallError, match="of the supervisor"):
        caller.call(Count(-1), timeout_s=5)
    assert endpoint.refused == 0
    location = endpoint.location
    endpoint.shutdown()
    with pytest.raises(CallError, match="did not answer Count"):
        Caller(location, SECRET, PROTOCOL).call(Count(1), timeout_s=2)


def test_one_caller_in_many_threads(endpoint: Endpoint, caller: Caller, heard: list[int]) -> None:
    """No reply goes astray, nothing is refused, and nothing is answered twice."""
    replies: dict[int, int] = {}

    def work(first: int) -> None:
        for number in range(first, first + 50):
            replies[number] = caller.call(Count(number), timeout_s=20).number
            if number % 25 == 0:
                assert caller.fetch("c0/3", timeout_s=20) == LARGE

    threads = [threading.Thread(target=work, args=(50 * place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == {number: number for number in range(400)}
    assert sorted(heard) == list(range(400))
    assert endpoint.refused == 0


def test_copies_sent_from_many_threads_are_accepted_once() -> None:
    sender, receiver = Seal(SECRET), Seal(SECRET)
    requests = [sealed(number, sender) for number in range(200)]
    opened: list[bytes] = []

    def work(place: int) -> None:
        for request in requests[place:] + requests[:place]:
            try:
                opened.append(receiver.open("call", request))
            except RefusedError:
                continue

    threads = [threading.Thread(target=work, args=(25 * place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == len(set(opened)) == 200
