"""Queues and turns of a backend, without a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from optimizer.serving import deferred, earliest_first, sliding_window
from udfs.serving._batch_scheduler import BatchScheduler, Waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from udfs.serving._batch_scheduler import Due

ARRAYS = {"x": np.zeros(1)}


def put(
    rounds: BatchScheduler, group: str, number: int, deadline_ms: float, *, key: str = "", session: str = "a"
) -> bool:
    return rounds.put(group, Waiting(number, deadline_ms, session), key, ARRAYS)


def read_all(rounds: BatchScheduler, now_ms: float = 0.0, busy_ms: Mapping[str, float] | None = None) -> list[int]:
    """Read as the reader does; gives the units that it dropped."""
    dropped: list[int] = []
    while True:
        unread = rounds.unread(now_ms, busy_ms)
        dropped += [unit.number for unit in unread.dropped]
        if unread.content is None:
            return dropped
        assert rounds.read(unread.group, unread.content, ARRAYS)


def due(rounds: BatchScheduler, now_ms: float = 0.0) -> Due:
    read_all(rounds, now_ms)
    return rounds.due(now_ms)


def numbers(units: Sequence[Waiting]) -> list[int]:
    return [unit.number for unit in units]


def batch(found: Due) -> list[int]:
    return [unit.number for unit, _ in found.batch]


def test_groups_take_turns() -> None:
    rounds = BatchScheduler(sliding_window)
    for group in ("a", "b", "c"):
        rounds.place(group, 2, [0.0, 1.0, 2.0])
    for number in range(4):
        for group in ("a", "c"):
            put(rounds, group, number, 100.0)
    assert [due(rounds).group for _ in range(4)] == ["a", "c", "a", "c"]
    assert due(rounds).group == ""


def test_a_group_alone_is_asked_for() -> None:
    rounds = BatchScheduler(sliding_window)
    for group in ("a", "b"):
        rounds.place(group, 1, [0.0, 1.0])
        put(rounds, group, 1, 100.0)
        put(rounds, group, 2, 100.0)
    read_all(rounds)
    assert [rounds.due(0.0, "b").group for _ in range(3)] == ["b", "b", ""]
    assert rounds.due(0.0, "c").group == ""
    assert [rounds.due(0.0).group for _ in range(3)] == ["a", "a", ""]


def test_a_batch_in_another_thread_is_not_waited_for() -> None:
    rounds = BatchScheduler(sliding_window)
    for group in ("a", "b"):
        rounds.place(group, 1, [0.0, 4.0])
        put(rounds, group, 1, 10.0)
    # What group a waits for takes 8 ms more: its own comes too late.
    assert read_all(rounds, 0.0, {"a": 8.0}) == [1]
    assert [rounds.due(0.0).group for _ in range(2)] == ["b", ""]


def test_the_earliest_deadline_goes_first_whoever_came_first() -> None:
    rounds = BatchScheduler(earliest_first)
    rounds.place("a", 2, [0.0, 1.0, 2.0])
    for number, deadline in enumerate([30.0, 10.0, 20.0]):
        put(rounds, "a", number, deadline)
    assert batch(due(rounds)) == [1, 2]


def test_what_cannot_be_in_time_is_not_computed() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 1, [0.0, 5.0])
    put(rounds, "a", 1, 14.0)
    put(rounds, "a", 2, 16.0)
    read_all(rounds)
    found = rounds.due(10.0)
    assert numbers(found.dropped) == [1]
    assert batch(found) == [2]


def test_what_cannot_be_in_time_is_not_even_read() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 2, [0.0, 4.0, 5.0])
    for number in range(6):
        put(rounds, "a", number, 10.0 + number)
    # The batch that runs takes 8 ms more, and a full one 5.
    assert read_all(rounds, 0.0, {"a": 8.0}) == [0, 1, 2]
    assert batch(rounds.due(8.0)) == [3, 4]


def test_no_more_is_read_than_the_next_batch_takes() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 3, [0.0, 1.0, 1.0, 1.0])
    rounds.place("b", 1, [0.0, 1.0])
    for number in range(9):
        put(rounds, "a", number, 100.0)
        put(rounds, "b", number, 200.0)
    reads = []
    while (unread := rounds.unread(0.0)).content is not None:
        reads.append(unread.group)
        rounds.read(unread.group, unread.content, ARRAYS)
    assert reads == ["a", "a", "a", "b", "b"], "the group that is read has the earlier deadline"
    assert rounds.waiting == 18


def test_a_few_that_fit_a_smaller_batch_are_read() -> None:
    """The window of a full batch is for a full queue: two of four are in time with a batch of two."""
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 4, [0.0, 1.0, 2.0, 30.0, 40.0])
    for number in range(2):
        put(rounds, "a", number, 3.0)
    assert read_all(rounds) == []
    assert batch(rounds.due(0.0)) == [0, 1]


def test_one_content_is_read_once_and_is_one_row_of_the_batch() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 2, [0.0, 1.0, 2.0])
    for number in range(9):
        put(rounds, "a", number, 100.0 - number, key=f"content {number % 3}", session=f"s{number}")
    reads = []
    while (unread := rounds.unread(0.0)).content is not None:
        reads.append(unread.content.key)
        rounds.read("a", unread.content, {"x": np.full(1, len(reads))})
    assert reads == ["content 2", "content 1"]
    put(rounds, "a", 9, 50.0, key="content 1", session="s9")
    found = rounds.due(0.0)
    assert sorted(batch(found)) == [1, 2, 4, 5, 7, 8, 9]
    assert found.size == 2
    assert {(row.session, row.key, float(row.arrays["x"][0])) for _, row in found.batch} == {
        *((f"s{number}", "content 2", 1.0) for number in (2, 5, 8)),
        *((f"s{number}", "content 1", 2.0) for number in (1, 4, 7, 9)),
    }
    assert rounds.waiting == 3


def test_a_unit_joins_its_content_while_that_is_read() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 2, [0.0, 1.0, 2.0])
    put(rounds, "a", 1, 100.0, key="k")
    content = rounds.unread(0.0).content
    assert content is not None
    put(rounds, "a", 2, 100.0, key="k")
    assert rounds.unread(0.0).content is None
    rounds.read("a", content, ARRAYS)
    assert batch(rounds.due(0.0)) == [1, 2]


@pytest.mark.parametrize("is_read", [False, True])
def test_who_has_more_time_stays_when_another_of_the_content_is_late(is_read: bool) -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 2, [0.0, 5.0, 6.0])
    for number, deadline in enumerate([8.0, 50.0, 8.0]):
        put(rounds, "a", number, deadline, key="k")
    dropped = read_all(rounds) if is_read else []
    dropped += read_all(rounds, 10.0)
    found = rounds.due(10.0)
    assert [*dropped, *numbers(found.dropped)] == [0, 2]
    assert batch(found) == [1]


def test_what_could_not_be_read_is_in_no_batch() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 2, [0.0, 1.0, 2.0])
    put(rounds, "a", 1, 100.0, key="k")
    content = rounds.unread(0.0).content
    assert content is not None
    assert rounds.read("a", content, None)
    assert (due(rounds).batch, rounds.waiting) == ((), 0)
    put(rounds, "a", 2, 100.0, key="k")
    assert batch(due(rounds)) == [2], "a later one of its content is tried again"


def test_a_group_whose_requests_are_all_late_does_not_hold_the_others_up() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 1, [0.0, 5.0])
    rounds.place("b", 1, [0.0, 5.0])
    put(rounds, "a", 1, 6.0)
    put(rounds, "b", 2, 100.0)
    read_all(rounds)
    found = rounds.due(10.0)
    assert (found.group, batch(found), numbers(found.dropped)) == ("b", [2], [1])


def test_a_policy_may_wait() -> None:
    rounds = BatchScheduler(deferred)
    rounds.place("a", 2, [0.0, 3.0, 5.0])
    put(rounds, "a", 1, 20.0)
    found = due(rounds)
    assert (found.group, found.wake_ms) == ("", 15.0)
    assert batch(rounds.due(15.0)) == [1]


def test_cancelled_units_are_in_no_batch() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 3, [0.0, 1.0, 2.0, 3.0])
    for number in range(6):
        put(rounds, "a", number, 100.0 + number)
    read_all(rounds)
    assert rounds.waiting == 6
    rounds.cancel([1, 4, 99])
    assert batch(rounds.due(0.0)) == [0, 2]
    assert batch(due(rounds)) == [3, 5]


def test_cancelled_while_it_is_read() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 3, [0.0, 1.0, 2.0, 3.0])
    put(rounds, "a", 1, 100.0, key="k")
    content = rounds.unread(0.0).content
    assert content is not None
    rounds.cancel([1])
    assert rounds.read("a", content, ARRAYS)
    assert (rounds.due(0.0).batch, rounds.waiting) == ((), 0)


def test_a_slow_machine_takes_smaller_batches() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 4, [0.0, 1.0, 2.0, 3.0, 4.0])
    for _ in range(50):
        rounds.took("a", 4, 40.0, 0.0)
    assert 9.9 < rounds.pace["a"] <= 10.0
    for number in range(4):
        put(rounds, "a", number, 25.0)
    found = due(rounds)
    assert found.size == 2, "of the profile's batch of 4, which takes 40 ms here"
    assert found.expected_ms == pytest.approx(20.0, rel=0.01)


def test_a_row_that_runs_alone_shares_no_batch() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 4, [0.0, 1.0, 2.0, 3.0, 4.0])
    for number in range(7):
        rounds.put("a", Waiting(number, 100.0 + number, "a", alone=number in {2, 3, 6}), "", ARRAYS)
    batches = []
    while (found := due(rounds)).batch:
        assert found.size == len(found.batch)
        assert found.expected_ms == found.size
        batches.append(batch(found))
    assert batches == [[0, 1], [2], [3], [4, 5], [6]]
    assert rounds.waiting == 0


@pytest.mark.parametrize("slow_ms", [200.0, 2000.0, 600_000.0])
@pytest.mark.parametrize("step_ms", [10.0, 500.0, 30_000.0])
def test_a_refusing_group_is_measured_again(slow_ms: float, step_ms: float) -> None:
    """A pause of the machine makes all later rows late by the estimate; without batches the estimate recovers."""
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 1, [0.0, 30.0])
    rounds.took("a", 1, slow_ms, 0.0)
    rounds.took("a", 1, slow_ms, 0.0)
    put(rounds, "a", 0, 100.0)
    assert read_all(rounds, 1.0) == [0], "refused just after the pause"
    now, number, ran = 1.0, 0, -1
    while ran < 0:
        assert now < 60_000.0
        now, number = now + step_ms, number + 1
        put(rounds, "a", number, now + 100.0)
        found = due(rounds, now)
        ran = number if found.batch else -1
    rounds.took("a", 1, 30.0, now + 30.0)
    put(rounds, "a", number + 1, now + 130.0)
    assert batch(due(rounds, now + 30.0)) == [number + 1], "one batch in time, and the next row is in time"


def test_the_pace_of_a_slow_machine_is_kept_under_traffic() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 1, [0.0, 1.0])
    for number in range(100):
        put(rounds, "a", number, 1000.0 * number + 900.0)
        assert batch(due(rounds, 1000.0 * number)) == [number]
        rounds.took("a", 1, 10.0, 1000.0 * number + 10.0)
    assert rounds.pace["a"] == pytest.approx(10.0)


def test_a_group_that_goes_gives_its_units_back() -> None:
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 1, [0.0, 1.0])
    for number in range(4):
        put(rounds, "a", number, 9.0)
    read_all(rounds)
    rounds.due(0.0)
    content = rounds.unread(0.0).content
    assert content is not None
    assert sorted(numbers(rounds.remove("a"))) == [1, 3]
    assert not rounds.read("a", content, ARRAYS)
    assert numbers(content.units) == [2], "who read it gives it back"
    assert not put(rounds, "a", 9, 9.0)
    assert rounds.remove("a") == ()


def test_what_is_gone_is_in_no_queue_afterwards() -> None:
    """Against a model of the queues: every unit ends once, in a batch, dropped, cancelled or with its group."""
    draw = np.random.default_rng(3)
    rounds = BatchScheduler(sliding_window)
    rounds.place("a", 3, [0.0, 2.0, 3.0, 4.0])
    waiting: set[int] = set()
    now = 0.0
    for number in range(3000):
        now += float(draw.exponential(1.0))
        key = f"k{draw.integers(4)}" if draw.random() < 0.5 else ""
        assert put(rounds, "a", number, now + float(draw.uniform(0, 20)), key=key)
        waiting.add(number)
        if draw.random() < 0.1:
            gone = {int(draw.integers(number + 1))}
            rounds.cancel(gone)
            waiting -= gone
        if draw.random() < 0.6:
            unread = rounds.unread(now, {"a": float(draw.uniform(0, 4))})
            ended = set(numbers(unread.dropped))
            assert ended <= waiting
            waiting -= ended
            if unread.content is not None:
                failed = draw.random() < 0.1
                rounds.read("a", unread.content, None if failed else ARRAYS)
                waiting -= set(numbers(unread.content.units)) if failed else set()
        if draw.random() < 0.3:
            found = rounds.due(now)
            ended = set(batch(found)) | set(numbers(found.dropped))
            assert len(ended) == len(found.batch) + len(found.dropped)
            assert ended <= waiting
            assert found.size <= 3
            waiting -= ended
        assert rounds.waiting == len(waiting)
    assert len(waiting) < 100
