from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.arrow import rebatch

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("x", pa.int64()), ("text", pa.string()), ("tensor", pa.list_(pa.float32()))])


def source(lengths: list[int], *, offset: int = 0) -> list[pa.RecordBatch]:
    found, start = [], 0
    for length in lengths:
        rows = [
            {"x": i, "text": f"row {i}", "tensor": [float(i)] * (i % 3)} for i in range(start - offset, start + length)
        ]
        found.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA).slice(offset))
        start += length
    return found


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 12), st.integers(0, 3))
def test_rows_in_order_in_full_batches(lengths: list[int], size: int, offset: int) -> None:
    batches = source(lengths, offset=offset)
    found = list(rebatch(batches, size))
    total = sum(lengths)
    assert [batch.num_rows for batch in found] == [size] * (total // size) + [total % size] * (total % size > 0)
    assert all(batch.schema == SCHEMA for batch in found)
    assert [row for batch in found for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]


def test_a_batch_is_handed_on_as_soon_as_it_is_full() -> None:
    read = []

    def watched() -> Iterator[pa.RecordBatch]:
        for i, batch in enumerate(source([3, 3, 3])):
            read.append(i)
            yield batch

    found = rebatch(watched(), 4)
    next(found)
    assert read == [0, 1]


def test_batches_that_fit_are_not_copied() -> None:
    (batch,) = source([6])
    address = batch.column("x").buffers()[1].address
    assert [found.column("x").buffers()[1].address for found in rebatch([batch], 3)] == [address, address]


def test_size_has_to_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(rebatch(source([3]), 0))
