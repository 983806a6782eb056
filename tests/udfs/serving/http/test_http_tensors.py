"""Tensors as JSON and as bytes: what goes in comes out, and bytes that are no tensor are a BadRequestError."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from udfs.serving import BadRequestError, ServedModel, TensorSpec
from udfs.serving.http._binary_data import from_binary, objects, to_binary
from udfs.serving.http._datatypes import NUMPY
from udfs.serving.http._infer_request import parse_request
from udfs.serving.http._infer_response import answer_of
from udfs.serving.http._json_data import from_json, to_json

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

# Few examples: what breaks these breaks on most.
QUICK = settings(max_examples=25, deadline=None)
LETTERS = "az\x00\néß漢😀"
JSON_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(LETTERS)
SHAPES = array_shapes(min_dims=1, max_dims=4, max_side=5)


@st.composite
def numbers(draw: DrawFn) -> tuple[str, np.ndarray]:
    datatype = draw(st.sampled_from(sorted(NUMPY)))
    return datatype, draw(arrays(NUMPY[datatype], SHAPES))


def texts(elements: SearchStrategy[bytes] | SearchStrategy[str]) -> SearchStrategy[np.ndarray]:
    return st.lists(elements, min_size=1, max_size=6).map(lambda values: objects(values, [len(values)]))


@QUICK
@given(numbers())
def test_numbers_survive_as_bytes(drawn: tuple[str, np.ndarray]) -> None:
    datatype, array = drawn
    back = from_binary(memoryview(to_binary(array, datatype)), datatype, array.shape, "x")
    assert back.dtype == array.dtype
    assert back.flags.writeable
    assert back.flags.aligned
    assert back.tobytes() == array.tobytes()  # NaN's bits as well


@QUICK
@given(numbers())
def test_big_endian_and_strided_arrays_are_written_alike(drawn: tuple[str, np.ndarray]) -> None:
    datatype, array = drawn
    swapped = array.astype(array.dtype.newbyteorder(">")).T
    assert to_binary(swapped, datatype) == np.ascontiguousarray(array.T).tobytes()


@QUICK
@given(numbers(), st.booleans())
def test_finite_numbers_survive_as_json(drawn: tuple[str, np.ndarray], nested: bool) -> None:
    datatype, array = drawn
    array = np.nan_to_num(array, nan=0, posinf=0, neginf=0) if array.dtype.kind == "f" else array
    flat = to_json(array, datatype, "x")
    data = json.loads(json.dumps(array.tolist() if nested else flat))
    back = from_json(data, datatype, array.shape, "x")
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


@QUICK
@given(texts(st.binary(max_size=20)))
def test_bytes_survive(array: np.ndarray) -> None:
    back = from_binary(memoryview(to_binary(array, "BYTES")), "BYTES", array.shape, "x")
    assert back.tolist() == array.tolist()


@QUICK
@given(texts(st.text(max_size=20, alphabet=LETTERS)))
def test_texts_survive_as_json(array: np.ndarray) -> None:
    data = json.loads(json.dumps(to_json(array, "BYTES", "x")))
    assert from_json(data, "BYTES", array.shape, "x").tolist() == array.tolist()


def model_of(datatype: str, dimensions: int) -> ServedModel:
    dtype = "bytes" if datatype == "BYTES" else NUMPY[datatype].name
    spec = TensorSpec("x", dtype, (-1,) * dimensions)
    return ServedModel("echo", "1", (spec,), (spec,), "opaque", 100.0)


@st.composite
def requests(draw: DrawFn) -> tuple[bytes, int, ServedModel, np.ndarray]:
    """Draw a valid binary request for a model that takes it."""
    if draw(st.booleans()):
        datatype, array = draw(numbers())
    else:
        datatype, array = "BYTES", draw(texts(st.binary(max_size=20)))
    content = to_binary(array, datatype)
    tensor = {"name": "x", "datatype": datatype, "shape": list(array.shape)}
    tensor["parameters"] = {"binary_data_size": len(content)}
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return header + content, len(header), model_of(datatype, array.ndim), array


@QUICK
@given(requests())
def test_a_request_is_read_and_its_answer_written(drawn: tuple[bytes, int, ServedModel, np.ndarray]) -> None:
    body, length, model, array = drawn
    request = parse_request(body, length, model)
    reply = answer_of(request.inputs, request, model)
    end = int(reply.headers["inference-header-content-length"])
    output = json.loads(reply.body[:end])["outputs"][0]
    back = from_binary(memoryview(bytes(reply.body[end:])), output["datatype"], output["shape"], "x")
    assert back.tolist() == array.tolist() or back.tobytes() == array.tobytes()


@QUICK
@given(requests(), st.data())
def test_a_cut_request_is_a_bad_one(drawn: tuple[bytes, int, ServedModel, np.ndarray], data: st.DataObject) -> None:
    body, length, model, _ = drawn
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(BadRequestError):
        parse_request(body[:cut], length, model)


@QUICK
@given(requests(), st.data())
def test_a_damaged_request_is_bad_or_of_the_models_shape(
    drawn: tuple[bytes, int, ServedModel, np.ndarray], data: st.DataObject
) -> None:
    body, length, model, array = drawn
    damaged = bytearray(body)
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        request = parse_request(bytes(damaged), data.draw(st.sampled_from([None, length])), model)
    except BadRequestError:
        return
    assert request.inputs["x"].ndim == array.ndim
    assert request.inputs["x"].dtype == array.dtype


@QUICK
@given(st.recursive(JSON_LEAVES, st.lists, max_leaves=12))
def test_any_json_is_a_tensor_or_a_bad_request(value: object) -> None:
    for datatype in (*NUMPY, "BYTES"):
        for shape in ([1], [2, 2], [3, 1]):
            try:
                array = from_json(value, datatype, shape, "x")
            except BadRequestError:
                continue
            assert list(array.shape) == shape
            assert array.dtype == NUMPY.get(datatype, np.dtype(object))
            assert array.dtype.kind != "f" or np.isfinite(array).all()
