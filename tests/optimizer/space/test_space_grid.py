"""Grids against brute force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from spaces import LR_BATCH_NET, all_values, brute_force, few, spaces

from optimizer.space import Space, SpaceError, choice, integer, log_integer, log_uniform, uniform


def product(space: Space) -> int:
    total = 1
    for dimension in space.dimensions:
        total *= len(all_values(dimension))
    return total


@few
@given(spaces(continuous=False))
def test_a_grid_is_every_combination_of_live_values_once(space: Space) -> None:
    assume(product(space) <= 200)
    grid = [sorted(space.values(params).items()) for params in space.grid()]
    expected = {str(sorted(values.items())) for values in brute_force(space)}
    assert len(grid) == len(expected)
    assert set(map(str, grid)) == expected


def test_the_last_dimension_varies_fastest_and_branches_are_expanded_where_they_are_chosen() -> None:
    space = Space({"a": [1, 2], "net": choice({"cnn": {"c": [3, 4]}, "linear": {}}), "k": "fixed"})
    assert space.grid() == [
        {"a": 1, "net": "cnn", "c": 3, "k": "fixed"},
        {"a": 1, "net": "cnn", "c": 4, "k": "fixed"},
        {"a": 1, "net": "linear", "k": "fixed"},
        {"a": 2, "net": "cnn", "c": 3, "k": "fixed"},
        {"a": 2, "net": "cnn", "c": 4, "k": "fixed"},
        {"a": 2, "net": "linear", "k": "fixed"},
    ]


def test_a_space_of_constants_has_one_configuration() -> None:
    assert Space({"a": 1, "b": {"c": None}}).grid() == [{"a": 1, "b": {"c": None}}]


@pytest.mark.parametrize(
    ("domain", "points", "expected"),
    [
        (uniform(0, 1), 5, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (uniform(0.1, 0.7), 7, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        (log_uniform(1e-5, 1e-1), 5, [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
        (log_uniform(1e-12, 1e-7), 6, [1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7]),
        (log_integer(32, 256), 4, [32, 64, 128, 256]),
        (log_integer(1, 3), 9, [1, 2, 3]),
        (uniform(0, 1, step=0.4), 9, [0.0, 0.4, 0.8]),  # a step decides, not points
        (integer(0, 7, 3), 9, [0, 3, 6]),
        (integer(-2, 1), None, [-2, -1, 0, 1]),
    ],
    ids=str,
)
def test_the_values_of_a_grid(domain: Any, points: int | None, expected: list[float]) -> None:
    values = [params["x"] for params in Space({"x": domain}).grid(points)]
    assert [(type(value), value) for value in values] == [(type(value), value) for value in expected]


def test_points_by_name() -> None:
    space = Space({"a": uniform(0, 1), "b": {"c": log_uniform(1, 100)}})
    assert len(space.grid({"a": 2, "b.c": 3})) == 6
    with pytest.raises(
        SpaceError, match=r"a: points must be the number of values of uniform\(0\.0, 1\.0\), which has no"
    ):
        space.grid({"b.c": 3})


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (None, r"lr: points must be the number of values of log_uniform\(1e-05, 0\.1\), which has"),
        (1, "points must be at least 2, got 1"),
        (2.0, r"points must be an integer, got 2\.0"),
        (True, "points must be an integer, got True"),
        (10**6, "at most 100,000"),
        ({"lr": 0}, r"points\['lr'\] must be at least 2, got 0"),
        ({"lrr": 3}, r"points must have names of dimensions, got 'lrr'; did you mean 'lr'\?"),
    ],
)
def test_points_that_make_no_grid(points: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        LR_BATCH_NET.grid(points)


@pytest.mark.parametrize(
    ("search_space", "message"),
    [
        ({"x": integer(0, 10**9)}, r"x must have at most 1,000 values in a grid, got integer\(0, 1000000000\) with"),
        (
            {f"x{place}": [0, 1] for place in range(10)},
            "the grid must have at most 1,000 configurations, got more: use fewer values,",
        ),
    ],
)
def test_a_grid_that_nobody_trains_is_refused_before_it_fills_the_memory(
    search_space: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimizer.space._grid._MOST", 1000)
    with pytest.raises(SpaceError, match=message):
        Space(search_space).grid()


def test_what_the_space_refuses_is_left_out() -> None:
    space = Space({"a": [1, 2, 3], "b": [1, 2, 3]}, where=lambda params: params["a"] < params["b"])
    assert space.grid() == [{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 2, "b": 3}]
    with pytest.raises(SpaceError, match="the grid must have a configuration that satisfies the space's where=, got"):
        Space({"a": [1, 2]}, where=lambda params: params["a"] > 2).grid()
