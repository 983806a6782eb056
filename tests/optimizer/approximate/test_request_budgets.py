"""Budget per request: the golden value of Algorithm 4.1, and its floors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.approximate import request_budgets
from optimizer.errors import InvalidArgumentError

rates = st.lists(st.floats(1e-4, 10), min_size=1, max_size=12)


@given(st.floats(0, 1e6), st.floats(1, 1e5), rates)
def test_the_budgets_of_all_requests_add_up(budget: float, seconds: float, frequencies: list[float]) -> None:
    """The sum of e_i f_i T is e; the published code gives each task e / (T f), so that n tasks spend n budgets."""
    f = np.array(frequencies)
    budgets = request_budgets(budget, seconds, f)
    assert float(np.sum(budgets * f * seconds)) == pytest.approx(budget)
    assert budgets == pytest.approx(budget * f / (seconds * np.sum(f**2)))


@given(st.floats(0, 1e3), rates, st.data())
def test_floors_come_first_and_the_sum_stays(budget: float, frequencies: list[float], data: st.DataObject) -> None:
    f, seconds = np.array(frequencies), 100.0
    floors = np.array(data.draw(st.lists(st.floats(0, 5), min_size=len(f), max_size=len(f))))
    budgets = request_budgets(budget, seconds, f, floors)
    assert float(np.sum(budgets * f * seconds)) == pytest.approx(budget if budget or floors.any() else 0, abs=1e-6)
    if np.sum(floors * f * seconds) <= budget:
        assert (budgets >= floors - 1e-9).all()
        lifted = budgets > floors + 1e-6
        assert np.ptp((budgets / f)[lifted]) < 1e-3 * max(1.0, float((budgets / f).max())) if lifted.any() else True
    else:
        # Tasks with lower floors are paid in full before those with higher ones.
        assert (budgets <= floors + 1e-9).all()
        paid = np.isclose(budgets, floors, rtol=1e-6, atol=1e-9)
        assert all(floors[i] <= floors[j] + 1e-9 for i in np.flatnonzero(paid) for j in np.flatnonzero(~paid))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 10, [1]), "budget must be a number of at least 0, got -1"),
        ((1, 0, [1]), "seconds must be a number above 0, got 0"),
        ((1, 10, []), "frequencies must be at least one number above 0"),
        ((1, 10, [0.0]), "frequencies must be at least one number above 0"),
        ((1, 10, [1.0], -1), "floors must be finite numbers of at least 0"),
    ],
)
def test_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        request_budgets(*arguments)  # type: ignore[arg-type]
