"""Groups of a campaign's run: what was too large for a worker is not tried again, and its halves are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from simulated_run import Player, World, die, ids, one_call_at_a_time

from cerebro_spark.adaptation._candidates import OpenedCandidate
from cerebro_spark.adaptation._planned_groups import PlannedGroups
from cerebro_spark.adaptation._planning import Planning
from cerebro_spark.hopper import Group, Trial
from optimizer.adaptation import Costs
from optimizer.graph import Layer, LayerGraph
from optimizer.procedures import Listed
from udfs.hopper import TrainUnit, UnitFailure, WorkUnit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EPOCHS = 5


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


def opened(params: Mapping[str, Any]) -> OpenedCandidate:
    """One frozen layer that all have, under heads of their own."""
    trunk = [
        Layer("image", "input", (), (100,)),
        Layer("conv", "conv", ("image",), (50,), flops=10**9, fingerprint="c0ffee"),
    ]
    head = Layer("fc", "fc", ("conv",), (10,), flops=1000, param_bytes=1000, frozen=False)
    return OpenedCandidate(dict(params), LayerGraph([*trunk, head], ["fc"]), 16, EPOCHS, 2, "")


def planned(workers: int = 1) -> PlannedGroups:
    costs = Costs(flops_per_second=1e9, bytes_per_second=1e9)
    planning = Planning(disk_bytes=0, memory_bytes=1 << 30, workspace_bytes=0, workers=workers, costs=costs)
    candidates: Any = SimpleNamespace(open=opened, find=opened)
    return PlannedGroups(candidates, planning, records=100, stored=())


def trials(*numbers: int) -> list[Trial]:
    return [Trial(f"c{number:03d}", {"number": number}) for number in numbers]


def members(groups: list[Group]) -> list[list[int]]:
    return [[int(trial.trial_id[1:]) for trial in group.trials] for group in groups]


def test_a_group_that_was_too_large_is_halved_and_so_is_one_with_more() -> None:
    groups = planned()
    (group,) = groups.groups(trials(*range(5)))
    groups.record_failure(group, "killed")
    halves = groups.groups(trials(*range(5)))
    assert members(halves) == [[0, 1, 2], [3, 4]]
    groups.record_failure(halves[0], "out of memory")
    assert members(groups.groups(trials(*range(5)))) == [[0, 1], [2], [3, 4]]
    # A new trial causes a new plan: the groups that were too large stay apart, the others may be joined.
    again = members(groups.groups(trials(*range(6))))
    assert sorted(number for each in again for number in each) == [*range(6)]
    assert not any({0, 1, 2} <= set(each) for each in again)
    assert max(map(len, again)) >= 3
    # Without one of them, they are fewer than what was too large.
    assert members(groups.groups(trials(1, 2))) in ([[1, 2]], [[1], [2]])


def test_pairs_that_are_too_large_train_alone() -> None:
    groups = planned()
    for _ in range(3):
        for group in groups.groups(trials(0, 1, 2, 3)):
            if len(group.trials) > 1:
                groups.record_failure(group, "killed")
    assert members(groups.groups(trials(0, 1, 2, 3))) == [[0], [1], [2], [3]]


def _killed(player: Player, _unit: WorkUnit) -> None:
    die(player)


def _out_of_memory(player: Player, unit: WorkUnit) -> None:
    player.unit = None
    player.report = UnitFailure(unit_id=unit.unit_id, reason="out of memory", traceback="MemoryError")


def _one_out_of_memory(player: Player, unit: WorkUnit) -> None:
    player.work(fails={ids(unit)[-1]: "out of memory"})


@pytest.mark.parametrize("fail", [_killed, _out_of_memory, _one_out_of_memory])
def test_the_run_finds_the_size_that_a_worker_has_memory_for(fail: Callable[[Player, WorkUnit], None]) -> None:
    """Eight train together, and two at a time have room: it fails for eight, then for each four, then never again."""
    listed = Listed([{"number": number} for number in range(8)], epochs=EPOCHS)
    made = World(0, 1, 1, validates=True, policy="fixed", procedure=listed, grouping=planned())
    (player,) = made.players
    player.join()
    sizes: dict[int, list[int]] = {epoch: [] for epoch in range(EPOCHS)}
    failures: list[int] = []

    def work(player: Player, unit: WorkUnit) -> None:
        if isinstance(unit, TrainUnit):
            sizes[unit.epoch].append(len(unit.members))
        if len(unit.members) > 2:
            failures.append(len(unit.members))
            fail(player, unit)
        else:
            player.work()

    made.play(work)
    assert made.coordinator.error is None
    assert {trial.status for trial in made.trials} == {"finished"}
    assert not any(trial.deaths for trial in made.trials)
    assert failures == [8, 4, 4]
    assert [set(sizes[epoch]) for epoch in range(EPOCHS)] == [{8, 1}, {4, 1}, {2}, {2}, {2}]
    assert sizes[2] == [2] * 4
