from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dags import unhurried
from hops import FIGURE_3_5, optimum, task_parallel_optimum, workloads
from hypothesis import given, settings

from benchmarks.hopper.schedules import HopWorkload, Schedule, communication_costs, simulate
from optimizer.errors import CerebroError
from optimizer.hopper import HopperError, Placement, ScheduleError, Unit

HELD = {0: {"w0"}, 1: {"w1"}}


def place(config: str, partition: int, start: float, end: float, worker: str | None = None) -> Placement:
    return Placement(Unit(config, partition), worker or f"w{partition}", start, end)


SWAP = (place("a", 0, 0, 2), place("b", 1, 0, 1), place("a", 1, 2, 4), place("b", 0, 2, 3))


def test_what_a_schedule_says() -> None:
    schedule = Schedule(SWAP[::-1], lower_bound=4, method="hand")
    schedule.check(HELD, configs=["a", "b"])
    assert schedule.placements[0].start == 0
    assert (schedule.makespan, schedule.ratio, schedule.utilisation) == (4, 1, 0.75)
    assert (schedule.visit_order("a"), schedule.visit_order("b")) == ((0, 1), (1, 0))
    assert "4 units of 2 configurations by hand: 4 s, 1.0000 of the lower bound 4 s" in schedule.explain()
    assert "proven" not in schedule.explain()
    assert "proven optimal" in replace(schedule, optimal=True).explain()
    assert schedule.explain().splitlines()[1] == "  w0: a/0, b/0"
    assert math.isnan(Schedule(SWAP).ratio)
    with pytest.raises(HopperError, match="no configuration 'c'; there are b, a"):
        schedule.visit_order("c")


def test_units_that_touch_but_for_rounding_are_apart() -> None:
    third = 0.1 + 0.2
    Schedule((place("a", 0, 0, third), place("a", 1, 0.3, 0.6))).check(HELD)


@pytest.mark.parametrize(
    ("placements", "invariant", "said"),
    [
        (SWAP[:3], "completeness", "b on partition 0 runs 0 times, not 1"),
        ((*SWAP, place("a", 0, 5, 6)), "completeness", "a on partition 0 runs 2 times, not 1"),
        ((SWAP[0], SWAP[1], place("a", 1, 1.5, 4), SWAP[3]), "isolation", "a on partition 0"),
        ((SWAP[0], SWAP[1], SWAP[2], place("b", 0, 1.9, 3)), "exclusive access", "b on partition 0"),
        ((SWAP[0], SWAP[1], SWAP[2], place("b", 0, 2, 3, "w1")), "placement", "worker w1"),
        ((place("a", 7, 0, 1),), "placement", "partition 7"),
        ((place("a", 0, 2, 1),), "no overlap", "2 to 1 s"),
        ((place("a", 0, -1, 1),), "no overlap", "-1 to 1 s"),
        ((place("a", 0, math.nan, 1),), "no overlap", "nan"),
    ],
)
def test_a_broken_invariant_is_named(placements: tuple[Placement, ...], invariant: str, said: str) -> None:
    with pytest.raises(ScheduleError, match=invariant) as caught:
        Schedule(placements).check(HELD)
    assert caught.value.invariant == invariant
    assert said in str(caught.value)
    assert isinstance(caught.value, CerebroError)


def test_a_long_unit_hides_no_later_overlap() -> None:
    # Neighbours in the order of starts: the third begins while the first still runs, after a second that has ended.
    inside = (place("a", 0, 0, 10), place("a", 1, 10, 11), place("b", 1, 2, 3), place("b", 0, 4, 5))
    with pytest.raises(ScheduleError, match="exclusive access"):
        Schedule(inside).check(HELD)


def test_a_configuration_that_is_not_there_at_all() -> None:
    with pytest.raises(ScheduleError, match="completeness: c on partition 0 runs 0 times"):
        Schedule(SWAP).check(HELD, configs=["a", "b", "c"])
    with pytest.raises(ScheduleError, match="completeness: b on partition 0 runs 1 times, not 0"):
        Schedule(SWAP).check(HELD, configs=["a"])


def test_figure_3_5() -> None:
    assert task_parallel_optimum(FIGURE_3_5) == 9
    assert FIGURE_3_5.lower_bound == simulate(FIGURE_3_5).makespan == 7


@settings(unhurried, max_examples=40)
@given(workloads(3, 2, replicas=True))
def test_nothing_is_shorter_than_the_bound(workload: HopWorkload) -> None:
    if len(workload.configs) * len(workload.partitions) <= 4:
        assert workload.lower_bound <= optimum(workload) + 1e-9


@unhurried
@given(workloads())
def test_the_bound_of_an_open_shop(workload: HopWorkload) -> None:
    assert workload.open_shop
    assert workload.lower_bound == max(workload.times.sum(axis=0).max(), workload.times.sum(axis=1).max())


