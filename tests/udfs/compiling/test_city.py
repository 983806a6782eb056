"""CityHash64 against what CatBoost writes, and its categories as codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from optimizer.compiling import Builder, Cast, Encode, Output, ProgramError
from optimizer.errors import ColumnError
from udfs.compiling._city import city_hash
from udfs.compiling._column_reader import ColumnReader

# Of every way in which a length is hashed: what a model of CatBoost 1.2.10 has for the category.
WRITTEN = {
    "a": -805065478,
    "abc": 978243121,
    "abcd": 345588365,
    "a word": 1987917065,
    "sixteen and less": 1786887240,
    "of seventeen bytes": 1711011955,
    "from 33 to 64 bytes, as this one is": 1203264086,
    "beyond 64 bytes: the last and longest way of the algorithm, by blocks of 64 bytes": -527635835,
}


def half(text: str) -> int:
    """The lower half, with a sign, as CatBoost writes it."""
    return int(np.uint32(city_hash(text.encode()) & 0xFFFFFFFF).astype(np.int32))


@pytest.mark.parametrize("text", WRITTEN)
def test_hashes_are_those_that_catboost_writes(text: str) -> None:
    assert half(text) == WRITTEN[text]


def codes(column: Any, *entries: Any) -> list[int]:
    build = Builder(1)
    encode = build.add(Encode(np.zeros(1, np.int64), ((*entries, None),), hashing="CatBoost"))
    program = build.program({"transform": Output(build.add(Cast("float64"), encode))})
    return [int(one) for one in ColumnReader(program).read([column]).given[0][:, 0]]


def test_texts_and_whole_numbers_are_known_by_their_hashes() -> None:
    known = half("-3"), half("a"), half("1")
    unknown, missing = 4, 3
    assert codes(pa.array(["a", None, "b", "-3", "1"]), *known) == [1, missing, unknown, 0, 2]
    assert codes(pa.array(["a", None, "a"]).dictionary_encode(), *known) == [1, missing, 1]
    assert codes(pa.chunked_array([pa.array(["a"]), pa.array(["1"])]), *known) == [1, 2]
    assert codes(pa.array([-3, 1, None, 2], pa.int16()), *known) == [0, 2, missing, unknown]
    assert codes(pa.array([True, False]), *known) == [2, unknown]
    assert codes(pa.nulls(2), *known) == [missing, missing]
    assert codes(np.array([-3, 1, 2]), *known) == [0, 2, unknown]
    assert codes(np.array(["a", "b"]), *known) == [1, unknown]
    assert codes(np.array(["a", -3, None, np.nan, True, b"1"], object), *known) == [1, 0, missing, missing, 2, 2]
    assert codes(np.array(["\ud800"], object), *known) == [unknown]  # half of a pair, which no text of Arrow's has
    assert codes(pa.array([], pa.string()), *known) == []


@pytest.mark.parametrize("column", [np.array([1.0]), pa.array([1.5]), np.array(["a", 1.0], object)], ids=str)
def test_fractions_are_no_categories(column: Any) -> None:
    with pytest.raises(ColumnError, match=r"column 0 has .* of type float: categories of CatBoost are texts or whole"):
        codes(column, 1)


def test_another_hash_is_refused() -> None:
    with pytest.raises(ProgramError, match="hashing"):
        Encode(np.zeros(1, np.int64), ((1,),), hashing="murmur")
