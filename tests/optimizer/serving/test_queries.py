"""Splits of a query's deadline: the seeds' tables, brute force, and what every split must hold."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import profiles

from optimizer.errors import InvalidArgumentError
from optimizer.serving import BatchingProfile, InfeasibleError, Query, ServingError, backends_for, plan, resplit, split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.serving import QuerySplit

BY: tuple[Literal["node", "stage"], ...] = ("node", "stage")

# Table 3.3 with all times doubled, so that its throughputs are of whole batches.
X = BatchingProfile({1: 5, 16: 80, 25: 100, 36: 120})
Y = BatchingProfile({1: 5, 24: 80, 40: 100, 60: 120})


def example(alpha: float, slo: float = 200) -> Query:
    return Query("example", {"X": X, "Y": Y}, {("X", "Y"): alpha}, slo, 1)


@pytest.mark.parametrize(
    ("alpha", "throughputs"),
    [(0.1, [192.3, 235.3, 272.7]), (1, [142.9, 153.8, 150.0]), (10, [40.0, 34.5, 27.3])],
)
def test_table_3_4(alpha: float, throughputs: list[float]) -> None:
    query = example(alpha)
    plans = [{"X": 80, "Y": 120}, {"X": 100, "Y": 100}, {"X": 120, "Y": 80}]
    assert [round(1 / backends_for(query, budgets, batches=1), 1) for budgets in plans] == throughputs
    best = split(query, batches=1)
    assert 1 / best.backends >= max(throughputs) - 0.05
    assert sum(best.budgets.values()) == pytest.approx(200)


def test_the_split_moves_with_alpha() -> None:
    first = [split(example(alpha), batches=1).budgets["X"] for alpha in (0.1, 1, 10)]
    assert first == sorted(first, reverse=True)
    assert first[0] > first[-1]


@st.composite
def queries(draw: st.DrawFn, most: int = 4, *, tree: bool = False) -> Query:
    count = draw(st.integers(1, most))
    models = {f"m{number}": draw(profiles(largest=6)) for number in range(count)}
    calls = {}
    for number in range(1, count):
        callers = draw(st.sets(st.integers(0, number - 1), max_size=1 if tree else 2))
        for caller in callers:
            calls[f"m{caller}", f"m{number}"] = draw(st.sampled_from([0.0, 0.1, 1.0, 3.0]))
    return Query("q", models, calls, draw(st.integers(100, 400)), draw(st.sampled_from([1.0, 50.0])))


def longest_path(query: Query, budgets: Mapping[str, float]) -> float:
    ends: dict[str, float] = {}
    for name in query.order:
        ends[name] = budgets[name] + max((ends[caller] for caller in query.callers(name)), default=0)
    return max(ends.values())


def by_hand(query: Query, by: str) -> float:
    """Try every batch of every model, or of every stage every batch's time of one of its models."""
    rates = query.rates
    groups = query.stages if by == "stage" else tuple((name,) for name in query.order)
    choices = [sorted({2 * float(ms) for name in group for ms in query.models[name].latencies[1:]}) for group in groups]
    least = math.inf
    for budgets in itertools.product(*choices):
        given_budgets = {name: budget for group, budget in zip(groups, budgets, strict=True) for name in group}
        if longest_path(query, given_budgets) > query.slo_ms:
            continue
        cost = 0.0
        for name, budget in given_budgets.items():
            batch = query.models[name].best_batch(budget / 2)
            cost += rates[name] / query.models[name].throughput(batch) if batch else math.inf
        least = min(least, cost)
    return least


def tried(query: Query, **options: Any) -> QuerySplit | None:
    try:
        return split(query, **options)
    except InfeasibleError:
        return None


@given(queries(tree=True), st.sampled_from(BY))
@settings(max_examples=60, deadline=None)
def test_the_program_is_the_best_of_all(query: Query, by: Literal["node", "stage"]) -> None:
    found = tried(query, by=by, method="program")
    best = by_hand(query, by)
    assert (found is None) == math.isinf(best)
    if found is not None:
        assert found.backends == pytest.approx(best)


@given(queries(), st.sampled_from(BY))
@settings(max_examples=60, deadline=None)
def test_every_split_keeps_the_deadline(query: Query, by: Literal["node", "stage"]) -> None:
    found = tried(query, by=by)
    if found is None:
        return
    assert longest_path(query, found.budgets) <= query.slo_ms * (1 + 1e-9)
    assert backends_for(query, found.budgets) <= found.backends * (1 + 1e-9)
    if by == "stage":
        assert all(len({found.budgets[name] for name in stage}) == 1 for stage in query.stages)
    else:
        assert found.backends <= split(query, by="stage").backends * (1 + 1e-9)
    for session in found.sessions():
        assert session.rate == query.rates[session.name.partition("/")[2]]
    assert not plan(found.sessions()).violations()


