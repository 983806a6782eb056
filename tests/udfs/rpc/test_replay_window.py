"""The replay window: every number once, in any order, none that is too old."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from udfs.rpc import ReplayWindow


@given(
    size=st.integers(1, 20),
    numbers=st.lists(st.one_of(st.integers(0, 40), st.integers(0, 2**64 - 1)), max_size=60),
)
def test_a_number_is_accepted_once_and_never_when_it_is_too_old(size: int, numbers: list[int]) -> None:
    window, accepted = ReplayWindow(size), set[int]()
    for number in numbers:
        highest = max(accepted, default=0)
        wanted = number > 0 and number not in accepted and number > highest - size
        assert window.accept(number) == wanted
        if wanted:
            accepted.add(number)


@given(st.permutations(range(1, 65)))
def test_numbers_that_overtake_each_other_within_the_window_are_all_accepted(numbers: list[int]) -> None:
    window = ReplayWindow(64)
    assert all(map(window.accept, numbers))
    assert not any(map(window.accept, numbers))


def test_the_edge_of_the_window() -> None:
    window = ReplayWindow(4)
    assert window.accept(10)
    assert not window.accept(6)
    assert window.accept(7)
    assert window.accept(11)
    assert not window.accept(7)
