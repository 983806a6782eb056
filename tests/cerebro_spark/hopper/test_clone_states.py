"""The state that a clone begins from: known by its digest, awaited while its source trains up to there again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from simulated_run import run_context

from cerebro_spark.hopper import Trial
from cerebro_spark.hopper._assignment import Assignments
from cerebro_spark.hopper._groups import Groups
from cerebro_spark.hopper._state import RunState
from optimizer.procedures import Source
from udfs.hopper import SourceState


def run(units: int, status: str = "running") -> tuple[RunState, Trial, Trial]:
    """A source that has trained some units on two shards, and a clone of its second epoch."""
    source, clone = Trial("c000", {}, status=status), Trial("c001", {}, source=Source("c000", 2))
    source.visits = [divmod(number, 2) for number in range(units)]
    source.digests = ["", *(f"digest {number}" for number in range(1, units + 1))]
    backend: Any = SimpleNamespace(num_workers=1, most_workers=1)
    context = run_context(2, backend=backend)
    return RunState([source, clone], context), source, clone


@pytest.mark.parametrize(
    ("units", "status", "digest", "waits"),
    [
        (6, "running", "digest 4", False),
        (4, "finished", "digest 4", False),
        (3, "running", "", True),
        # No worker trains the source any further: the clone fails, when a worker asks the store.
        (3, "raised", "", False),
    ],
)
def test_a_clone_waits_for_a_source_that_is_to_get_there_again(
    units: int, status: str, digest: str, waits: bool
) -> None:
    state, source, clone = run(units, status)
    assert state.source_state(clone) == SourceState("c000", 4, digest)
    assert state.source_state(source) is None
    assert state.waits(clone) is waits
    assert not state.waits(source)
    clone.visits = [(0, 0)]
    assert not state.waits(clone), "it has a state of its own"


def test_the_epochs_of_a_lineage_count_for_its_clones() -> None:
    state, source, clone = run(4)
    again = Trial("c002", {}, source=Source("c001", 3))
    state.trial["c002"] = again
    assert [state.inherited(trial) for trial in (source, clone, again)] == [0, 2, 5]


@pytest.mark.parametrize("units", [3, 4])
def test_a_clone_that_waits_gets_no_unit(units: int) -> None:
    state, _, _ = run(units)
    asked: list[set[str]] = []
    hopper: Any = SimpleNamespace(next_unit=lambda _, without: asked.append(set(without)))
    state.hopper = hopper
    state.holdings.attach("w0")
    parts: Any = None
    teams: Any = SimpleNamespace(next_trial=lambda _: None)
    worker: Any = SimpleNamespace(name="w0", assignment=None, abort=False, is_called=False)
    assert Assignments(state, Groups(state), parts, parts, teams).assign_next(worker) is None
    assert asked == [{"c001"} if units == 3 else set()]