@given(queries(most=3))
@settings(max_examples=10, deadline=None)
def test_annealing_is_near_the_best(query: Query) -> None:
    found = tried(query, method="anneal")
    if found is not None:
        assert found.backends <= 1.01 * by_hand(query, "node") + 1e-9


@pytest.mark.parametrize("method", ["auto", "program", "brute", "anneal"])
def test_stages_that_are_too_slow_together(method: Literal["auto", "program", "brute", "anneal"]) -> None:
    slow, fast = BatchingProfile({1: 30}), BatchingProfile({1: 5})
    query = Query("q", {"a": slow, "b": fast, "c": fast, "d": slow}, {("a", "c"): 1.0, ("b", "d"): 1.0}, 100, 1)
    assert longest_path(query, split(query).budgets) == pytest.approx(100)
    with pytest.raises(InfeasibleError, match="at least 120"):
        split(query, by="stage", method=method)


def test_a_query_that_is_no_tree() -> None:
    """Face and plate are read of the same crop: budgets of a node, not of a stage, still keep both paths."""
    fast, slow = BatchingProfile.from_line(1, 3, 16), BatchingProfile.from_line(8, 12, 16)
    calls = {("a", "b"): 1.0, ("a", "c"): 2.0, ("b", "d"): 1.0, ("c", "d"): 1.0}
    query = Query("q", {"a": fast, "b": slow, "c": fast, "d": slow}, calls, 300, 30)
    assert query.rates == {"a": 30, "b": 30, "c": 60, "d": 90}
    assert query.stages == (("a",), ("b", "c"), ("d",))
    assert not query.is_tree
    node, stage = split(query), split(query, by="stage")
    assert (node.method, stage.method) == ("brute", "program") or node.method == "anneal"
    assert node.backends <= stage.backends * 1.001
    with pytest.raises(InvalidArgumentError, match="'d' has several callers"):
        split(query, method="program")


def test_a_chain_of_many_models_is_thinned_and_still_near_the_best() -> None:
    models = {f"m{n}": BatchingProfile.from_line(1 + 0.37 * n, 5 + 1.1 * n, 32) for n in range(6)}
    calls = {(f"m{n}", f"m{n + 1}"): 1.0 for n in range(5)}
    query = Query("chain", models, calls, 900, 20)
    found = split(query)
    assert longest_path(query, found.budgets) <= 900 * (1 + 1e-9)
    assert found.backends <= split(query, method="anneal").backends * (1 + 1e-6)


def test_a_game_calls_a_model_six_times() -> None:
    lenet, resnet = BatchingProfile.from_line(0.1, 1, 64), BatchingProfile.from_line(1, 5, 64)
    query = Query("game", {"lenet": lenet, "resnet": resnet}, {}, 50, 10, {"lenet": 6})
    assert query.rates == {"lenet": 60, "resnet": 10}
    assert query.stages == (("lenet", "resnet"),)
    assert split(query).budgets == {"lenet": 50, "resnet": 50}
    assert [session.name for session in split(query).sessions()] == ["game/lenet", "game/resnet"]


def test_a_drift_of_alpha_splits_again() -> None:
    old = split(example(0.1), batches=1)
    assert resplit(old, example(0.11)).budgets == old.budgets
    new = resplit(old, example(10))
    assert new.budgets != old.budgets
    assert new.backends < backends_for(example(10), old.budgets, batches=1)


def test_what_is_refused() -> None:
    with pytest.raises(ServingError, match="circle, got one among X, Y"):
        Query("q", {"X": X, "Y": Y}, {("X", "Y"): 1, ("Y", "X"): 1}, 100, 1)
    with pytest.raises(InvalidArgumentError, match=r"calls\['X', 'Y'\] must be .*, got -1"):
        example(-1)
    with pytest.raises(InvalidArgumentError, match="nan"):
        example(math.nan)
    with pytest.raises(ServingError, match="got 'Z'"):
        Query("q", {"X": X}, {("X", "Z"): 1}, 100, 1)
    with pytest.raises(ServingError, match="at least one model"):
        Query("q", {}, {}, 100, 1)
    with pytest.raises(ServingError, match="models without a caller"):
        Query("q", {"X": X, "Y": Y}, {("X", "Y"): 1}, 100, 1, {"Y": 2})
    with pytest.raises(InvalidArgumentError, match=r"rate must be .*, got 0"):
        Query("q", {"X": X}, {}, 100, 0)
    with pytest.raises(InfeasibleError, match=r"must be at least 20, .* got 19"):
        split(example(1, slo=19))
    with pytest.raises(InvalidArgumentError, match="combinations"):
        split(Query("q", {f"m{n}": Y for n in range(4)}, {}, 300, 1), method="brute")
