"""The online scheduler under anything that may happen to it, against a model of what it may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from dags import unhurried
from hops import orders, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.hopper.schedules import HopWorkload, KnownTimes, drive, simulate
from optimizer.hopper import POLICIES, Hopper, HopperError, Placement, ScheduleError, Unit, UnitTimes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

HELD = {0: ("w0",), 1: ("w1",)}
policies = st.sampled_from(POLICIES)


@dataclass
class Watch:
    """Drives a scheduler at random, and holds everything that it does against the invariants."""

    hopper: Hopper
    held: dict[str, set[int]]
    configs: set[str]
    partitions: set[int]
    works: bool
    rng: np.random.Generator
    flight: dict[Unit, str] = field(default_factory=dict)
    log: list[Unit] = field(default_factory=list)
    done: dict[str, set[int]] = field(default_factory=dict)

    def visited(self, config: str) -> set[int]:
        return self.done.setdefault(config, set())

    def ask(self, worker: str) -> None:
        training = {unit.config for unit in self.flight}
        possible = {
            Unit(config, partition)
            for config in self.configs - training
            for partition in self.held[worker] - self.visited(config)
        }
        unit = self.hopper.next_unit(worker)
        if unit is None:
            assert not (possible and self.works), "a worker idles that could train"
        else:
            assert unit in possible
            self.flight[unit] = worker

    def step(self) -> None:
        idle = sorted(self.held.keys() - set(self.flight.values()))
        assert set(self.hopper.idle_workers) == set(idle)
        running = sorted(self.flight)
        if idle and (not running or self.rng.random() < 0.6):
            self.ask(idle[self.rng.integers(len(idle))])
        elif running:
            unit = running[self.rng.integers(len(running))]
            self.end(unit, finished=self.rng.random() < 0.8)

    def end(self, unit: Unit, *, finished: bool) -> None:
        del self.flight[unit]
        if not finished:
            self.hopper.fail(unit)
            return
        self.hopper.finish(unit, float(self.rng.uniform(0, 5)))
        self.visited(unit.config).add(unit.partition)
        self.log.append(unit)

    def disturb(self) -> None:
        event = self.rng.integers(7)
        some = sorted(self.partitions)
        some = [some[place] for place in np.flatnonzero(self.rng.random(len(some)) < 0.5)]
        if event == 0 and self.held:
            worker = sorted(self.held)[self.rng.integers(len(self.held))]
            lost = tuple(unit for unit, on in self.flight.items() if on == worker)
            assert self.hopper.lose(worker) == lost
            del self.held[worker]
            for unit in lost:
                del self.flight[unit]
        elif event == 1:
            worker = f"w{self.rng.integers(6)}"
            if worker not in self.flight.values():
                self.hopper.join(worker, some)
                self.held[worker] = set(some)
        elif event == 2 and self.configs:
            config = sorted(self.configs)[self.rng.integers(len(self.configs))]
            self.hopper.stop(config)
            self.configs.remove(config)
        elif event == 3 and self.held:
            worker = sorted(self.held)[self.rng.integers(len(self.held))]
            self.hopper.hold(worker, some)
            self.held[worker] = set(some)
        elif event == 4 and self.log:
            self.rewind(self.log[self.rng.integers(len(self.log))].config)
        elif event > 4:
            config = f"new{len(self.done)}{len(self.configs)}{len(self.log)}"
            if config not in self.done:
                self.hopper.add(config, some)
                self.configs.add(config)
                self.done[config] = set(some)

    def rewind(self, config: str) -> None:
        """Some of the last units of a configuration are lost, the last one first."""
        done = [unit for unit in self.log if unit.config == config]
        if any(unit.config == config for unit in self.flight):
            return
        if config not in self.configs:
            return
        for unit in done[self.rng.integers(len(done)) :]:
            self.visited(config).remove(unit.partition)
            self.log.remove(unit)
        self.hopper.enter(config, 0, self.visited(config))

    def check(self) -> None:
        left = {
            Unit(config, partition)
            for config in self.configs
            for partition in self.partitions - self.visited(config)
            if Unit(config, partition) not in self.flight
        }
        held = set().union(*self.held.values())
        assert self.hopper.in_flight == self.flight
        assert self.hopper.remaining == len(left)
        assert self.hopper.done == (not left and not self.flight)
        assert self.hopper.stranded == {unit.partition for unit in left} - held
        for config in self.configs:
            assert self.hopper.visited(config) == self.visited(config)

    def drain(self) -> None:
        """Run to the end, with a worker that has all partitions if units are stranded."""
        if self.hopper.stranded:
            self.hopper.join("all", sorted(self.partitions))
            self.held["all"] = set(self.partitions)
        rounds = 0
        while not self.hopper.done:
            for worker in self.hopper.idle_workers:
                self.ask(worker)
            for unit in list(self.flight):
                self.end(unit, finished=True)
            rounds += 1
            assert rounds < 1000, "it stands still"


def watch(workload: HopWorkload, policy: str, seed: int) -> Watch:
    hopper = Hopper(workload.configs, workload.availability, policy=policy, seed=seed)
    workers = {name for held in workload.availability.values() for name in held}
    return Watch(
        hopper,
        {name: {one for one, held in workload.availability.items() if name in held} for name in workers},
        set(workload.configs),
        set(workload.partitions),
        policy == "randomized" or (policy != "fixed" and len(workload.configs) > 1),
        np.random.default_rng(seed),
    )


@settings(unhurried, max_examples=150)
@given(workloads(replicas=True), policies, st.integers(0, 2**32), st.integers(0, 60))
def test_invariants_whatever_happens(workload: HopWorkload, policy: str, seed: int, steps: int) -> None:
    seen = watch(workload, policy, seed)
    for _ in range(steps):
        seen.step()
        if seen.rng.random() < 0.2:
            seen.disturb()
        seen.check()
    seen.drain()
    seen.check()
    assert len(set(seen.log)) == len(seen.log)
    for config in seen.configs:
        assert seen.visited(config) == seen.partitions


@unhurried
@given(workloads(replicas=True), policies, st.integers(0, 100), st.booleans())
def test_simulated_schedules_are_allowed(workload: HopWorkload, policy: str, seed: int, learn: bool) -> None:
    found = simulate(workload, policy, seed, times=UnitTimes() if learn else None)
    found.check(workload.availability, workload.configs)
    assert found.makespan >= workload.lower_bound - 1e-9
    again = simulate(workload, policy, seed, times=UnitTimes() if learn else None)
    assert again == found
    table = workload.table()
    assert all(one.end - one.start == pytest.approx(table[one.unit.config, one.worker]) for one in found.placements)


def test_another_seed_is_another_schedule() -> None:
    workload = HopWorkload(np.ones((8, 4)))
    for policy in POLICIES:
        found = {simulate(workload, policy, seed).placements for seed in range(6)}
        assert len(found) > 1, policy


def test_another_seed_is_another_ring() -> None:
    rings = set()
    for seed in range(8):
        order = simulate(HopWorkload(np.ones((1, 5))), "fixed", seed).visit_order("c0")
        start = order.index(0)
        rings.add(order[start:] + order[:start])
    assert len(rings) > 3


@unhurried
@given(workloads(replicas=True), st.integers(0, 2**32), st.integers(0, 40))
def test_fixed_orders_come_from_the_seed_alone(workload: HopWorkload, seed: int, steps: int) -> None:
    undisturbed = simulate(workload, "fixed", seed)
    expected = {config: list(undisturbed.visit_order(config)) for config in workload.configs}
    # Other times, other workers, failures, configurations that come and go: the orders of those that stay are theirs.
    seen = watch(workload, "fixed", seed)
    seen.rng = np.random.default_rng((seed, steps))
    for _ in range(steps):
        seen.step()
        if seen.rng.random() < 0.2:
            seen.disturb()
    seen.drain()
    found = orders(seen.log)
    for config in seen.configs & expected.keys():
        assert found[config] == expected[config]


@unhurried
@given(
    workloads(replicas=True),
    st.sampled_from([policy for policy in POLICIES if policy != "randomized"]),
    st.integers(0, 2**32),
)
def test_the_order_of_a_single_configuration_comes_from_the_seed(workload: HopWorkload, policy: str, seed: int) -> None:
    config = workload.configs[0]
    alone = HopWorkload(workload.times[:1], (config,), workload.workers, workload.availability)
    seen = watch(alone, policy, seed)
    seen.rng = np.random.default_rng((seed, 1))
    seen.drain()
    assert tuple(orders(seen.log)[config]) == simulate(alone, "fixed", seed).visit_order(config)


def test_fixed_orders_survive_a_resume() -> None:
    configs, held = ["a", "b", "c", "d", "e"], dict.fromkeys(range(4), ("w",))
    whole = Hopper(configs, held, policy="fixed", seed=5)
    log = []
    for _ in range(9):
        unit = whole.next_unit("w")
        assert unit is not None
        whole.finish(unit, 1.0)
        log.append(unit)
    resumed = Hopper([], held, policy="fixed", seed=5)
    for config in configs:
        resumed.add(config, whole.visited(config))
    rest = {name: [] for name in configs}
    first = orders(log)
    for hopper, found in ((whole, first), (resumed, rest)):
        while not hopper.done:
            unit = hopper.next_unit("w")
            assert unit is not None
            hopper.finish(unit, 1.0)
            found.setdefault(unit.config, []).append(unit.partition)
    assert all(first[name][-len(rest[name]) :] == rest[name] for name in configs if rest[name])
    assert sum(map(len, rest.values())) == 20 - 9


@pytest.mark.parametrize("policy", POLICIES)
def test_a_configuration_that_is_held_back_is_given_once_it_may_be(policy: str) -> None:
    hopper = Hopper(["a", "b"], {0: ["w0", "w1"], 1: ["w0", "w1"]}, policy=policy)
    unit = hopper.next_unit("w0", without={"a"})
    assert unit is not None
    assert unit.config == "b"
    assert hopper.next_unit("w1", without={"a"}) is None, "b is in flight, a held back"
    other = hopper.next_unit("w1", without={"b"})
    assert other is not None
    assert other.config == "a"
    hopper.finish(unit, 1.0)
    with pytest.raises(HopperError, match="configuration"):
        hopper.next_unit("w0", without={"c"})


@pytest.mark.parametrize("workers", [3, 5, 8, 12])
@pytest.mark.parametrize("policy", ["longest-remaining-elsewhere", "longest-remaining-first", "fixed"])
def test_units_of_one_length_are_scheduled_without_a_gap(policy: str, workers: int) -> None:
    for seed in range(3):
        assert simulate(HopWorkload(np.ones((2 * workers, workers))), policy, seed).ratio == 1


@pytest.mark.parametrize("learn", [False, True])
def test_many_configurations_end_near_the_bound(learn: bool) -> None:
    # The heterogeneous setting of Figure 3.6, in small; a random order is 2 % off on workers that are alike.
    rng = np.random.default_rng(0)
    costs = rng.choice([0.36, 0.7, 2, 4, 8, 11, 16, 21], 96)
    for speeds in (rng.choice([5.6, 11.3, 12.1, 18.7], 8), np.ones(8)):
        workload = HopWorkload(np.outer(costs, 1 / speeds))
        ratios = [simulate(workload, seed=seed, times=UnitTimes() if learn else None).ratio for seed in range(3)]
        assert np.mean(ratios) < 1.01


def test_most_left_goes_first() -> None:
    costs = {"short": 1.0, "long": 5.0, "middle": 2.0}
    hopper = Hopper(list(costs), HELD, times=UnitTimes(costs))
    assert hopper.next_unit("w0") == Unit("long", 0)
    assert hopper.next_unit("w1") == Unit("middle", 1)
    hopper.add("rest", done=[0])
    hopper.finish(Unit("middle", 1), 2.0)
    # A unit of "rest" and "short" each is elsewhere; of "middle" and "long" nothing else is left here or idle.
    assert hopper.next_unit("w1") in {Unit("short", 1), Unit("rest", 1)}


def test_elsewhere_and_first_differ() -> None:
    # On w0: x has 1 s elsewhere and 9 s in all, y 4 s elsewhere and 6 s in all.
    workload = HopWorkload(np.array([[8.0, 1.0], [2.0, 4.0]]), configs=("x", "y"))
    chosen = {
        policy: Hopper(workload.configs, workload.availability, policy=policy, times=KnownTimes(workload)).next_unit(
            "w0"
        )
        for policy in ("longest-remaining-elsewhere", "longest-remaining-first")
    }
    assert chosen == {"longest-remaining-elsewhere": Unit("y", 0), "longest-remaining-first": Unit("x", 0)}


def test_what_others_cannot_run_goes_first() -> None:
    held = {0: ("w0", "w1", "w2"), 1: ("w0",), 2: ("w0", "w1")}
    hopper = Hopper(["a", "b", "c", "d"], held)
    assert hopper.next_unit("w0").partition == 1
    assert hopper.next_unit("w1").partition == 2


def test_replicas_shorten_an_epoch_to_the_bound() -> None:
    # Of two holders one may be three times as fast; what only the slow ones are left with at the end decides.
    rng = np.random.default_rng(1)
    times = np.outer(rng.uniform(1, 20, 64), 1 / np.array([5.6, 18.7, 11.3, 5.6, 12.1, 18.7]))
    held = {place: (f"w{place}", f"w{(place + 1) % 6}") for place in range(6)}
    workload = HopWorkload(times, availability=held)
    assert simulate(workload).ratio < 1.05
    assert workload.lower_bound < 0.7 * HopWorkload(times).lower_bound


def test_the_busiest_worker_is_served_first() -> None:
    hopper = Hopper(["a", "b"], {0: ["w0"], 1: ["w1"], 2: ["w1"], 3: ["w2"], 4: ["w2"], 5: ["w2"]})
    assert hopper.idle_workers == ("w2", "w1", "w0")
    slow = HopWorkload(np.array([[1.0, 2.0, 4.0]] * 2))
    assert Hopper(slow.configs, slow.availability, times=KnownTimes(slow)).idle_workers == ("w2", "w1", "w0")


@unhurried
@given(workloads(replicas=True), policies, st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_replay_is_exact_at_other_speeds(workload: HopWorkload, policy: str, seed: int, other: int) -> None:
    log = simulate(workload, policy, seed)
    times = np.random.default_rng(other).uniform(0.1, 9, workload.times.shape)
    replayed = drive(
        Hopper.replay({0: log.placements}), HopWorkload(times, availability=workload.availability), "replay"
    )
    for config in workload.configs:
        assert replayed.visit_order(config) == log.visit_order(config)
    for worker in workload.workers:
        assert [one.unit for one in replayed.placements if one.worker == worker] == [
            one.unit for one in log.placements if one.worker == worker
        ]


@unhurried
@given(workloads(replicas=True), st.integers(0, 2**32), st.data())
def test_a_replay_survives_failures_and_an_epoch_cut_short(
    workload: HopWorkload, seed: int, data: st.DataObject
) -> None:
    log = simulate(workload, "randomized", seed).placements
    log = log[: data.draw(st.integers(1, len(log)))]
    workers = {one.unit: one.worker for one in log}
    hopper = Hopper.replay({0: log})
    rng = np.random.default_rng(seed)
    finished: list[Unit] = []
    while not hopper.done:
        for worker in hopper.idle_workers:
            unit = hopper.next_unit(worker)
            if unit is not None:
                assert workers[unit] == worker
        unit, worker = list(hopper.in_flight.items())[rng.integers(len(hopper.in_flight))]
        fate = rng.integers(3)
        if fate == 0:
            hopper.fail(unit)
        elif fate == 1:
            assert hopper.lose(worker) == (unit,)
            hopper.join(worker, {one.partition for one, on in workers.items() if on == worker})
        else:
            hopper.finish(unit, 1.0)
            finished.append(unit)
    assert orders(finished) == orders([one.unit for one in log])


def test_a_replay_waits_for_its_turn() -> None:
    log = [
        Placement(Unit("a", 0), "w0", 0, 1),
        Placement(Unit("b", 1), "w1", 0, 1),
        Placement(Unit("a", 1), "w1", 1, 2),
        Placement(Unit("b", 0), "w0", 1, 2),
    ]
    hopper = Hopper.replay({0: reversed(log)})
    assert hopper.next_unit("w1") == Unit("b", 1)
    hopper.finish(Unit("b", 1), 1.0)
    # b could train on w0 now, but a was first there.
    assert hopper.next_unit("w1") is None
    assert hopper.next_unit("w0") == Unit("a", 0)
    resumed = Hopper.replay({0: log})
    resumed.enter("a", 0, [0])
    assert resumed.next_unit("w0") is None
    hopper.stop("a")
    hopper.fail(Unit("a", 0))
    assert hopper.next_unit("w0") == Unit("b", 0)


def test_a_replay_does_lost_units_again() -> None:
    workload = HopWorkload(np.ones((3, 3)))
    log = simulate(workload, "randomized", 4)
    hopper = Hopper.replay({0: log.placements})
    finished = [one.unit for one in log.placements[:6]]
    for unit in finished:
        assert hopper.next_unit(f"w{unit.partition}") == unit
        hopper.finish(unit, 1.0)
    assert any(unit.config == "c0" for unit in finished)
    hopper.enter("c0", 0)
    log_of_rest = [unit for unit in finished if unit.config != "c0"]
    while not hopper.done:
        for worker in hopper.idle_workers:
            unit = hopper.next_unit(worker)
            if unit is not None:
                hopper.finish(unit, 1.0)
                log_of_rest.append(unit)
    assert orders(log_of_rest) == {config: list(log.visit_order(config)) for config in workload.configs}


def test_a_replay_waits_for_workers_to_join() -> None:
    log = (Placement(Unit("a", 0), "w0", 0, 1), Placement(Unit("a", 1), "w1", 1, 2))
    hopper = Hopper.replay({0: log}, {0: [], 1: [], 2: []})
    assert hopper.stranded == {0, 1}
    assert hopper.remaining == 2
    hopper.join("w1", [0, 1])
    # Another worker could, but it was w0.
    assert hopper.next_unit("w1") is None
    hopper.join("w0", [0, 2])
    unit = hopper.next_unit("w0")
    assert unit == Unit("a", 0)
    hopper.finish(unit, 1.0)
    assert hopper.next_unit("w1") == Unit("a", 1)
    with pytest.raises(HopperError, match="no partition 1; there are 0"):
        Hopper.replay({0: log}, {0: ["w0"]})


def test_a_replay_of_what_was_not_logged() -> None:
    log = (Placement(Unit("a", 0), "w0", 0, 1),)
    with pytest.raises(HopperError, match="the log is empty"):
        Hopper.replay({0: ()})
    with pytest.raises(ScheduleError, match="a on partition 0\\) is in the log twice"):
        Hopper.replay({0: (*log, Placement(Unit("a", 0), "w1", 2, 3))})
    hopper = Hopper.replay({0: log})
    hopper.add("b")
    assert hopper.remaining == 1
    hopper.stop("b")
    assert hopper.next_unit("w0") == Unit("a", 0)
    empty = Hopper.replay({}, {0: ["w0"]})
    empty.add("b")
    assert empty.next_unit("w0") is None


def test_a_replay_waits_for_a_configuration_that_is_to_come() -> None:
    log = (Placement(Unit("clone", 0), "w0", 1, 2), Placement(Unit("a", 0), "w0", 2, 3))
    hopper = Hopper.replay({0: log}, configs=["a"])
    assert hopper.next_unit("w0") is None
    hopper.add("clone")
    for name in ("clone", "a"):
        assert hopper.next_unit("w0") == Unit(name, 0)
        hopper.finish(Unit(name, 0), 1.0)


def test_units_of_a_lost_worker_are_replayed_by_whoever_holds_the_partition() -> None:
    log = [
        Placement(Unit("a", 0), "w0", 0, 1),
        Placement(Unit("b", 1), "w1", 0, 1),
        Placement(Unit("b", 0), "w0", 1, 2),
    ]
    hopper = Hopper.replay({0: log})
    hopper.lose("w0")
    assert hopper.next_unit("w1") == Unit("b", 1)
    hopper.finish(Unit("b", 1), 1.0)
    assert hopper.next_unit("w1") is None, "no worker has the partition"
    hopper.hold("w1", [0, 1])
    for name in ("a", "b"):
        assert hopper.next_unit("w1") == Unit(name, 0)
        hopper.finish(Unit(name, 0), 1.0)
    assert hopper.done


def test_a_failed_unit_goes_back() -> None:
    hopper = Hopper(["a"], {0: ["w0", "w1"]})
    unit = hopper.next_unit("w0")
    assert unit == Unit("a", 0)
    assert (hopper.remaining, hopper.done) == (0, False)
    assert hopper.next_unit("w1") is None
    hopper.fail(unit)
    assert (hopper.remaining, hopper.in_flight) == (1, {})
    assert hopper.next_unit("w1") == unit
    hopper.finish(unit, 1.0)
    assert hopper.done


def test_a_lost_worker_strands_what_it_alone_held() -> None:
    hopper = Hopper(["a", "b"], {0: ["w0"], 1: ["w0", "w1"]}, seed=1)
    unit = hopper.next_unit("w0")
    assert hopper.lose("w0") == (unit,)
    assert hopper.lose("w0") == ()
    assert hopper.stranded == {0}
    assert hopper.idle_workers == ("w1",)
    with pytest.raises(HopperError, match="not in flight"):
        hopper.finish(unit, 1.0)
    with pytest.raises(HopperError, match="'w0' was lost; call join"):
        hopper.next_unit("w0")
    for _ in range(2):
        hopper.finish(hopper.next_unit("w1"), 1.0)
    assert hopper.next_unit("w1") is None
    assert not hopper.done
    hopper.join("w2", [0])
    assert not hopper.stranded
    for _ in range(2):
        hopper.finish(hopper.next_unit("w2"), 1.0)
    assert hopper.done


def test_a_stopped_configuration_may_still_finish_or_fail() -> None:
    for end in (lambda hopper, unit: hopper.finish(unit, 1.0), Hopper.fail):
        hopper = Hopper(["a"], HELD)
        unit = hopper.next_unit("w0")
        hopper.stop("a")
        assert (hopper.remaining, hopper.done, hopper.in_flight) == (0, False, {unit: "w0"})
        assert hopper.next_unit("w1") is None
        end(hopper, unit)
        assert hopper.done
        assert hopper.next_unit("w0") is None
    hopper.stop("a")
    with pytest.raises(HopperError, match="'a' exists already"):
        hopper.add("a")


def test_lost_units_revive_no_stopped_configuration() -> None:
    hopper = Hopper(["a"], {0: ["w0"]})
    hopper.finish(hopper.next_unit("w0"), 1.0)
    hopper.stop("a")
    with pytest.raises(HopperError, match="a was stopped: revive it before its next epoch"):
        hopper.enter("a", 0)
    assert hopper.done
    assert hopper.next_unit("w0") is None


def test_a_stopped_configuration_is_revived() -> None:
    """A unit that was in flight when it was stopped still counts, and is not given out again."""
    hopper = Hopper(["a"], {0: ["w0"], 1: ["w0"]}, policy="fixed")
    flying = hopper.next_unit("w0")
    assert flying is not None
    hopper.stop("a")
    hopper.finish(flying, 1.0)
    assert hopper.next_unit("w0") is None
    hopper.revive("a")
    hopper.enter("a", 0, [flying.partition])
    rest = hopper.next_unit("w0")
    assert rest is not None
    assert rest.partition != flying.partition
    hopper.finish(rest, 1.0)
    assert hopper.done


def test_partitions_that_nobody_holds_yet() -> None:
    for policy in POLICIES:
        hopper = Hopper(["a", "b"], {0: ["w0"], 1: []}, policy=policy)
        while (unit := hopper.next_unit("w0")) is not None:
            hopper.finish(unit, 1.0)
        assert hopper.stranded == {1}
        hopper.join("late", [1])
        while not hopper.done:
            for worker in hopper.idle_workers:
                unit = hopper.next_unit(worker)
                if unit is not None:
                    hopper.finish(unit, 1.0)


@pytest.mark.parametrize(
    ("configs", "held", "more", "said"),
    [
        (["a"], {}, {}, "availability is empty"),
        (["a", "a"], HELD, {}, "'a' exists already"),
        (["a"], {0: "w0"}, {}, "partition 0 is on 'w0': give a list"),
        (["a"], HELD, {"seed": -1}, "seed must be at least 0, got -1"),
        (["a"], HELD, {"policy": "randomised"}, r"policy must be .*, got 'randomised'; did you mean 'randomized'"),
    ],
)
def test_a_scheduler_that_cannot_be(
    configs: list[str], held: Mapping[int, Collection[str]], more: dict[str, object], said: str
) -> None:
    with pytest.raises(HopperError, match=said):
        Hopper(configs, held, **more)  # type: ignore[arg-type]


def test_wrong_calls_change_nothing() -> None:
    hopper = Hopper(["a", "b"], HELD)
    unit = hopper.next_unit("w0")
    calls = {
        "no worker 'w9'": lambda: hopper.next_unit("w9"),
        "'w0' is busy with": lambda: hopper.next_unit("w0"),
        "not in flight: it was never": lambda: hopper.finish(Unit(unit.config, 1), 1.0),
        "not in flight": lambda: hopper.fail(Unit("z", 1)),
        "took -1": lambda: hopper.finish(unit, -1.0),
        "took nan": lambda: hopper.finish(unit, float("nan")),
        "no configuration 'z'": lambda: hopper.stop("z"),
        "no configuration 'y'": lambda: hopper.visited("y"),
        "no partition 7; there are 0, 1": lambda: hopper.add("c", [7]),
        "no worker 'w8'": lambda: hopper.lose("w8"),
        "'w0' joins while": lambda: hopper.join("w0", [0]),
        "no worker 'w7'": lambda: hopper.hold("w7", [0]),
        "no partition 8": lambda: hopper.hold("w1", [8]),
        f"{unit.config} is in flight: finish its unit": lambda: hopper.enter(unit.config, 1),
        "no partition 6": lambda: hopper.enter("ab".replace(unit.config, ""), 1, [6]),
        "no configuration 'x'": lambda: hopper.enter("x", 1),
        "no partition 9": lambda: hopper.join("w3", [9]),
    }
    for said, call in calls.items():
        with pytest.raises(HopperError, match=said):
            call()
        assert (hopper.in_flight, hopper.remaining, hopper.idle_workers) == ({unit: "w0"}, 3, ("w1",))


def test_no_configurations_is_an_epoch_that_is_over() -> None:
    for policy in POLICIES:
        hopper = Hopper([], HELD, policy=policy)
        assert hopper.done
        assert hopper.next_unit("w0") is None
        assert set(hopper.idle_workers) == {"w0", "w1"}


def test_a_simulation_that_cannot_end() -> None:
    workload = HopWorkload(np.ones((1, 2)))
    hopper = Hopper(workload.configs, workload.availability)
    hopper.lose("w1")
    with pytest.raises(ScheduleError, match="progress: 1 units remain and no worker can train one"):
        drive(hopper, workload, "online")
