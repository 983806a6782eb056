"""Turns in a worker's process: one run at a time, equal shares of the time, and one thread that trains."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from udfs.hopper._process_turns import Turn


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def asks(turn: Turn, name: str) -> None:
    """Ask for the turn, which another one has, and stay in the queue."""
    assert not turn.take(name, 0.0)


def test_units_of_other_lengths_get_the_same_time() -> None:
    clock = Clock()
    turn, lengths, had = Turn(clock), {"long": 10.0, "short": 1.0}, {"long": 0.0, "short": 0.0}
    assert turn.take("long", 0.0)
    asks(turn, "short")
    holder = "long"
    for _ in range(200):
        clock.now += lengths[holder]
        had[holder] += lengths[holder]
        if turn.wanted(holder):
            turn.give_up(holder)
            other = "short" if holder == "long" else "long"
            assert turn.take(other, 0.0)
            asks(turn, holder)
            holder = other
        assert abs(had["long"] - had["short"]) <= 10.0


def test_equal_units_alternate() -> None:
    clock = Clock()
    turn = Turn(clock)
    order, names = [], ["a", "b", "c"]
    assert turn.take("a", 0.0)
    asks(turn, "b")
    asks(turn, "c")
    holder = "a"
    for _ in range(9):
        order.append(holder)
        clock.now += 1.0
        assert turn.wanted(holder)
        turn.give_up(holder)
        former, holder = holder, next(name for name in names if name != holder and turn.take(name, 0.0))
        asks(turn, former)
    assert order == ["a", "b", "c"] * 3


def test_whoever_was_idle_does_not_catch_up() -> None:
    clock = Clock()
    turn = Turn(clock)
    assert turn.take("a", 0.0)
    clock.now = 1000.0
    asks(turn, "b")
    clock.now += 1.0
    assert turn.wanted("a")
    turn.give_up("a")
    assert turn.take("b", 0.0)
    asks(turn, "a")
    clock.now += 2.0
    assert turn.wanted("b"), "b has had 2 s since it came, a 1 s"


def test_who_waits_keeps_its_claim_between_two_calls() -> None:
    clock = Clock()
    turn = Turn(clock)
    assert turn.take("a", 0.0)
    asks(turn, "b")
    clock.now = 5.0
    asks(turn, "b")
    turn.give_up("a")
    # Not the first that calls: b waits, and has had less.
    asks(turn, "a")
    assert turn.take("b", 0.0)
    turn.leave("b")
    assert turn.take("a", 0.0)


def test_who_leaves_holds_nobody_up() -> None:
    turn = Turn()
    assert turn.take("a", 0.0)
    asks(turn, "gone")
    took = threading.Event()
    waiting = threading.Thread(target=lambda: turn.take("b", 30.0) and took.set())
    waiting.start()
    turn.give_up("a")
    assert not took.wait(0.2), "another one is before it"
    turn.leave("gone")
    assert took.wait(10)
    waiting.join()
    assert turn.holds("b")
    turn.leave("b")
    assert not turn.holds("b")


def test_all_is_called_in_one_thread() -> None:
    turn, threads, failures = Turn(), [], []

    def ask() -> None:
        threads.append(turn.call(threading.current_thread))
        try:
            turn.call(lambda: 1 / 0)
        except ZeroDivisionError as error:
            failures.append(error)
        turn.stop()

    asking = threading.Thread(target=ask)
    asking.start()
    turn.work()
    asking.join()
    assert threads == [threading.current_thread()]
    assert len(failures) == 1
    turn.stop(ConnectionError("no driver"))
    with pytest.raises(ConnectionError, match="no driver"):
        turn.work()
