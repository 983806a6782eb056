"""Calls of a run: the run's own are answered, everybody else's refused."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyarrow import flight

from udfs.hopper import Caller, CallError, Checkpoints, Endpoint, Record, RefusedError, Seal, States
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = b"of this run alone"
LARGE = np.random.default_rng(0).bytes(20_000_000)


@pytest.fixture
def calls() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def endpoint(calls: list[tuple[str, dict[str, Any]]]) -> Iterator[Endpoint]:
    def answer(method: str, message: dict[str, Any]) -> dict[str, Any]:
        calls.append((method, message))
        if method == "fails":
            raise ValueError("of the coordinator")
        return {"said": message.get("say"), "sums": np.arange(3.0)}

    with Endpoint("127.0.0.1", SECRET, answer, {"c0/3": LARGE, "c0/4": b""}.get) as made:
        yield made


def test_calls_carry_plain_data_and_arrays(endpoint: Endpoint, calls: list[tuple[str, dict[str, Any]]]) -> None:
    caller = Caller(endpoint.location, SECRET)
    message = {"say": ["ä", None, 1.5, True], "table": np.eye(2), "nested": {"a": {"b": (1, 2)}}}
    found = caller.call("next", message, timeout_s=5)
    assert found["said"] == ["ä", None, 1.5, True]
    np.testing.assert_array_equal(found["sums"], np.arange(3.0))
    method, heard = calls[0]
    assert method == "next"
    assert heard["nested"] == message["nested"]
    np.testing.assert_array_equal(heard["table"], np.eye(2))


def test_states_arrive_whole(endpoint: Endpoint) -> None:
    caller = Caller(endpoint.location, SECRET)
    assert caller.fetch("c0/3", timeout_s=30) == LARGE
    assert caller.fetch("c0/4", timeout_s=30) == b""
    with pytest.raises(CallError, match="nothing is held under 'c0/5'"):
        caller.fetch("c0/5", timeout_s=5)


def test_a_stranger_is_refused(endpoint: Endpoint, calls: list[tuple[str, dict[str, Any]]]) -> None:
    stranger = Caller(endpoint.location, b"a guess")
    with pytest.raises(RefusedError, match="not signed with this run's secret"):
        stranger.call("next", {}, timeout_s=5)
    with pytest.raises(RefusedError, match="not signed"):
        stranger.fetch("c0/3", timeout_s=5)
    assert calls == []
    assert endpoint.refused == 2


def test_a_replay_is_refused(endpoint: Endpoint, calls: list[tuple[str, dict[str, Any]]]) -> None:
    seal = Seal(SECRET)
    from udfs.packing import pack  # noqa: PLC0415

    sealed = seal.close("call", pack({"method": "next", "message": {}}, lambda _value: None))
    client = flight.FlightClient(endpoint.location)
    list(client.do_action(flight.Action("call", sealed)))
    with pytest.raises(flight.FlightUnauthenticatedError, match="sent before"):
        list(client.do_action(flight.Action("call", sealed)))
    # Nor is what was signed for one purpose of use for another.
    with pytest.raises(flight.FlightUnauthenticatedError, match="not signed"):
        client.do_get(flight.Ticket(seal.close("call", b"c0/3"))).read_all()
    assert len(calls) == 1


@pytest.mark.parametrize("junk", [b"", b"short", bytes(200), b"\xff" * 5000])
def test_junk_is_refused(junk: bytes, endpoint: Endpoint) -> None:
    client = flight.FlightClient(endpoint.location)
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"malformed|not signed"):
        list(client.do_action(flight.Action("call", junk)))
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"malformed|not signed"):
        client.do_get(flight.Ticket(junk)).read_all()
    with pytest.raises(flight.FlightUnauthenticatedError, match="malformed"):
        list(client.do_action(flight.Action("call", Seal(SECRET).close("call", b"signed, but no message"))))
    with pytest.raises(flight.FlightUnauthenticatedError, match="nobody offers"):
        list(client.do_action(flight.Action("shutdown", b"")))


def test_what_answers_in_the_drivers_place_is_not_believed() -> None:
    """It may listen on the port, but it cannot sign."""

    class Impostor(flight.FlightServerBase):
        def do_action(self, _context: Any, _action: Any) -> Iterator[bytes]:
            yield Seal(b"a guess").close("answer", b"{}")

    with Impostor("grpc+tcp://127.0.0.1:0") as server:
        caller = Caller(f"grpc+tcp://127.0.0.1:{server.port}", SECRET)
        with pytest.raises(RefusedError, match="not signed"):
            caller.call("next", {}, timeout_s=5)


def test_nobody_there_and_errors_inside(endpoint: Endpoint) -> None:
    caller = Caller(endpoint.location, SECRET)
    with pytest.raises(CallError, match="of the coordinator"):
        caller.call("fails", {}, timeout_s=5)
    location = endpoint.location
    endpoint.shutdown()
    with pytest.raises(CallError, match="did not answer 'next'"):
        Caller(location, SECRET).call("next", {}, timeout_s=2)


def test_many_callers_at_once(endpoint: Endpoint, calls: list[tuple[str, dict[str, Any]]]) -> None:
    def work(number: int) -> None:
        caller = Caller(endpoint.location, SECRET)
        for turn in range(20):
            assert caller.call("next", {"say": [number, turn]}, timeout_s=10)["said"] == [number, turn]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message["say"] for _, message in calls) == [[one, turn] for one in range(8) for turn in range(20)]


def test_states_beyond_the_limit_go_once_the_store_has_them() -> None:
    states = States(10)
    states.put("c0", 1, b"12345678")
    states.put("c1", 1, b"12345678")
    assert states.kept("c1", 2) == [], "another version than the one that is held"
    assert states.get("c0/1") is not None
    assert states.kept("c0", 1) == ["c0"]
    assert states.get("c0/1") is None
    assert states.get("c1/1") == b"12345678"
    states.put("c1", 2, b"abc")
    assert states.get("c1/1") is None
    states.drop("c1", 1)
    assert states.get("c1/2") == b"abc"
    states.drop("c1", 2)
    assert states.get("c1/2") is None


def test_checkpoints(tmp_path: Path) -> None:
    kept = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    assert kept.last("c0") is None
    first = Record("c0", 1, "aaaaaaaaaa", ((0, 1),), {"loss": [1.0, 2.0]})
    second = Record("c0", 2, "bbbbbbbbbb", ((0, 1), (0, 0)))
    other = Record("c0", 2, "cccccccccc", ((0, 1), (0, 2)))
    kept.write(first, b"one")
    assert kept.last("c0") == first
    kept.write(second, b"two")
    kept.write(other, b"another two")
    assert kept.read("c0", 2, second.digest) == b"two"
    assert kept.read("c0", 2, other.digest) == b"another two"
    kept.drop("c0", 2)
    last = kept.last("c0")
    assert last is not None
    assert last.version == 2
    assert kept.read("c0", 2, last.digest) in {b"two", b"another two"}
    assert len(kept.store.list("runs", "run", "checkpoints", "c0")) == 4
    # A state without its record is not whole: its writer was killed in between.
    kept.store.delete("runs", "run", "checkpoints", "c0", "000002-cccccccc.json")
    assert kept.last("c0") == second
