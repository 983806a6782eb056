"""Groups of trials that train together: their visits, the trials that leave them, and their recovery after a loss."""

from __future__ import annotations

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_run import EPOCHS, Halves, Player, World, die, ids, one_call_at_a_time

from cerebro_spark.hopper import CHECKPOINTS, ROUNDS, Group, Trial, _epochs
from optimizer import procedures
from udfs.hopper import Acknowledged, Beat, Ended, EvaluateUnit, Printed, TrainUnit, UnitFailure, WorkUnit

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


class Pairs:
    """Groups of so many trials."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[list[str]] = []
        self.broken: list[tuple[list[str], str]] = []

    def groups(self, trials: Sequence[Trial]) -> list[Group]:
        self.asked.append([trial.trial_id for trial in trials])
        assert len({trial.epoch for trial in trials}) == 1
        assert len({frozenset(trial.done(trial.epoch)) for trial in trials}) == 1
        # By their numbers: the groups do not depend on who comes when.
        pairs: dict[int, list[Trial]] = {}
        for trial in trials:
            pairs.setdefault(int(trial.trial_id[1:]) // self.size, []).append(trial)
        return [
            Group(tuple(members), loads=("a3f0",), order=f"c{place * self.size:03}") for place, members in pairs.items()
        ]

    def record_failure(self, group: Group, why: str) -> None:
        self.broken.append(([trial.trial_id for trial in group.trials], why))


def world(configs: int, workers: int, size: int, **others: Any) -> tuple[World, Pairs]:
    """A run whose workers are there."""
    pairs = Pairs(size)
    usual: dict[str, Any] = {"validates": True, "policy": "fixed", "replicas": workers}
    made = World(configs, workers, grouping=pairs, **usual | others)
    for player in made.players:
        player.join()
    return made, pairs


@settings(max_examples=300, deadline=None)
@given(
    configs=st.integers(1, 6),
    workers=st.integers(1, 4),
    extra=st.integers(0, 2),
    size=st.integers(1, 4),
    validates=st.booleans(),
    policy=st.sampled_from(["least-far-along", "randomized", "fixed"]),
    rounds=st.sampled_from(ROUNDS),
    seed=st.integers(0, 2**31),
    losses=st.integers(0, 5),
    failures=st.integers(0, 2),
    held=st.integers(0, 2),
    checkpoints=st.sampled_from(CHECKPOINTS),
)
def test_whatever_happens_every_member_visits_every_shard_once_an_epoch(  # noqa: C901, PLR0912 - faults, in turn
    *,
    configs: int,
    workers: int,
    extra: int,
    size: int,
    validates: bool,
    policy: str,
    rounds: str,
    seed: int,
    losses: int,
    failures: int,
    held: int,
    checkpoints: str,
) -> None:
    replicas = min(workers, 1 + extra)
    made, _ = world(
        configs,
        workers,
        size,
        validates=validates,
        policy=policy,
        rounds=rounds,
        replicas=replicas,
        checkpoints=checkpoints,
    )
    draw = random.Random(seed)
    for _ in range(4000):
        if made.coordinator.wait(0.0):
            break
        player = draw.choice(made.players)
        trial = draw.choice(made.trials)
        if trial.is_paused and trial.running and draw.random() < 0.2:
            made.coordinator.set_paused(trial.trial_id, paused=False)
        elif held and trial.running and not trial.is_paused and draw.random() < 0.05:
            held -= 1
            made.coordinator.set_paused(trial.trial_id, paused=True)
        if player.name not in made.alive:
            if draw.random() < 0.3:
                player.join()
        elif losses and draw.random() < 0.05:
            losses -= 1
            made.alive.pop(player.name)
            if draw.random() < 0.5:
                made.coordinator.lose(player.name, "killed")
        elif player.writing and draw.random() < 0.4:
            player.store()
        elif player.unit is not None:
            members = ids(player.unit)
            assert len(members) == len(set(members)) <= size
            if failures and draw.random() < 0.1:
                failures -= 1
                reason = draw.choice(["raised", "diverged", "out of memory", "unit", "hop"])
                if reason == "unit":
                    player.report = UnitFailure(unit_id=player.unit.unit_id, reason="out of memory", traceback="")
                    player.unit = None
                else:
                    player.work(fails={draw.choice(members): reason})
            else:
                player.work()
        else:
            player.ask()
    assert made.coordinator.wait(0.0)
    assert made.coordinator.error is None
    for trial in made.trials:
        if trial.failed:
            continue
        assert trial.status == "finished"
        closed = [epoch for trial_id, epoch in made.closed if trial_id == trial.trial_id]
        assert closed == list(range(EPOCHS)) or (checkpoints == "end" and {*closed} == {*range(EPOCHS)})
        assert sorted(trial.visits) == [(epoch, part) for epoch in range(EPOCHS) for part in made.all_partitions]
        assert made.store[trial.trial_id, trial.digests[-1]] == tuple(trial.visits)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_group_is_one_unit_on_every_shard_and_evaluated_at_once(rounds: str) -> None:
    made, pairs = world(4, 2, 2, rounds=rounds, policy="least-far-along")
    seen: list[tuple[str, list[str], tuple[str, ...]]] = []

    def work(player: Player, unit: WorkUnit) -> None:
        seen.append((type(unit).__name__, ids(unit), unit.loads))
        player.work()

    made.play(work)
    assert {trial.status for trial in made.trials} == {"finished"}
    # Two groups, two shards, two epochs, of each kind.
    assert sorted(seen) == sorted(
        (kind, group, ("a3f0",))
        for kind in ("EvaluateUnit", "TrainUnit")
        for group in (["c000", "c001"], ["c002", "c003"])
        for _ in range(2 * EPOCHS)
    )
    # However late the store has the checkpoint of one of them, they enter the next epoch together.
    assert all(len(asked) >= 2 for asked in pairs.asked)
    for first, second in (made.trials[:2], made.trials[2:]):
        assert first.visits == second.visits


def test_groups_enter_their_next_epoch_together_though_the_store_is_slow_with_one_member() -> None:
    made, pairs = world(2, 1, 2, validates=False)
    (player,) = made.players
    player.ask()
    player.work()
    player.ask()
    assert [name for name, _ in player.writing] == ["c000", "c001"]
    player.store()
    assert [trial.epoch for trial in made.trials] == [0, 0], "c001 is awaited"
    player.store()
    assert [trial.epoch for trial in made.trials] == [1, 1]
    assert pairs.asked == [["c000", "c001"]] * 2


def test_one_that_raises_leaves_its_group_and_the_others_keep_their_order() -> None:
    made, _ = world(3, 3, 3)
    undisturbed, _ = world(3, 3, 3)
    undisturbed.play(lambda player, _unit: player.work())

    def work(player: Player, unit: WorkUnit) -> None:
        fails = isinstance(unit, TrainUnit) and len(made.trials[0].visits) == 1
        player.work(fails={"c000": "diverged"} if fails else None)

    made.play(work)
    assert [trial.status for trial in made.trials] == ["diverged", "finished", "finished"]
    assert made.trials[0].version == 1
    assert "user's" in made.trials[0].traceback
    # It was the first, in whose order they went.
    first_epoch = len(made.all_partitions)
    for trial in made.trials[1:]:
        assert trial.visits[:first_epoch] == undisturbed.trials[1].visits[:first_epoch]


@pytest.mark.parametrize("kind", [TrainUnit, EvaluateUnit])
def test_a_group_that_kills_its_worker_is_split_before_a_member_is_blamed(kind: type) -> None:
    made, pairs = world(3, 3, 3)
    deaths: list[list[str]] = []

    def work(player: Player, unit: WorkUnit) -> None:
        if isinstance(unit, kind) and "c001" in ids(unit):
            deaths.append(ids(unit))
            die(player)
        else:
            player.work()

    made.play(work)
    assert [trial.status for trial in made.trials] == ["finished", "failed", "finished"]
    assert pairs.broken[0] == (["c000", "c001", "c002"], "out of memory")
    # Once or several times (of an evaluation) as a group; then twice by itself, and at last alone.
    together, alone = [each for each in deaths if len(each) > 1], [each for each in deaths if len(each) == 1]
    assert deaths == together + alone
    assert len(alone) >= 3
    assert "with no other trial running" in made.trials[1].traceback
    # None of these losses is the workers' own, and each is counted once.
    assert sum(made.coordinator.uncharged(player.name) for player in made.players) == len(deaths)


def test_a_group_out_of_memory_is_split_for_the_rest_of_its_epoch_and_nobody_is_blamed() -> None:
    made, pairs = world(2, 2, 2)
    sizes: dict[int, list[int]] = {0: [], 1: []}

    def work(player: Player, unit: WorkUnit) -> None:
        if isinstance(unit, TrainUnit):
            sizes[unit.epoch].append(len(unit.members))
            if sizes == {0: [2], 1: []}:
                player.unit = None
                player.report = UnitFailure(unit_id=unit.unit_id, reason="out of memory", traceback="")
                return
        player.work()

    made.play(work)
    assert [trial.status for trial in made.trials] == ["finished"] * 2
    assert pairs.broken == [(["c000", "c001"], "out of memory")]
    assert sizes == {0: [2, 1, 1, 1, 1], 1: [2, 2]}, "they are one group again in the next epoch"


def test_a_member_out_of_memory_is_tried_again_by_itself() -> None:
    made, pairs = world(2, 1, 2, validates=False)
    (player,) = made.players
    player.ask()
    player.work(fails={"c001": "out of memory"})
    made.play(lambda player, _unit: player.work())
    assert [trial.status for trial in made.trials] == ["finished"] * 2
    assert pairs.broken == [(["c000", "c001"], "out of memory")]


def test_schedule_fixed_gives_the_same_visits_whatever_is_lost() -> None:
    """A group that is split, a member that goes back: each keeps the order of the group that it began with."""

    def visits(losses: int, seed: int) -> list[list[tuple[int, int]]]:
        made, _ = world(4, 4, 2)
        draw = random.Random(seed)
        for _ in range(4000):
            if made.coordinator.wait(0.0):
                break
            player = draw.choice(made.players)
            if losses and player.unit is not None and draw.random() < 0.1:
                losses -= 1
                die(player)
            elif player.writing and draw.random() < 0.3:
                player.store()
            elif player.unit is not None:
                player.work()
            else:
                player.ask()
        assert {trial.status for trial in made.trials} == {"finished"}
        return [trial.visits for trial in made.trials]

    expected = visits(0, 0)
    assert expected[0] == expected[1] != expected[2] == expected[3]
    for seed in range(20):
        assert visits(1, seed) == expected


def test_the_users_pause_takes_a_member_out_and_the_others_go_on() -> None:
    made, _ = world(2, 2, 2, policy="least-far-along")
    made.players[0].ask()
    made.coordinator.set_paused("c000", paused=True)
    made.players[0].work()
    seen = []

    def work(player: Player, unit: WorkUnit) -> None:
        seen.append(ids(unit))
        player.work()

    made.play(work)
    assert [trial.status for trial in made.trials] == ["running", "finished"]
    assert made.trials[0].version == 1, "the unit in flight was the last"
    assert seen == [["c001"]] * (1 + 2 + 4)
    made.coordinator.set_paused("c000", paused=False)
    made.play(lambda player, _unit: player.work())
    assert made.trials[0].status == "finished"


@pytest.mark.parametrize("in_flight", [True, False])
def test_the_users_stop_takes_a_member_out_and_the_others_go_on(in_flight: bool) -> None:
    made, _ = world(3, 2, 3, policy="least-far-along")
    player = made.players[0]
    player.ask()
    if not in_flight:
        player.work()
        player.ask()
        player.unit = None
        made.coordinator.lose(player.name, "killed")
        player.join()
    made.coordinator.request(lambda: procedures.Stopped("c000", "enough")).result()
    if in_flight:
        player.work()
    seen = []

    def work(player: Player, unit: WorkUnit) -> None:
        seen.append(ids(unit))
        player.work()

    made.play(work)
    assert [trial.status for trial in made.trials] == ["stopped", "finished", "finished"]
    assert all("c000" not in unit for unit in seen)
    if in_flight:
        assert seen == [["c001", "c002"]] * len(seen)


def test_a_procedure_takes_members_out_at_the_end_of_an_epoch_and_the_rest_form_new_groups() -> None:
    made, pairs = world(0, 2, 4, rounds="together", procedure=Halves())
    groups: dict[int, set[tuple[str, ...]]] = {0: set(), 1: set()}

    def work(player: Player, unit: WorkUnit) -> None:
        if isinstance(unit, TrainUnit):
            groups[unit.epoch].add(tuple(ids(unit)))
        player.work()

    made.play(work)
    assert groups == {0: {("c000", "c001", "c002", "c003")}, 1: {("c001", "c003")}}
    assert pairs.asked == [["c000", "c001", "c002", "c003"], ["c001", "c003"]]
    assert [trial.epoch for trial in made.trials] == [1, 2, 1, 2]


def test_events_of_a_group_share_its_time() -> None:
    made, _ = world(3, 1, 3, validates=False)
    made.play(lambda player, _unit: player.work())
    events = made.coordinator.events
    assert [event.trial_id for event in events] == ["c000", "c001", "c002"] * EPOCHS
    assert {(event.members, event.seconds) for event in events} == {(3, 1.0)}
    for one, other in itertools.pairwise(events):
        assert one.began <= one.ended <= other.began
        if one.trial_id != "c002":
            assert one.ended == other.began
    spans = [event.ended - event.began for event in events[:3]]
    assert spans == pytest.approx([sum(spans) / 3] * 3)


def test_what_a_group_printed_is_in_the_log_of_each_member() -> None:
    made, _ = world(2, 1, 2, validates=False)
    (player,) = made.players
    player.ask()
    die(player)
    made.coordinator.answer(Ended(worker="w0", attempt="1", printed=Printed("c000", "its last words\n", 0, "")))
    assert [str(trial.log) for trial in made.trials] == ["its last words\n"] * 2


def test_a_grouping_that_forgets_a_trial_ends_the_run() -> None:
    class Forgetful(Pairs):
        def groups(self, trials: Sequence[Trial]) -> list[Group]:
            return [] if trials[0].epoch else super().groups(trials)

    made = World(2, 1, 1, validates=False, policy="fixed", grouping=Forgetful(2))
    made.players[0].join()
    made.play(lambda player, _unit: player.work())
    assert "grouping of c000, c001 gave no group" in str(made.coordinator.error)


def test_a_slow_grouping_delays_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens models and plans; one that is paused meanwhile is by itself in the new epoch."""
    monkeypatch.setattr(_epochs, "ThreadPoolExecutor", ThreadPoolExecutor)
    asked, opened = threading.Event(), threading.Event()

    class Slow(Pairs):
        def groups(self, trials: Sequence[Trial]) -> list[Group]:
            if trials[0].epoch and not asked.is_set():
                asked.set()
                assert opened.wait(30)
            return super().groups(trials)

    made = World(3, 1, 1, validates=False, policy="fixed", grouping=Slow(3))
    (player,) = made.players
    player.join()
    player.ask()
    player.work()
    player.ask()
    while player.writing:
        player.store()
    assert asked.wait(10)
    beats: list[Any] = []

    def beat() -> None:
        beats.append(made.coordinator.answer(Beat(worker="w0", attempt="1")))
        made.coordinator.set_paused("c001", paused=True)

    beating = threading.Thread(target=beat)
    beating.start()
    beating.join(10)
    opened.set()
    assert beats == [Acknowledged()]
    seen: set[tuple[str, ...]] = set()
    while not seen >= {("c000", "c002")}:
        player.ask()
        if player.unit is not None:
            seen.add(tuple(ids(player.unit)))
            player.work()
    assert seen == {("c000", "c002")}
    made.coordinator.set_paused("c001", paused=False)
    while not made.coordinator.wait(0.01):
        player.ask()
        if player.unit is not None:
            seen.add(tuple(ids(player.unit)))
            player.work()
        while player.writing:
            player.store()
    assert seen == {("c000", "c002"), ("c001",)}
    assert {trial.status for trial in made.trials} == {"finished"}
