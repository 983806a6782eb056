"""What a network takes from a batch of rows, and the rows that it cannot take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from udfs.inference import NetworkInputs
from udfs.shards import TensorColumn, TensorGroup


def network_of(*columns: TensorColumn) -> NetworkInputs:
    return NetworkInputs(tuple(TensorGroup(column.name, (column,)) for column in columns), images=())


@pytest.mark.parametrize(("dtype", "kind"), [("int64", pa.int64()), ("float32", pa.float32())])
def test_a_null_within_a_tensor_is_no_number(dtype: str, kind: pa.DataType) -> None:
    """Integers with a null became doubles on the way, and the null the smallest integer."""
    column = TensorColumn("tokens", dtype, (2,))
    rows = [[1, 2], [3, None], None, [5, 6, 7], [None, None], [8, 9]]
    batch = pa.record_batch({"tokens": pa.array(rows, pa.list_(kind))})
    (tokens,), reasons = network_of(column).read(batch)
    assert reasons == [
        None,
        "tensor with a null in it: column 'tokens'",
        "null: column 'tokens'",
        "tensor of another size: column 'tokens'",
        "tensor with a null in it: column 'tokens'",
        None,
    ]
    assert tokens.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(tokens, [[1, 2], [8, 9]])


def test_a_part_of_a_batch_counts_its_own_rows() -> None:
    """A slice of an Arrow array still holds the elements before it."""
    column = TensorColumn("tokens", "int64", (2,))
    whole = pa.array([[None, 1], [2, 3], [4, None], [5, 6]], pa.list_(pa.int64()))
    (tokens,), reasons = network_of(column).read(pa.record_batch({"tokens": whole.slice(1)}))
    assert reasons == [None, "tensor with a null in it: column 'tokens'", None]
    np.testing.assert_array_equal(tokens, [[2, 3], [5, 6]])


def test_the_first_reason_of_a_row_stays() -> None:
    columns = TensorColumn("a", "float32", ()), TensorColumn("b", "int64", (1,))
    batch = pa.record_batch(
        {"a": pa.array([None, 1.0], pa.float32()), "b": pa.array([[None], [2]], pa.list_(pa.int64()))}
    )
    arrays, reasons = network_of(*columns).read(batch)
    assert reasons == ["null: column 'a'", None]
    assert [array.tolist() for array in arrays] == [[1.0], [[2]]]
