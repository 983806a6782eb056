"""A whole run in one scheduler: every configuration in an epoch of its own."""

from __future__ import annotations

import heapq
import itertools

import numpy as np
import pytest
from dags import unhurried
from hops import workloads
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hopper.schedules import HopWorkload, KnownTimes, simulate
from optimizer.hopper import POLICIES, Hopper, Placement, ScheduleError, Unit, UnitTimes

policies = st.sampled_from(POLICIES)

Log = dict[int, list[Placement]]


def run(hopper: Hopper, workload: HopWorkload, epochs: dict[str, int]) -> Log:
    """Train each configuration for so many epochs, each as soon as the one before is over."""
    log: Log = {}
    at = dict.fromkeys(epochs, 0)
    for name, count in epochs.items():
        hopper.enter(name, 0, ahead=count - 1)
    seconds, now = workload.table(), 0.0
    events: list[tuple[float, Unit, str, float]] = []
    while True:
        for worker in hopper.idle_workers:
            unit = hopper.next_unit(worker)
            if unit is not None:
                heapq.heappush(events, (now + seconds[unit.config, worker], unit, worker, now))
        if not events:
            assert hopper.done, "it stands still"
            return log
        now, unit, worker, began = heapq.heappop(events)
        hopper.finish(unit, now - began)
        name = unit.config
        log.setdefault(at[name], []).append(Placement(unit, worker, began, now))
        if len(hopper.visited(name)) == len(workload.partitions) and at[name] + 1 < epochs[name]:
            at[name] += 1
            hopper.enter(name, at[name], ahead=epochs[name] - at[name] - 1)


def visits(log: Log, config: str) -> list[tuple[int, int]]:
    return [
        (epoch, placement.unit.partition)
        for epoch, placements in sorted(log.items())
        for placement in sorted(placements, key=lambda each: each.start)
        if placement.unit.config == config
    ]


def granted(workload: HopWorkload, seed: int) -> dict[str, int]:
    rng = np.random.default_rng(seed)
    return {name: int(rng.integers(1, 4)) for name in workload.configs}


@unhurried
@given(workloads(replicas=True), policies, st.integers(0, 2**32))
def test_every_epoch_visits_every_partition_once(workload: HopWorkload, policy: str, seed: int) -> None:
    epochs = granted(workload, seed)
    log = run(Hopper(workload.configs, workload.availability, policy=policy, seed=seed), workload, epochs)
    everywhere = sorted(workload.partitions)
    for config, count in epochs.items():
        found = visits(log, config)
        assert [epoch for epoch, _ in found] == sorted(epoch for epoch, _ in found)
        for epoch in range(count):
            assert sorted(partition for at, partition in found if at == epoch) == everywhere
        spans = sorted((one.start, one.end) for each in log.values() for one in each if one.unit.config == config)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), "two units at once"


@unhurried
@given(workloads(replicas=True), st.integers(0, 2**32), st.integers(0, 2**32))
def test_fixed_orders_do_not_depend_on_when_an_epoch_begins(workload: HopWorkload, seed: int, other: int) -> None:
    epochs = dict.fromkeys(workload.configs, 3)
    log = run(Hopper(workload.configs, workload.availability, policy="fixed", seed=seed), workload, epochs)
    for epoch in range(3):
        together = simulate(workload, "fixed", seed + epoch)
        for config in workload.configs:
            of_epoch = [partition for at, partition in visits(log, config) if at == epoch]
            assert of_epoch == list(together.visit_order(config))
    slower = HopWorkload(
        np.random.default_rng(other).uniform(0.1, 9, workload.times.shape), availability=workload.availability
    )
    again = run(Hopper(workload.configs, workload.availability, policy="fixed", seed=seed), slower, epochs)
    for config in workload.configs:
        assert visits(again, config) == visits(log, config)


