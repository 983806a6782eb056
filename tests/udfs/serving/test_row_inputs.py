"""Inputs of functions from a request to the batch of a backend: scalars, several texts, and missing values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from udfs.serving import (
    Admission,
    BadRequestError,
    FunctionRecipe,
    FunctionScoring,
    ServedModel,
    TensorReader,
    TensorSpec,
)
from udfs.serving._messages import SERVING, Submit, Unit
from udfs.serving.http._forwarding import Arrays
from udfs.serving.http._infer_request import parse_request

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS = ["bool", *INTEGERS, "float16", "float32", "float64"]
TEXT, CONTENT, FLOAT = (TensorSpec("t", dtype, (-1,), missing=True) for dtype in ("str", "bytes", "float32"))
FLOATS, TEXTS = TensorSpec("x", "float64", (-1, 2), missing=True), TensorSpec("t", "str", (-1, 2), missing=True)
STRICT = TensorSpec("x", "float64", (-1, 2))


def objects(*values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def read(spec: TensorSpec, array: Any) -> Any:
    """Return the batch that a backend gets."""
    rows = Admission("m", (spec,), {}).rows({spec.name: array})
    units = tuple(Unit(place, "m", "m", 1.0, "", dict(row)) for place, row in enumerate(rows))
    received = SERVING.decode_request(SERVING.encode(Submit(units, ())))
    assert isinstance(received, Submit)
    reader = TensorReader((spec,))
    return np.stack([reader.read(unit.inputs)[spec.name] for unit in received.units])


def asked(spec: TensorSpec, **entry: Any) -> np.ndarray[Any, Any]:
    """Return the input of a JSON request."""
    model = ServedModel("m", "1", (spec,), (), "opaque", 1000.0)
    body = json.dumps({"inputs": [{"name": spec.name, **entry}]}).encode()
    return parse_request(body, None, model).inputs[spec.name]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_scalar_per_row_arrives_in_its_type(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.ones((2, *shape), dtype)
    batch = read(TensorSpec("x", dtype, (-1, *shape)), values)
    assert batch.dtype == values.dtype
    np.testing.assert_array_equal(batch, values)


@pytest.mark.parametrize("shape", [(3,), (-1,), (2, -1), (1, 2, 2), (0,)])
@pytest.mark.parametrize("dtype", ["str", "bytes"])
def test_several_texts_per_row_arrive_in_their_shape(dtype: str, shape: tuple[int, ...]) -> None:
    sizes = (2, *(3 if size == -1 else size for size in shape))
    values = np.array([f"é{number}" * number or "e" for number in range(int(np.prod(sizes)))], object).reshape(sizes)
    if dtype == "bytes":
        values = np.array([value.encode() for value in values.flat] + [None], object)[:-1].reshape(sizes)
    batch = read(TensorSpec("t", dtype, (-1, *shape)), values)
    assert batch.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("spec", "array"),
    [
        (TensorSpec("t", "str", (-1,)), np.array([["a", "b"]])),
        (TensorSpec("t", "bytes", (-1,)), np.array([[b"a", b"b"]], object)),
        (TEXTS, np.array([["a", "b", "c"]])),
        (TEXTS, np.array(["a", "b"])),
        (TEXTS, np.array([["a", 3]], object)),
        (TEXTS, np.array([[["a", "b"]]])),
    ],
)
def test_texts_of_another_shape_or_type_are_refused(spec: TensorSpec, array: Any) -> None:
    with pytest.raises(BadRequestError, match="Input 't' must"):
        read(spec, array)


@pytest.mark.parametrize(
    ("spec", "array", "batch"),
    [
        (FLOAT, np.array([np.nan, np.inf, -np.inf, 1], np.float32), [np.nan, np.inf, -np.inf, 1]),
        (FLOAT, objects(None, 1, 2.5), [np.nan, 1, 2.5]),
        (FLOATS, np.array([[None, 1.0]], object), [[np.nan, 1]]),
        (TEXT, objects("a", None, ""), ["a", None, ""]),
        (CONTENT, objects(b"a", None), [b"a", None]),
        (TEXTS, np.array([["a", None]], object), [["a", None]]),
    ],
)
def test_missing_values_reach_a_model_that_reads_them(spec: TensorSpec, array: Any, batch: Any) -> None:
    read_back = read(spec, array)
    if read_back.dtype == object:
        assert read_back.tolist() == batch
    else:
        assert read_back.dtype == spec.dtype
        np.testing.assert_array_equal(read_back, batch)


@pytest.mark.parametrize("value", [np.nan, np.inf, None, "1", True])
@pytest.mark.parametrize("spec", [STRICT, FLOATS, TensorSpec("x", "int64", (-1, 2), missing=True)])
def test_other_missing_values_are_refused(spec: TensorSpec, value: Any) -> None:
    if spec is FLOATS and (value is None or isinstance(value, float)):
        return
    with pytest.raises(BadRequestError, match="Input 'x' must"):
        read(spec, np.array([[value, 1]], object if not isinstance(value, float) else np.float64))


@pytest.mark.parametrize(
    ("spec", "datatype", "data", "values"),
    [
        (FLOAT, "FP32", [None, 1], [np.nan, 1]),
        (FLOATS, "FP64", [[None, 1], [2, None]], [[np.nan, 1], [2, np.nan]]),
        (TEXT, "BYTES", [None, "a"], [None, "a"]),
        (TEXTS, "BYTES", [None, "a", "b", None], [[None, "a"], ["b", None]]),
    ],
)
def test_null_of_json(spec: TensorSpec, datatype: str, data: Any, values: Any) -> None:
    array = asked(spec, datatype=datatype, shape=[2, *spec.shape[1:]], data=data)
    assert np.array_equal(array, np.array(values, array.dtype), equal_nan=array.dtype != object)
    # The same input travels from a front end in a process of its own.
    again = Arrays.encode({"x": array}).read()["x"]
    assert np.array_equal(array, again, equal_nan=array.dtype != object)


@pytest.mark.parametrize(
    ("spec", "datatype", "data"),
    [
        (STRICT, "FP64", [None, 1]),
        (TensorSpec("x", "int64", (-1, 2), missing=True), "INT64", [None, 1]),
        (FLOATS, "FP64", [None, 10**400]),
        (TensorSpec("t", "str", (-1, 2)), "BYTES", [None, "a"]),
    ],
)
def test_null_of_json_is_refused_elsewhere(spec: TensorSpec, datatype: str, data: Any) -> None:
    with pytest.raises(BadRequestError):
        asked(spec, datatype=datatype, shape=[1, 2], data=data)


def test_a_table_has_the_same_missing_values() -> None:
    def seen(arrays: Any) -> Any:
        missing = [[value is None for value in row] for row in arrays["t"]]
        return {"nan": np.isnan(arrays["x"]).sum(1), "null": np.array(missing).sum(1), "alone": np.isnan(arrays["n"])}

    inputs = (FLOATS, TEXTS, TensorSpec("n", "float32", (-1,), missing=True))
    outputs = tuple(
        TensorSpec(name, kind, (-1,)) for name, kind in (("nan", "int64"), ("null", "int64"), ("alone", "bool"))
    )
    scoring = FunctionScoring(
        "m", FunctionRecipe(seen, TensorReader(inputs)), inputs, ("x", "t", "n"), outputs, ("nan", "null", "alone"), 8
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "x": pa.array([[1.0, None], [None, None], None, [1.0, 2.0]], pa.list_(pa.float64())),
            "t": pa.array([["a", None], ["a", "b"], ["a", "b"], ["a", "b"]], pa.list_(pa.string())),
            "n": pa.array([None, 1.0, 1.0, 1e39], pa.float64()),
        }
    )
    columns = scoring.open(1)(batch)
    assert [column.to_pylist()[:2] for column in columns.columns] == [[1, 2], [1, 0], [True, False]]
    # A null in place of a list has no shape, and a number beyond the model's type is not an infinity.
    assert [reason is None for reason in columns.reasons] == [True, True, False, False]
