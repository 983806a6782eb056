"""Seconds and money of a run."""

from __future__ import annotations

from typing import Any

import pytest

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import Budget


@pytest.mark.parametrize(
    ("budget", "seconds", "worker_seconds", "reason"),
    [
        (Budget(), 1e9, 1e9, ""),
        (Budget(max_seconds=10), 10, 40, ""),
        (Budget(max_seconds=10), 10.5, 0, "the 10 seconds are over"),
        (Budget(price=2.0), 1e9, 1e9, ""),
        (Budget(price=2.0, max_cost=3.0), 1e9, 5399, ""),
        (Budget(price=2.0, max_cost=3.0), 1, 5400, "the budget of 3 is spent: 1.5 worker-hours at 2"),
        (Budget(max_seconds=9, price=2.0, max_cost=3.0), 10, 5400, "the 9 seconds are over"),
    ],
    ids=str,
)
def test_it_says_which_limit_is_reached(budget: Budget, seconds: float, worker_seconds: float, reason: str) -> None:
    assert budget.over(seconds, worker_seconds) == reason


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_seconds": 0}, "max_seconds must be a positive number or None, got 0"),
        ({"price": -1.0}, "price must be a positive number or None, got -1.0"),
        ({"price": "2"}, "price must be a positive number or None, got '2'"),
        ({"price": 1, "max_cost": float("nan")}, "max_cost must be a positive number or None, got nan"),
        ({"max_cost": 2}, "max_cost must come with price"),
    ],
    ids=["seconds", "negative", "text", "nan", "no price"],
)
def test_what_is_no_limit(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        Budget(**settings)
