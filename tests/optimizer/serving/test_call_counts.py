"""Who calls whom: what one request's calls and reads say, and what many say together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.serving import BatchingProfile, CallCounts, CallTrace, Query, ServingError, split

if TYPE_CHECKING:
    from collections.abc import Sequence

PROFILE = BatchingProfile.from_line(2, 8, 32)
PROFILES = dict.fromkeys("abcd", PROFILE)


def traced(steps: Sequence[str]) -> CallTrace:
    """``"a"`` calls a model, ``"a!"`` reads the last call of it."""
    trace, last = CallTrace(), {}
    for step in steps:
        if step.endswith("!"):
            trace.read(last[step[0]])
        else:
            last[step] = trace.call(step)
    return trace


def counted(*requests: str) -> CallCounts:
    counts = CallCounts()
    for request in requests:
        counts.add(traced(request.split()))
    return counts


def query(counts: CallCounts, slo: float = 400, rate: float = 10) -> Query:
    return counts.query("q", PROFILES, slo, rate)


def test_calls_that_nobody_read_before_are_one_stage() -> None:
    """Figure 3.8: LeNet and ResNet of one frame."""
    found = query(counted("a b a! b!"))
    assert found.stages == (("a", "b"),)
    assert not found.calls
    assert found.entries == {"a": 1, "b": 1}


def test_calls_after_a_result_depend_on_it() -> None:
    """Figure 3.9: for each object that SSD finds, a face or a car."""
    found = query(counted("a a! b c c b! c!", "a a! c c!"))
    assert found.calls == {("a", "b"): 0.5, ("a", "c"): 1.5}
    assert found.stages == (("a",), ("b", "c"))


def test_a_call_depends_on_the_last_of_a_chain_alone() -> None:
    assert query(counted("a a! b b! c c!")).calls == {("a", "b"): 1, ("b", "c"): 1}


def test_a_call_after_two_depends_on_both_and_is_counted_once() -> None:
    found = query(counted("a b a! b! c c c!"))
    assert found.calls == {("a", "c"): 1, ("b", "c"): 1}
    assert found.rates["c"] == 20
    budgets = split(found).budgets
    assert all(budgets[one] + budgets["c"] <= 400 * (1 + 1e-9) for one in "ab")


def test_a_model_that_is_called_again_is_another_stage() -> None:
    counts = counted("a a! a a!", "a a!")
    found = query(counts)
    assert found.calls == {("a#1", "a#2"): 0.5}
    assert counts.repeated == 2
    budgets = split(found).budgets
    assert counts.by_model(budgets) == {"a": [budgets["a#1"], budgets["a#2"]]}


def test_a_loop_that_makes_no_call_calls_seldom() -> None:
    found = query(counted("a a! b b!", "a a!", "a a!", "a a!"))
    assert found.calls == {("a", "b"): 0.25}


def test_nothing_called_is_no_query() -> None:
    with pytest.raises(ServingError, match="at least one model"):
        query(counted(""))


def test_older_requests_fade() -> None:
    counts = counted("a a! b b!").faded(0.5)
    counts.add(traced(["a", "a!", "b", "b", "b", "b!"]))
    assert query(counts).calls == {("a", "b"): pytest.approx((0.5 + 3) / 1.5)}


def test_reserves_are_the_longest_path_behind_a_model() -> None:
    made = split(query(counted("a a! b c b! c! d d!")))
    assert made.reserves["d"] == 0
    assert made.reserves["b"] == pytest.approx(made.budgets["d"])
    longest = max(made.budgets["b"], made.budgets["c"]) + made.budgets["d"]
    assert made.reserves["a"] == pytest.approx(longest)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", "a!", "b!", "c!"]), max_size=12), min_size=1, max_size=6))
def test_rates_are_the_calls_that_were_counted(requests: list[list[str]]) -> None:
    """Whatever code does: along all paths as many calls arrive as were made, and there is no circle."""
    counts, made = CallCounts(), dict.fromkeys("abc", 0)
    for steps in requests:
        called: set[str] = set()
        kept = []
        for step in steps:
            if step.endswith("!") and step[0] not in called:
                continue
            called.add(step[0])
            made[step[0]] += not step.endswith("!")
            kept.append(step)
        counts.add(traced(kept))
    if not counts.models:
        return
    rates = counts.by_model(query(counts, rate=len(requests)).rates)
    for model, calls in made.items():
        assert sum(rates.get(model, [])) == pytest.approx(calls)
