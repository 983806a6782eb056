from __future__ import annotations

from optimizer.space import Space, integer


def test_the_first_of_more_are_the_same() -> None:
    space = Space({"width": integer(1, 100)})
    assert [space.sample(7, number) for number in range(3)] == [space.sample(7, number) for number in range(6)][:3]
