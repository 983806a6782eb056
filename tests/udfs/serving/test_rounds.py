"""Queues and turns of a backend, without a clock."""

from __future__ import annotations

from optimizer.serving import deferred, earliest_first, sliding_window
from udfs.serving._models import Row
from udfs.serving._rounds import Rounds, Waiting


def unit(number: int, deadline_ms: float, session: str = "a") -> Waiting:
    return Waiting(number, deadline_ms, Row(session, "", {}))


def numbers(batch: tuple[Waiting, ...]) -> list[int]:
    return [one.number for one in batch]


def test_groups_take_turns() -> None:
    rounds = Rounds(sliding_window)
    for group in ("a", "b", "c"):
        rounds.place(group, 2, [0.0, 1.0, 2.0])
    for number in range(4):
        for group in ("a", "c"):
            rounds.put(group, unit(number, 100.0))
    assert [rounds.due(0.0).group for _ in range(4)] == ["a", "c", "a", "c"]
    assert rounds.due(0.0).group == ""


def test_the_earliest_deadline_goes_first_whoever_came_first() -> None:
    rounds = Rounds(earliest_first)
    rounds.place("a", 2, [0.0, 1.0, 2.0])
    for number, deadline in enumerate([30.0, 10.0, 20.0]):
        rounds.put("a", unit(number, deadline))
    assert numbers(rounds.due(0.0).batch) == [1, 2]


def test_what_cannot_be_in_time_is_not_computed() -> None:
    rounds = Rounds(sliding_window)
    rounds.place("a", 1, [0.0, 5.0])
    rounds.put("a", unit(1, 14.0))
    rounds.put("a", unit(2, 16.0))
    due = rounds.due(10.0)
    assert numbers(due.dropped) == [1]
    assert numbers(due.batch) == [2]


def test_a_group_whose_requests_are_all_late_does_not_hold_the_others_up() -> None:
    rounds = Rounds(sliding_window)
    rounds.place("a", 1, [0.0, 5.0])
    rounds.place("b", 1, [0.0, 5.0])
    rounds.put("a", unit(1, 1.0))
    rounds.put("b", unit(2, 100.0))
    due = rounds.due(10.0)
    assert (due.group, numbers(due.batch), numbers(due.dropped)) == ("b", [2], [1])


def test_a_policy_may_wait() -> None:
    rounds = Rounds(deferred)
    rounds.place("a", 2, [0.0, 3.0, 5.0])
    rounds.put("a", unit(1, 20.0))
    due = rounds.due(0.0)
    assert (due.group, due.wake_ms) == ("", 15.0)
    assert numbers(rounds.due(15.0).batch) == [1]


def test_cancelled_units_are_in_no_batch() -> None:
    rounds = Rounds(sliding_window)
    rounds.place("a", 3, [0.0, 1.0, 2.0, 3.0])
    for number in range(3):
        rounds.put("a", unit(number, 100.0 + number))
    rounds.cancel([1, 99])
    assert numbers(rounds.due(0.0).batch) == [0, 2]


def test_a_slow_machine_takes_smaller_batches() -> None:
    rounds = Rounds(sliding_window)
    rounds.place("a", 4, [0.0, 1.0, 2.0, 3.0, 4.0])
    for _ in range(50):
        rounds.took("a", 4, 40.0)
    assert 9.9 < rounds.pace["a"] <= 10.0
    for number in range(4):
        rounds.put("a", unit(number, 25.0))
    due = rounds.due(0.0)
    assert len(due.batch) == 2, "of the profile's batch of 4, which takes 40 ms here"


def test_a_group_that_goes_gives_its_units_back() -> None:
    rounds = Rounds(sliding_window)
    rounds.place("a", 1, [0.0, 1.0])
    rounds.put("a", unit(1, 9.0))
    assert numbers(rounds.remove("a")) == [1]
    assert not rounds.put("a", unit(2, 9.0))
    assert rounds.remove("a") == ()
