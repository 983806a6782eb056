"""Codes, replacements and leaves as tensors against loops over the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.compiling import INPUT, Builder, CodeLookup, Output, ProgramError, Replace
from udfs.compiling import from_bytes, to_bytes
from udfs.compiling.torch import Engine

NUMBERS = [-math.inf, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.7, 3.0, 1e300, math.inf, math.nan]
ROUNDINGS = {"none": lambda x: x, "down": math.floor, "toward zero": math.trunc}
KEYS = st.dictionaries(st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, 0.5]), st.sampled_from([0.0, 1.0, 5.0]), max_size=4)


def looked_up(number: float, table: dict[float, float], other: float, missing: float, rounding: str) -> float:
    if math.isnan(number):
        return missing
    whole = number if math.isinf(number) else ROUNDINGS[rounding](number)
    return table.get(whole, other)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), KEYS), min_size=1, max_size=5), st.sampled_from(sorted(ROUNDINGS)))
def test_a_look_up_is_a_dictionary_for_each_result(
    results: list[tuple[int, dict[float, float]]], rounding: str
) -> None:
    others = [math.nan if place % 2 else 9.0 for place in range(len(results))]
    missing = [7.0 if place % 3 else math.nan for place in range(len(results))]
    operator = CodeLookup.of_tables(
        [column for column, _ in results], [table for _, table in results], others, missing=missing, rounding=rounding
    )
    build = Builder(2)
    program = from_bytes(to_bytes(build.program({"transform": Output(build.add(operator, INPUT))})))
    rows = np.array([[one, NUMBERS[-1 - place]] for place, one in enumerate(NUMBERS)])
    expected = [
        [
            looked_up(row[column], table, other, absent, rounding)
            for (column, table), other, absent in zip(results, others, missing, strict=True)
        ]
        for row in rows.tolist()
    ]
    np.testing.assert_array_equal(Engine(program).run(rows).outputs["transform"], expected)


def test_a_replacement_includes_its_bounds_and_keeps_nan() -> None:
    operator = Replace(np.array([-1.0, 9.0]), np.array([1.0, -9.0]), np.array([np.nan, 0.0]))
    build = Builder(2)
    program = build.program({"transform": Output(build.add(operator, INPUT))})
    rows = np.array([[-1.0, 1.0], [1.0, np.nan], [np.nextafter(1, 2), 3.0], [np.nan, np.inf]])
    expected = [[np.nan, 1.0], [np.nan, np.nan], [np.nextafter(1, 2), 3.0], [np.nan, np.inf]]
    np.testing.assert_array_equal(Engine(program).run(rows).outputs["transform"], expected)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ProgramError, match="rounding of CodeLookup must be one of"):
        CodeLookup.of_tables([0], [{}], [0.0], rounding="up")
    with pytest.raises(ProgramError, match=r"looks at columns \[3\] of 2"):
        Builder(2).add(CodeLookup.of_tables([3], [{}], [0.0]), INPUT)
    with pytest.raises(ProgramError, match="must have 1 columns, got 2"):
        Builder(2).add(Replace(np.zeros(1), np.zeros(1), np.zeros(1)), INPUT)
