from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.arrow import TensorError, from_binary, nbytes, to_binary, to_lists
from udfs.arrow import _tensors as tensors
from udfs.handlers import TensorSpec

SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
DTYPES = st.sampled_from(["float32", "float64", "float16", "int64", "uint8", "bool"])


def some(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).integers(0, 200, shape).astype(dtype)


@given(SHAPES, DTYPES, st.lists(st.booleans(), max_size=9))
def test_what_is_written_is_read(shape: tuple[int, ...], dtype: str, valid: list[bool]) -> None:
    spec = TensorSpec(shape, dtype)
    rows = some((sum(valid), *shape), dtype)
    column = to_binary(rows, np.array(valid, np.bool_))
    column.validate(full=True)
    assert [value is not None for value in column.to_pylist()] == valid
    read = from_binary(column.drop_null(), spec)
    assert read.dtype == rows.dtype
    np.testing.assert_array_equal(read, rows)
    packed = iter([row.tobytes() for row in rows])
    assert column.to_pylist() == [next(packed) if good else None for good in valid]


@given(st.integers(0, 6), st.integers(0, 6))
def test_slices_are_read_from_where_they_begin(start: int, length: int) -> None:
    rows = some((6, 2, 3))
    column = to_binary(rows, np.ones(6, np.bool_)).slice(start, length)
    np.testing.assert_array_equal(from_binary(column, TensorSpec((2, 3))), rows[start : start + length])


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_reading_copies_nothing(kind: pa.DataType) -> None:
    column = pa.array([row.tobytes() for row in some((3, 2))], kind)
    read = from_binary(column, TensorSpec((2,)))
    assert read.__array_interface__["data"][0] == column.buffers()[2].address
    assert not read.flags.writeable
    np.testing.assert_array_equal(read, some((3, 2)))


def test_writing_copies_nothing_that_is_in_c_order() -> None:
    rows = some((3, 2))
    assert to_binary(rows, np.ones(3, np.bool_)).buffers()[2].address == rows.__array_interface__["data"][0]


def test_other_memory_layouts_are_written_in_c_order() -> None:
    rows = some((2, 3, 4, 5))
    turned = np.ascontiguousarray(rows.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert to_binary(turned, np.ones(2, np.bool_)).equals(to_binary(rows, np.ones(2, np.bool_)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([b"\0" * 8, None], "1 of 2 tensors are null"),
        ([b"\0" * 8, b"\0" * 7], r"takes 8 bytes; found \[7\]"),
        ([b"\0" * 9, b"\0" * 7], "found"),
        ([b""], "found"),
    ],
)
def test_wrong_bytes_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        from_binary(pa.array(values, pa.binary()), TensorSpec((2,)))


def test_a_null_that_the_slice_leaves_out_does_not_matter() -> None:
    column = pa.array([None, b"\0" * 8, b"\1" * 8], pa.binary()).slice(1)
    assert from_binary(column, TensorSpec((2,))).shape == (2, 2)


def test_rows_and_flags_have_to_agree() -> None:
    with pytest.raises(ValueError, match="2 tensors for 1 valid row"):
        to_binary(some((2, 3)), np.array([True, False]))
    with pytest.raises(ValueError, match="2 tensors for 3 valid rows"):
        to_lists(some((2, 3)), np.ones(3, np.bool_))


def test_more_than_arrow_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_LARGEST", 23)
    with pytest.raises(TensorError, match=r"2 records of 12 bytes.*lower batchSize"):
        to_binary(some((2, 3)), np.ones(2, np.bool_))


def test_nothing_is_written_and_read() -> None:
    column = to_binary(np.empty((0, 0), np.float32), np.zeros(2, np.bool_))
    assert column.to_pylist() == [None, None]
    assert from_binary(column.slice(0, 0), TensorSpec((2, 3))).shape == (0, 2, 3)
    assert to_lists(np.empty((0, 0), np.float32), np.zeros(2, np.bool_)).to_pylist() == [None, None]


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 5))
def test_lists(valid: list[bool], length: int) -> None:
    rows = some((sum(valid), length))
    column = to_lists(rows, np.array(valid, np.bool_))
    column.validate(full=True)
    assert column.type == pa.list_(pa.float32())
    iterator = iter(rows.tolist())
    assert column.to_pylist() == [next(iterator) if good else None for good in valid]


def test_size_of_a_record() -> None:
    assert (nbytes(TensorSpec((3, 224, 224))), nbytes(TensorSpec((), "float64"))) == (602112, 8)
