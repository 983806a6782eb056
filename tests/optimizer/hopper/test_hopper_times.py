from __future__ import annotations

import numpy as np
import pytest
from dags import unhurried
from hops import workloads
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hopper.schedules import HopWorkload, KnownTimes, simulate
from optimizer.hopper import Hopper, HopperError, Unit, UnitTimes


def test_nothing_observed() -> None:
    assert UnitTimes().predict(Unit("a", 0), "w0") == 1
    flops = UnitTimes({"a": 1e9, "b": 3e9})
    assert flops.predict(Unit("a", 0), "w0") == pytest.approx(0.5)
    assert flops.predict(Unit("b", 0), "w0") == pytest.approx(1.5)
    assert flops.predict(Unit("new", 0), "w0") == pytest.approx(1)


def test_one_observation_sets_the_scale() -> None:
    times = UnitTimes({"a": 1.0, "b": 3.0})
    times.observe(Unit("a", 0), "w0", 20.0)
    assert times.predict(Unit("a", 1), "w1") == pytest.approx(20)
    assert times.predict(Unit("b", 1), "w1") == pytest.approx(60)
    without = UnitTimes()
    without.observe(Unit("a", 0), "w0", 20.0)
    assert without.predict(Unit("b", 1), "w1") == pytest.approx(20)


def test_a_worker_that_is_slow_for_one_is_slow_for_all() -> None:
    times = UnitTimes()
    for config, cost in (("a", 1.0), ("b", 5.0), ("c", 2.0), ("d", 9.0)):
        times.observe(Unit(config, 0), "fast", cost)
        times.observe(Unit(config, 1), "slow", 3 * cost)
    times.observe(Unit("e", 0), "fast", 4.0)
    assert times.predict(Unit("e", 1), "slow") == pytest.approx(12, rel=0.25)
    assert times.predict(Unit("e", 1), "slow") > 2 * times.predict(Unit("e", 1), "fast")


def test_products_are_found_in_any_order() -> None:
    rng = np.random.default_rng(0)
    costs, speeds = rng.uniform(0.5, 20, 40), rng.choice([5.6, 12.1, 18.7], 12)
    workload = HopWorkload(np.outer(costs, 1 / speeds))
    times = UnitTimes()
    pairs = [(row, column) for row in range(40) for column in range(12)]
    for place in rng.permutation(len(pairs)):
        row, column = pairs[place]
        times.observe(Unit(f"c{row}", column), f"w{column}", workload.times[row, column])
    wrong = [
        times.predict(Unit(config, 0), worker) / seconds - 1 for (config, worker), seconds in workload.table().items()
    ]
    assert np.abs(wrong).max() < 0.1


def test_rows_of_partitions_count() -> None:
    times = UnitTimes(rows={0: 100, 1: 300})
    times.observe(Unit("a", 0), "w0", 10.0)
    assert times.predict(Unit("a", 1), "w0") == pytest.approx(30)
    assert times.predict(Unit("a", 0), "w0") == pytest.approx(10)
    # The larger partition makes its worker the one with more left.
    assert Hopper(["a"], {0: ["w0"], 1: ["w1"]}, times=times).idle_workers == ("w1", "w0")


def test_large_partitions_elsewhere_go_first() -> None:
    held = {partition: [f"w{partition}"] for partition in range(3)}
    for seed in range(6):
        hopper = Hopper([], held, times=UnitTimes(rows={0: 100, 1: 900, 2: 100}), seed=seed)
        hopper.add("small", done=[1])
        hopper.add("large", done=[2])
        assert hopper.next_unit("w0") == Unit("large", 0)


@unhurried
@given(workloads(), st.integers(-10, 40))
def test_only_proportions_of_costs_count(workload: HopWorkload, power: int) -> None:
    costs = {name: float(row.mean()) for name, row in zip(workload.configs, workload.times, strict=True)}
    scaled = {name: 2.0**power * cost for name, cost in costs.items()}
    found = [simulate(workload, times=UnitTimes(one)) for one in (costs, scaled)]
    assert found[0].visit_order("c0") == found[1].visit_order("c0")
    assert found[0].makespan == found[1].makespan


@unhurried
@given(workloads())
def test_known_times_are_exact_and_stay_so(workload: HopWorkload) -> None:
    times = KnownTimes(workload)
    times.observe(Unit("c0", 0), "w0", 1e6)
    for (config, worker), seconds in workload.table().items():
        assert times.predict(Unit(config, 0), worker) == seconds


def test_who_joins_what_is_known_is_learned() -> None:
    times = KnownTimes(HopWorkload(np.outer([1.0, 2.0, 3.0], [1.0, 4.0])))
    times.observe(Unit("new", 0), "w0", 10.0)
    assert times.predict(Unit("new", 1), "w1") == pytest.approx(40, rel=0.3)
    assert times.predict(Unit("c0", 1), "w1") == 4
    hopper = Hopper(["c0", "c1", "c2"], {0: ["w0"], 1: ["w1"]}, times=times)
    hopper.add("new")
    assert hopper.next_unit("w0") == Unit("new", 0)


def test_a_worker_that_joins_what_is_known() -> None:
    workload = HopWorkload(np.outer([1.0, 2.0, 3.0], [1.0, 4.0]))
    hopper = Hopper(workload.configs, workload.availability, times=KnownTimes(workload))
    hopper.join("late", [0, 1])
    units = [hopper.next_unit("late")]
    assert units == [Unit("c2", 1)]
    hopper.finish(units[0], 30.0)
    # Ten times as slow as the others on average; what is known of those stays.
    assert hopper.times.predict(Unit("c0", 0), "late") > 3 * hopper.times.predict(Unit("c0", 0), "w0")
    assert hopper.times.predict(Unit("c2", 0), "w1") == 12


def test_an_epoch_teaches_the_next() -> None:
    rng = np.random.default_rng(3)
    workload = HopWorkload(np.outer(rng.uniform(1, 20, 20), rng.uniform(1, 3, 4)))
    times = UnitTimes()
    simulate(workload, times=times)
    hopper = Hopper(workload.configs, workload.availability, policy="longest-remaining-first", times=times)
    longest = workload.configs[int(workload.times.sum(axis=1).argmax())]
    assert hopper.next_unit("w0") == Unit(longest, 0)


def test_a_unit_too_short_for_the_clock() -> None:
    times = UnitTimes()
    times.observe(Unit("a", 0), "w0", 0.0)
    assert 0 < times.predict(Unit("a", 1), "w1") < 1e-3


def test_growing_keeps_what_was_learned() -> None:
    times = UnitTimes()
    for number in range(40):
        times.observe(Unit(f"c{number}", number), f"w{number}", 7.0)
    assert times.predict(Unit("c0", 1), "w39") == pytest.approx(7)


@pytest.mark.parametrize(
    ("costs", "rows", "said"),
    [
        ({"a": 0.0}, None, "cost of a: 0.0; give a positive number"),
        ({"a": float("inf")}, None, "cost of a: inf"),
        (None, {3: 0}, "rows of partition 3: 0"),
    ],
)
def test_priors_that_cannot_be(costs: dict[str, float] | None, rows: dict[int, int] | None, said: str) -> None:
    with pytest.raises(HopperError, match=said):
        UnitTimes(costs, rows=rows)
