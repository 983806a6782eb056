"""The solvers against optima by brute force, and against what the literature proves of them."""

from __future__ import annotations

import numpy as np
import pytest
from dags import unhurried
from hops import FIGURE_3_5, optimum, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.hopper.schedules import HopWorkload, rearrange, schedule_milp, simulate
from benchmarks.hopper.schedules._prefix_sums import rearranged
from optimizer.hopper import POLICIES, HopperError

pytest.importorskip("pulp")


@pytest.mark.parametrize("solver", ["highs", "cbc"])
@pytest.mark.parametrize("seed", range(4))
def test_milp_is_the_optimum(solver: str, seed: int) -> None:
    times = np.random.default_rng(seed).integers(1, 10, (3, 3)).astype(float)
    workload = HopWorkload(times)
    found = schedule_milp(workload, 30, solver=solver)  # type: ignore[arg-type]
    found.check(workload.availability, workload.configs)
    assert found.optimal
    assert found.makespan == optimum(workload)


def test_milp_finds_what_no_list_schedule_does() -> None:
    # Found by search: the optimum is above the bound, and every policy of ours is above the optimum.
    workload = HopWorkload(np.array([[7.0, 2.0, 8.0], [3.0, 6.0, 4.0], [1.0, 9.0, 5.0]]))
    found = schedule_milp(workload, 30)
    assert (found.method, found.optimal) == ("MILP (highs)", True)
    assert found.makespan == optimum(workload) == 18
    assert workload.lower_bound == 17
    assert min(simulate(workload, policy).makespan for policy in POLICIES) > 18


def test_milp_of_figure_3_5() -> None:
    found = schedule_milp(FIGURE_3_5, 30)
    found.check(FIGURE_3_5.availability, FIGURE_3_5.configs)
    assert (found.makespan, found.optimal) == (7, True)


def test_milp_with_two_partitions_on_a_worker() -> None:
    workload = HopWorkload(np.array([[2.0, 1.0], [1.0, 1.0]]), availability={0: ["w0"], 1: ["w0"], 2: ["w1"]})
    found = schedule_milp(workload, 30)
    found.check(workload.availability, workload.configs)
    assert found.makespan == optimum(workload) == 6
    # 3 pairs of a configuration, twice; on w0 4 pairs of two configurations, on w1 one.
    with pytest.raises(HopperError, match="take 11 binaries"):
        schedule_milp(workload, 30, max_binaries=10)


def test_milp_out_of_time_gives_the_list_schedule() -> None:
    workload = HopWorkload(np.random.default_rng(1).random((8, 8)) + 0.1)
    found = schedule_milp(workload, 0.01)
    found.check(workload.availability, workload.configs)
    assert found.makespan == simulate(workload).makespan
    assert not found.optimal


def test_milp_refuses() -> None:
    with pytest.raises(HopperError, match="256 configurations over 16 partitions take 552960 binaries"):
        schedule_milp(HopWorkload(np.ones((256, 16))))
    with pytest.raises(HopperError, match="18 binaries, more than max_binaries=17"):
        schedule_milp(HopWorkload(np.ones((3, 3))), max_binaries=17)
    with pytest.raises(HopperError, match="partition 0 is on 2 workers"):
        schedule_milp(HopWorkload(np.ones((1, 2)), availability={0: ["w0", "w1"]}))
    with pytest.raises(HopperError, match="solver must be one of highs, cbc, got 'gurobi'"):
        schedule_milp(FIGURE_3_5, solver="gurobi")  # type: ignore[arg-type]
    with pytest.raises(HopperError, match="seconds=0"):
        schedule_milp(FIGURE_3_5, 0)


@settings(unhurried, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**32), st.booleans())
def test_prefixes_stay_short(count: int, dimension: int, seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-3, 4, (count, dimension)).astype(float) if whole else rng.normal(size=(count, dimension))
    vectors = np.vstack([vectors, -vectors.sum(axis=0) / 2, -vectors.sum(axis=0) / 2])
    order = rearranged(vectors)
    assert sorted(order) == list(range(count + 2))
    sums = np.cumsum(vectors[order], axis=0)
    for norm in (1, 2, np.inf):
        longest = np.linalg.norm(vectors, norm, axis=1).max()
        assert np.linalg.norm(sums, norm, axis=1).max() <= dimension * longest + 1e-6


@pytest.mark.parametrize("seed", range(40))
def test_prefixes_of_numbers_stay_below_the_largest(seed: int) -> None:
    # In one dimension the bound is tight: two numbers of one sign in a row at the wrong place exceed it.
    rng = np.random.default_rng(seed)
    numbers = rng.choice([-1.0, 1.0, 0.9, -0.9], (rng.integers(4, 14), 1))
    numbers = np.vstack([numbers, -numbers])
    assert np.abs(np.cumsum(numbers[rearranged(numbers)])).max() <= 1 + 1e-9


@settings(unhurried, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**32))
def test_rearrangement_keeps_its_promises(configs: int, workers: int, seed: int) -> None:
    workload = HopWorkload(np.random.default_rng(seed).uniform(0.1, 1, (configs, workers)))
    found = rearrange(workload)
    found.check(workload.availability, workload.configs)
    load, longest = workload.times.sum(axis=0).max(), workload.times.max()
    assert found.makespan <= load + (workers - 1) * longest + 1e-9
    if load >= (workers**2 + workers - 1) * longest:
        assert found.method == "vector rearrangement"
        assert found.optimal
        assert found.makespan == pytest.approx(load)


def test_rearrangement_where_the_circle_is_too_short() -> None:
    workload = HopWorkload(np.array([[5.0, 5.0, 5.0], [1.0, 1.0, 1.0]]))
    found = rearrange(workload)
    found.check(workload.availability, workload.configs)
    assert found.method != "vector rearrangement"
    assert found.makespan == 15
    assert found.optimal


def test_rearrangement_follows_the_availability() -> None:
    crossed = {0: ["w1"], 5: ["w0"]}
    workload = HopWorkload(np.random.default_rng(0).uniform(1, 2, (20, 2)), availability=crossed)
    rearrange(workload).check(crossed, workload.configs)
    for other in ({0: ["w0", "w1"], 1: ["w1"]}, {0: ["w0"], 1: ["w0"]}, {0: ["w0"]}):
        with pytest.raises(HopperError, match="open shop"):
            rearrange(HopWorkload(workload.times, availability=other))


@unhurried
@given(workloads(), st.integers(0, 5))
def test_every_list_schedule_keeps_the_second_promise(workload: HopWorkload, seed: int) -> None:
    most = workload.times.sum(axis=0).max() + (len(workload.workers) - 1) * workload.times.max()
    for policy in ("least-far-along", "randomized", "longest-remaining-first", "longest-remaining-elsewhere"):
        assert simulate(workload, policy, seed).makespan <= most
