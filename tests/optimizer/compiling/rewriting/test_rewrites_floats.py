"""Bisection over the floats: the ends that it finds, and what is said of a rewrite."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.compiling import INPUT, Arithmetic, Builder, Output, ProgramError, Select, rewrite
from optimizer.compiling.rewriting._floats import greatest, least


@given(st.floats(allow_nan=False), st.sampled_from(["float32", "float64"]))
def test_the_end_of_an_order_is_found(end: float, dtype: str) -> None:
    with np.errstate(over="ignore"):
        limit = np.array([end]).astype(dtype)
    np.testing.assert_array_equal(greatest(lambda x: x <= limit, 1, dtype), limit)
    np.testing.assert_array_equal(least(lambda x: x >= limit, 1, dtype), limit)


@given(st.floats(1e-30, 1e30), st.floats(-1e30, 1e30), st.sampled_from([np.float32, np.float64]))
def test_the_next_float_is_beyond_the_end(scale: float, limit: float, kind: type) -> None:
    def scaled(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (x / np.float64(scale)).astype(kind)

    end = greatest(lambda x: scaled(x) <= limit, 1, np.dtype(kind).name)
    assert end.dtype == kind
    with np.errstate(over="ignore"):
        beyond = np.nextafter(end, kind(np.inf))
    assert scaled(end) <= limit
    assert end == np.inf or scaled(beyond) > limit


def test_nothing_is_accepted() -> None:
    assert np.isnan(greatest(lambda x: x < -np.inf, 1, "float64"))


def test_a_rewrite_says_what_was_done_and_leaves_the_original() -> None:
    build = Builder(3, ["a", "b", "c"])
    scaled = build.add(Arithmetic("divide", np.array([2.0, 4.0, 8.0])), INPUT)
    program = build.program({"transform": Output(build.add(Select(np.array([2])), scaled))})
    before = program.digest
    done = rewrite(program, "float64")
    assert program.digest == before
    assert program.numeric == {0, 1, 2}
    assert done.program.numeric == {2}
    assert "input is read without a, b" in done.explain()
    assert rewrite(done.program, "float64").applied == ()


def test_a_table_of_whole_numbers_is_refused() -> None:
    build = Builder(1)
    program = build.program({"transform": Output(build.add(Arithmetic("add", np.ones(1)), INPUT))})
    with pytest.raises(ProgramError, match="int64"):
        rewrite(program, "int64")
