"""``Repeat`` starts the configurations of a run in their order, a clone not before its source is there."""

from __future__ import annotations

import pytest

from cerebro_spark.hopper import Trial
from cerebro_spark.tune._repeat import Repeat
from optimizer.procedures import Ended, EpochResult, ProcedureError, Source, Start, Stop, Stopped


def first(number: int, epochs: int, units: int, source: Source | None = None, status: str = "finished") -> Trial:
    """A trial of the first run, on two shards."""
    return Trial(
        f"c{number:03d}",
        {"number": number},
        status,
        history=[{"loss": 1.0}] * epochs,
        visits=[(unit // 2, unit % 2) for unit in range(units)],
        reason=f"why c{number:03d} ended",
        source=source,
    )


def test_a_clone_starts_when_its_source_is_there_and_nobody_before_it_is_awaited() -> None:
    line = [first(0, 3, 6), first(1, 2, 4, Source("c000", 2)), first(2, 1, 3, Source("c000", 1)), first(3, 0, 0)]
    again = Repeat(line)
    assert [decision.trial_id for decision in again.ask()] == ["c000"]
    # The source of c002 is there, but c001 comes first: ids are those of the first run.
    assert again.ask([EpochResult("c000", 1, {"loss": 1.0})]) == []
    decisions = again.ask([EpochResult("c000", 2, {"loss": 1.0})])
    assert decisions == [
        Start("c001", {"number": 1}, 2, Source("c000", 2), "why c001 ended"),
        # These two ended within an epoch, which they are granted.
        Start("c002", {"number": 2}, 2, Source("c000", 1), "why c002 ended"),
        Start("c003", {"number": 3}, 1, reason="why c003 ended"),
    ]
    assert again.ask([EpochResult("c000", 3, {"loss": 1.0})]) == [Stop("c000", "why c000 ended")]
    assert again.ask([Stopped("c003", "why c003 ended")]) == [Stop("c003", "why c003 ended")]
    again.ask([EpochResult("c002", 1, {"loss": 1.0}), Ended("c002", "raised")])
    again.ask([EpochResult("c001", epoch, {"loss": 1.0}) for epoch in (1, 2)])
    assert again.done


def test_a_source_that_fails_this_time_ends_the_replay() -> None:
    again = Repeat([first(0, 2, 4), first(1, 1, 2, Source("c000", 2))])
    again.ask()
    with pytest.raises(ProcedureError, match=r"a clone of c000 after epoch 2, which has ended after 1 .*raised"):
        again.ask([EpochResult("c000", 1, {"loss": 1.0}), Ended("c000", "raised")])