def test_the_bound_with_replicas() -> None:
    everywhere = dict.fromkeys(range(3), ("w0", "w1"))
    slow = HopWorkload(np.array([[1.0, 2.0]] * 4), availability=everywhere)
    assert not slow.open_shop
    # 12 units; in 2 s the workers finish 2 and 1 of them.
    assert slow.lower_bound == pytest.approx(8)
    # Two partitions that only the slow worker has: 8 units of 2 s.
    assert HopWorkload(slow.times, availability={0: ["w0"], 1: ["w1"], 2: ["w1"]}).lower_bound == 16
    # One configuration, each partition at its faster holder.
    assert HopWorkload(np.array([[1.0, 3.0]]), availability={0: ["w0", "w1"], 1: ["w1"]}).lower_bound == 4
    # Three workers, of which two share all but one partition; the third must not water the bound down.
    shared = {**dict.fromkeys(range(6), ("w0", "w1")), 6: ("w2",)}
    assert HopWorkload(np.ones((8, 3)), availability=shared).lower_bound == 24


def test_what_a_workload_says() -> None:
    said = FIGURE_3_5.explain()
    assert said.startswith("5 configurations over 3 partitions on 3 workers, 1 worker per partition")
    assert "unit times 1 to 2 s, 21 s in all" in said
    assert "7 s: the longest configuration takes at least 6 s, the workers 7 s" in said
    replicas = HopWorkload(np.array([[1.0, 2.0]]), availability={3: ["w1", "w0"], 1: ["w1"]})
    assert "1 to 2 workers per partition" in replicas.explain()
    assert "3 s in all on the fastest holders" in replicas.explain()
    assert replicas.partitions == (1, 3)
    assert replicas.table() == {("c0", "w0"): 1, ("c0", "w1"): 2}


@pytest.mark.parametrize(
    ("times", "more", "said"),
    [
        ([], {}, r"shape \(0,\)"),
        ([[]], {}, r"shape \(1, 0\)"),
        ([1.0, 2.0], {}, r"shape \(2,\)"),
        ([[1.0, 0.0]], {}, "times has 0"),
        ([[1.0, math.nan]], {}, "times has nan"),
        ([[1.0, math.inf]], {}, "times has inf"),
        ([[1.0], [2.0]], {"configs": ("a",)}, r"1 configs for times of shape \(2, 1\): 2 names"),
        ([[1.0]], {"workers": ("a", "b")}, "2 workers for times"),
        ([[1.0], [2.0]], {"configs": ("a", "a")}, "configs has 'a' 2 times"),
        ([[1.0]], {"availability": {0: []}}, "partition 0 is on no worker"),
        ([[1.0]], {"availability": {0: ["w0", "w7"]}}, "no worker 'w7'; there are w0"),
    ],
)
def test_a_workload_that_cannot_be(times: list[object], more: dict[str, object], said: str) -> None:
    with pytest.raises(HopperError, match=said):
        HopWorkload(np.array(times), **more)  # type: ignore[arg-type]


def test_a_workload_keeps_its_own_times() -> None:
    given = np.ones((2, 2))
    workload = HopWorkload(given)
    given[0, 0] = 100
    assert workload.lower_bound == 2
    with pytest.raises(ValueError, match="read-only"):
        workload.times[0, 0] = 1


def test_table_3_2() -> None:
    tera, peta = 10**12, 10**15
    costs = communication_costs(configs=20, epochs=20, workers=10, model_bytes=10**9, data_bytes=tera, batches=100_000)
    # As printed; the terms m|S| of 20 GB are below the rounding of the table.
    assert {name: round(cost / tera) * tera for name, cost in costs.items()} == {
        "model hopper": 4 * tera,
        "task parallel, full replication": 10 * tera,
        "task parallel, remote reads": 400 * tera,
        "bulk synchronous": 8 * tera,
        "centralized fine-grained": 80 * peta,
        "decentralized fine-grained": 72 * peta,
    }
    first = 20 * 10**9
    assert [cost % (100 * 10**9) for cost in list(costs.values())[:4]] == [first, first, first, 0]


def test_mini_batches_are_rounded_up() -> None:
    costs = communication_costs(configs=1, epochs=1, workers=4, model_bytes=1, data_bytes=1, batches=9)
    assert costs["centralized fine-grained"] == 2 * 4 * 3
    assert costs["decentralized fine-grained"] == 2 * 3 * 3
    with pytest.raises(HopperError, match="workers must be a whole number of at least 1, got 0"):
        communication_costs(configs=1, epochs=1, workers=0, model_bytes=1, data_bytes=1, batches=9)
