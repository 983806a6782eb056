"""Shares of variants, against brute force and a linear program."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from optimizer.errors import InvalidArgumentError
from optimizer.serving import (
    Backend,
    BatchingProfile,
    DailyBudget,
    Ladder,
    Session,
    ladder_shares,
    meets_deadlines,
    plan,
    variant_shares,
)

FULL = BatchingProfile.from_line(20.0, 10.0, 32)
TINY = BatchingProfile.from_line(4.0, 2.0, 32)
LADDER = Ladder(("full", "tiny"), (0.95, 0.85), (FULL, TINY))

variants = st.lists(st.tuples(st.integers(1, 20), st.integers(50, 100)), min_size=1, max_size=4)
cases = st.lists(st.tuples(st.integers(1, 10), variants, st.sampled_from([0.5, 3.0, 1e9])), min_size=1, max_size=3)


def correct_answers(rates: list[float], accuracies: list[tuple[float, ...]], shares: list[tuple[float, ...]]) -> float:
    return sum(rate * float(np.dot(values, part)) for rate, values, part in zip(rates, accuracies, shares, strict=True))


@given(cases, st.floats(0.1, 10.0))
@settings(max_examples=200, deadline=None)
def test_shares_are_the_optimum_of_the_linear_program(
    drawn: list[tuple[int, list[tuple[int, int]], float]], capacity: float
) -> None:
    rates = [float(rate) for rate, _, _ in drawn]
    seconds = [tuple(sorted((cost / 100 for cost, _ in each), reverse=True)) for _, each, _ in drawn]
    accuracies = [tuple(value / 100 for _, value in each) for _, each, _ in drawn]
    limits = [limit for _, _, limit in drawn]
    shares = variant_shares(rates, seconds, accuracies, capacity, limits)
    used = [rate * float(np.dot(costs, part)) for rate, costs, part in zip(rates, seconds, shares, strict=True)]
    cheapest = [rate * costs[-1] for rate, costs in zip(rates, seconds, strict=True)]
    assert all(sum(part) == pytest.approx(1) and min(part) >= 0 for part in shares)
    gain = [rate * value for rate, values in zip(rates, accuracies, strict=True) for value in values]
    cost = [rate * value for rate, costs in zip(rates, seconds, strict=True) for value in costs]
    owner = np.repeat(np.arange(len(rates)), [len(each) for each in seconds])
    # What the cheapest variants need is used even where it does not fit.
    most = [max(limit, least) for limit, least in zip(limits, cheapest, strict=True)]
    above = np.vstack([cost, *(np.where(owner == place, cost, 0.0) for place in range(len(rates)))])
    equal = np.vstack([owner == place for place in range(len(rates))]).astype(float)
    best = linprog(
        -np.array(gain), above, [max(capacity, sum(cheapest)), *most], equal, np.ones(len(rates)), bounds=(0, 1)
    )
    assert sum(used) <= max(capacity, sum(cheapest)) + 1e-6
    if sum(cheapest) <= capacity:
        assert correct_answers(rates, accuracies, shares) == pytest.approx(-best.fun, abs=1e-6)


def test_shares_against_all_multiples_of_a_tenth() -> None:
    rates, capacity = [10.0, 20.0], 1.0
    seconds, accuracies = [(0.08, 0.04, 0.01), (0.05, 0.01)], [(0.95, 0.94, 0.7), (0.9, 0.8)]
    tenths = [part / 10 for part in range(11)]
    triples = [(a, b, 1 - a - b) for a, b in itertools.product(tenths, tenths) if a + b <= 1]
    best = max(
        correct_answers(rates, accuracies, [first, (a, 1 - a)])
        for first in triples
        for a in tenths
        if 10 * np.dot(seconds[0], first) + 20 * np.dot(seconds[1], (a, 1 - a)) <= capacity + 1e-9
    )
    shares = variant_shares(rates, seconds, accuracies, capacity)
    assert correct_answers(rates, accuracies, shares) >= best - 1e-9


def test_low_rates_are_planned_for_the_most_accurate_variant_and_high_ones_for_a_mixture() -> None:
    session, backends = Session("scene", FULL, 500.0, 1.0), [Backend("a")]
    plain = Session("plain", TINY, 500.0, 20.0)
    low = ladder_shares([session.at_rate(5.0), plain], {"scene": LADDER}, backends)
    assert low == {"scene": (1.0, 0.0)}
    high = ladder_shares([session.at_rate(2 * session.peak_rate)], {"scene": LADDER}, backends)["scene"]
    assert 0.2 < high[0] < 0.5
    mixed = LADDER.mixed(session.at_rate(2 * session.peak_rate), high)
    assert not plan([mixed], backends).violations()
    assert float(mixed.profile.latencies[8]) == pytest.approx(high[0] * 170 + high[1] * 34)
    beyond = ladder_shares([session.at_rate(1e4)], {"scene": LADDER}, backends)
    assert beyond == {"scene": (0.0, 1.0)}


def test_shares_stay_while_the_rate_changes_little() -> None:
    session, backends = Session("scene", FULL, 500.0, 1.0), [Backend("a")]
    rate = 2 * session.peak_rate

    def shares(factor: float, old: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        return ladder_shares([session.at_rate(factor * rate)], {"scene": LADDER}, backends, None, old)

    first = shares(1.0, {})
    assert shares(0.95, first) == first
    assert shares(1.05, first) == first
    assert shares(1.3, first)["scene"][0] < first["scene"][0]
    assert shares(0.1, first)["scene"] == (1.0, 0.0)


def test_a_budget_limits_the_share_of_the_full_variant() -> None:
    session, backends = Session("scene", FULL, 500.0, 10.0), [Backend("a")]
    tiny, full = (rate * 10.0 for rate in reversed(LADDER.seconds(session)))
    budget = DailyBudget(1.0, dollars_per_hour=1.0)
    assert budget.pace(0.0) == pytest.approx(1 / 24)
    free = ladder_shares([session], {"scene": LADDER}, backends, {"scene": full * 1.3})
    assert free == {"scene": (1.0, 0.0)}
    half = ladder_shares([session], {"scene": LADDER}, backends, {"scene": (tiny + full) / 2})["scene"]
    assert 0.3 < half[0] < 0.5
    assert ladder_shares([session], {"scene": LADDER}, backends, {"scene": 0.0}) == {"scene": (0.0, 1.0)}


def test_a_day_of_traffic_keeps_its_budget() -> None:
    """Each epoch spends what its shares cost; half of the full variant's cost is allowed."""
    session, backends = Session("scene", FULL, 500.0, 10.0), [Backend("a")]
    tiny, full = reversed(LADDER.seconds(session))
    rates = np.random.default_rng(0).uniform(2.0, 18.0, 2 * 96)
    allowed_s = float(rates.mean()) * 86_400 * (tiny + full) / 2
    budget = DailyBudget(allowed_s / 3600, dollars_per_hour=1.0)
    correct = 0.0
    for number, rate in enumerate(rates):
        now = 900.0 * number
        shares = ladder_shares([session.at_rate(rate)], {"scene": LADDER}, backends, {"scene": budget.pace(now)})
        cost = 900.0 * rate * float(np.dot(shares["scene"], (full, tiny)))
        budget.spend(cost, now + 899.0)
        correct += rate * LADDER.accuracy(shares["scene"]) / rates.sum()
        assert budget.spent <= budget.dollars * (1 + 1e-9)
    assert budget.spent > 0.9 * budget.dollars
    assert 0.88 < correct < 0.91


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_queue_is_in_time_if_each_of_its_batches_is(batch: int) -> None:
    latencies = [0.0, 3.0, 4.0, 5.0]
    for deadlines in itertools.combinations_with_replacement([4.0, 7.0, 9.0, 12.0], 4):
        now, late = 1.0, False
        for first in range(0, 4, batch):
            members = deadlines[first : first + batch]
            now += 0.5 + latencies[len(members)]
            late = late or any(now > deadline for deadline in members)
        assert meets_deadlines(deadlines, 1.0, latencies, batch, 0.5) == (not late)


def test_ladders_and_budgets_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="same length"):
        Ladder(("full",), (0.9, 0.8), (FULL, TINY))
    with pytest.raises(InvalidArgumentError, match="dollars must"):
        DailyBudget(0.0, 1.0)
