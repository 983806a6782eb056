"""Random configurations: within their domains, and a function of seed, number and path alone."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from spaces import LR_BATCH_NET, belongs, few, live, search_spaces, spaces

from optimizer.space import Space, SpaceError, choice, integer, log_integer, log_uniform, uniform

seeds = st.integers(-(2**53), 2**53)

# Another value means that resumed runs and published seeds no longer give what they gave.
GOLDEN = [
    {"lr": 5.3015238226698405e-05, "batch": 128, "net": "lstm", "units": 67},
    {"lr": 0.012945359569555647, "batch": 128, "net": "cnn", "channels": 32},
    {"lr": 0.0014017456053829506, "batch": 32, "net": "lstm", "units": 127},
]


def test_the_stream_is_that_of_the_first_release() -> None:
    assert [LR_BATCH_NET.sample(7, number) for number in range(3)] == GOLDEN
    others = Space({"a": uniform(-1, 3), "b": integer(0, 10, 5), "c": uniform(0, 1, step=0.1), "é": integer(1, 10**9)})
    assert others.sample(2**53, 10**6) == {
        "a": -0.9615795070483721,
        "b": 0,
        "c": 0.1,
        "é": 350952057,
    }


def test_another_process_draws_the_same() -> None:
    """Python's own hash of a string differs from one process to the next."""
    code = "from spaces import LR_BATCH_NET as space; print([space.sample(7, number) for number in range(3)])"
    path = f"{ROOT}:{ROOT / 'tests' / 'support'}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path, "PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(GOLDEN)


@few
@given(spaces(), seeds, st.integers(0, 10**6))
def test_values_are_plain_and_belong_and_conditions_hold(space: Space, seed: int, number: int) -> None:
    params = space.sample(seed, number)
    assert json.loads(json.dumps(params)) == params
    space.check(params)
    values = space.values(params)
    for dimension in space.dimensions:
        if dimension.path in values:
            assert belongs(dimension, values[dimension.path]), dimension
        # What is dead has a value that the conditions of others must not match.
        everywhere = {other.path: values.get(other.path, math.nan) for other in space.dimensions}
        assert live(dimension, everywhere, space) == (dimension.path in values)


@few
@given(spaces(), seeds)
def test_the_first_of_more_are_the_same_in_any_order(space: Space, seed: int) -> None:
    backwards = [space.sample(seed, number) for number in reversed(range(6))]
    assert [space.sample(seed, number) for number in range(3)] == backwards[::-1][:3]


@few
@given(search_spaces(), seeds, st.integers(0, 100))
def test_a_further_dimension_leaves_the_others(search_space: dict[str, Any], seed: int, number: int) -> None:
    more = Space({"before": [1, 2], **search_space, "after": choice({"x": {"y": uniform(0, 1)}, "z": {}})})
    params = more.sample(seed, number)
    own = Space(search_space).sample(seed, number)
    assert {name: params[name] for name in own} == own
    assert set(params) - set(own) <= {"before", "after", "y"}


def test_streams_of_a_seed_a_number_and_a_name_are_their_own() -> None:
    space = Space({"a": uniform(0, 1), "b": uniform(0, 1)})
    drawn = [list(space.sample(seed, number).values()) for seed in range(30) for number in range(30)]
    assert len(set(np.ravel(drawn))) == 1800
    assert abs(np.corrcoef(np.array(drawn).T)[0, 1]) < 0.1


# The 0.999 quantiles of chi square with 9 and with 3 degrees of freedom.
CHI_9, CHI_3 = 27.88, 16.27


def chi_square(counts: list[int]) -> float:
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 / mean for count in counts)


@pytest.mark.parametrize(
    ("domain", "bucket"),
    [
        (uniform(-2, 8), lambda value: int(value + 2)),
        (log_uniform(1e-5, 1e5), lambda value: math.floor(math.log10(value))),
        (integer(10, 19), int),
        (integer(0, 45, 5), int),
        (uniform(0, 0.9, step=0.1), lambda value: round(value * 10)),
        (choice(list("abcdefghij")), str),
    ],
)
def test_every_tenth_of_a_domain_is_as_likely(domain: Any, bucket: Any) -> None:
    space = Space({"x": domain})
    counts = Counter(bucket(space.sample(3, number)["x"]) for number in range(4000))
    assert len(counts) == 10
    assert chi_square(list(counts.values())) < CHI_9


def test_integers_on_a_logarithmic_scale_are_as_likely_as_they_are_wide() -> None:
    space = Space({"x": log_integer(1, 4)})
    counts = Counter(space.sample(3, number)["x"] for number in range(4000))
    width = {x: math.log((x + 0.5) / (x - 0.5)) / math.log(4.5 / 0.5) for x in (1, 2, 3, 4)}
    assert sum((counts[x] - 4000 * width[x]) ** 2 / (4000 * width[x]) for x in width) < CHI_3


def test_steps_are_decimal() -> None:
    space = Space({"x": uniform(0, 1, step=0.1)})
    drawn = {space.sample(1, number)["x"] for number in range(200)}
    assert sorted(drawn) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


@pytest.mark.parametrize("domain", [uniform(-1.7e308, 1.7e308), log_uniform(5e-324, 1.7e308), uniform(1, 1 + 2**-52)])
def test_extreme_bounds_overflow_nowhere(domain: Any) -> None:
    space = Space({"x": domain})
    assert all(domain.low <= space.sample(1, number)["x"] <= domain.high for number in range(100))


def test_what_the_space_refuses_is_drawn_anew() -> None:
    space = Space({"a": integer(0, 9), "b": integer(0, 9)}, where=lambda params: params["a"] < params["b"])
    free = Space({"a": integer(0, 9), "b": integer(0, 9)})
    drawn = [space.sample(1, number) for number in range(200)]
    assert all(params["a"] < params["b"] for params in drawn)
    assert len({str(params) for params in drawn}) > 35
    allowed = [n for n in range(200) if (p := free.sample(1, n))["a"] < p["b"]]
    assert all(drawn[number] == free.sample(1, number) for number in allowed)


def test_what_a_condition_does_to_its_argument_changes_no_configuration() -> None:
    def emptied(params: dict[str, Any]) -> bool:
        params["net"].clear()
        params.clear()
        return True

    search_space = {"net": {"width": integer(1, 100)}}
    assert Space(search_space, where=emptied).sample(7, 0) == Space(search_space).sample(7, 0)


def test_a_condition_that_nothing_satisfies_ends_with_an_error() -> None:
    space = Space({"a": integer(0, 9)}, where=lambda params: params["a"] > 9)
    with pytest.raises(SpaceError, match="one of 1000 configurations must satisfy the space's where=, got none, the"):
        space.sample(1, 0)


@pytest.mark.parametrize("seed", [1.0, "1", True, None, 2**60, float("nan")])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(SpaceError, match="seed"):
        LR_BATCH_NET.sample(seed, 0)


@pytest.mark.parametrize("number", [-1, 0.5, False])
def test_a_number_counts_from_0(number: Any) -> None:
    with pytest.raises(SpaceError, match="number"):
        LR_BATCH_NET.sample(0, number)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    assert LR_BATCH_NET.sample(np.int64(7), np.int32(1)) == GOLDEN[1]