@unhurried
@given(workloads(replicas=True), policies, st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_run_is_replayed_across_its_epochs(workload: HopWorkload, policy: str, seed: int, other: int) -> None:
    epochs = granted(workload, seed)
    log = run(Hopper(workload.configs, workload.availability, policy=policy, seed=seed), workload, epochs)
    slower = HopWorkload(
        np.random.default_rng(other).uniform(0.1, 9, workload.times.shape), availability=workload.availability
    )
    again = run(Hopper.replay(log, workload.availability), slower, epochs)
    for config in workload.configs:
        assert visits(again, config) == visits(log, config)
    for worker in workload.workers:
        for of_both in (again, log):
            for each in of_both.values():
                each.sort(key=lambda one: one.start)
        assert {(epoch, one.unit) for epoch, each in again.items() for one in each if one.worker == worker} == {
            (epoch, one.unit) for epoch, each in log.items() for one in each if one.worker == worker
        }


def test_a_replay_goes_back_across_an_epoch() -> None:
    log = {
        epoch: [Placement(Unit("a", place), "w0", 2 * epoch + place, 2 * epoch + place + 1) for place in (0, 1)]
        for epoch in (0, 1)
    }
    hopper = Hopper.replay(log)
    for partition in (0, 1):
        assert hopper.next_unit("w0") == Unit("a", partition)
        hopper.finish(Unit("a", partition), 1.0)
    # The log goes on with epoch 1, which has not begun.
    assert hopper.next_unit("w0") is None
    hopper.enter("a", 1)
    assert hopper.next_unit("w0") == Unit("a", 0)
    hopper.finish(Unit("a", 0), 1.0)
    # The states of epoch 1 are lost, and the last one of epoch 0.
    hopper.enter("a", 0, [0])
    assert hopper.next_unit("w0") == Unit("a", 1)
    with pytest.raises(ScheduleError, match="twice"):
        Hopper.replay({0: log[0] + log[0]})


def test_a_configuration_with_more_epochs_to_come_goes_first() -> None:
    for policy in ("longest-remaining-elsewhere", "longest-remaining-first", "fixed"):
        hopper = Hopper((), {0: ["w0"]}, policy=policy, times=UnitTimes({"short": 5.0, "long": 1.0}))
        hopper.add("short")
        hopper.add("long", ahead=9)
        assert hopper.next_unit("w0") == Unit("long", 0), policy
    hopper.fail(Unit("long", 0))
    hopper.enter("long", 1, ahead=0)
    assert hopper.next_unit("w0") == Unit("short", 0)


def test_whoever_is_least_far_along_its_lineage_goes_first() -> None:
    times = UnitTimes({"long": 5.0, "short": 1.0, "clone": 9.0, "ahead": 1.0})
    hopper = Hopper((), {0: ["w0"], 1: ["w1"]}, policy="least-far-along", times=times)
    hopper.add("ahead", epoch=2, ahead=9)
    hopper.add("clone", inherited=2)
    hopper.add("long", epoch=1)
    hopper.add("short", epoch=1, ahead=3)
    given = []
    while (unit := hopper.next_unit("w0")) is not None:
        hopper.finish(unit, 1.0)
        given.append(unit.config)
    # Epochs to come count for nothing, those before a clone's own first one do.
    assert given == ["long", "short", "clone", "ahead"]
    hopper.enter("short", 2)
    hopper.enter("clone", 1)
    assert hopper.next_unit("w0") == Unit("short", 0)


@unhurried
@given(workloads(replicas=True), st.integers(0, 99))
def test_in_one_epoch_the_least_far_along_is_the_longest_remaining(workload: HopWorkload, seed: int) -> None:
    placements = [simulate(workload, policy, seed).placements for policy in POLICIES[:2]]
    assert POLICIES[1] == "longest-remaining-elsewhere"
    assert placements[0] == placements[1]


def test_nobody_waits_at_the_end_of_an_epoch() -> None:
    """Four configurations on three workers: in one epoch alone, the last units leave a worker without any."""
    workload = HopWorkload(np.repeat([[4.0], [5.0], [5.0], [3.0]], 3, axis=1))
    hopper = Hopper(workload.configs, workload.availability, times=KnownTimes(workload))
    log = run(hopper, workload, dict.fromkeys(workload.configs, 4))
    assert max(one.end for each in log.values() for one in each) < 4 * simulate(workload).makespan


def hops(log: Log) -> int:
    """Count how often a configuration is trained by another worker than before."""
    units = sorted(
        (each for of_epoch in log.values() for each in of_epoch), key=lambda one: (one.unit.config, one.start)
    )
    return sum(
        one.unit.config == other.unit.config and one.worker != other.worker for one, other in itertools.pairwise(units)
    )


@pytest.mark.parametrize("configs", [3, 5, 8])
def test_where_all_hold_all_nobody_hops_but_in_the_last_epoch(configs: int) -> None:
    rng = np.random.default_rng(configs)
    times = np.repeat(rng.uniform(1, 3, (configs, 1)), 2, axis=1)
    everywhere = {0: ("w0", "w1"), 1: ("w0", "w1")}
    workload = HopWorkload(times, availability=everywhere)
    log = run(Hopper(workload.configs, everywhere), workload, dict.fromkeys(workload.configs, 6))
    assert hops({epoch: log[epoch] for epoch in range(5)}) <= configs
    # Half of all units' time, and what one worker may do alone at the end.
    ends = max(one.end for of_epoch in log.values() for one in of_epoch)
    assert ends <= 6 * times.sum() / 2 + 2 * times.max()


def test_whose_state_a_worker_has_goes_on() -> None:
    everywhere = {0: ("w0", "w1"), 1: ("w0", "w1")}
    for ahead, goes_on in ((1, True), (0, False)):
        hopper = Hopper((), everywhere, times=UnitTimes())
        for name in ("a", "b", "c"):
            hopper.add(name, ahead=ahead)
        first, _ = hopper.next_unit("w0"), hopper.next_unit("w1")
        assert first is not None
        hopper.finish(first, 1.0)
        again = hopper.next_unit("w0")
        assert again is not None
        assert (again.config == first.config) is goes_on
        assert again.partition != first.partition or not goes_on
