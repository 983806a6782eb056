"""Outputs of functions: names, texts and numbers from a model to its caller, or an error of the model alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from live_backends import running

from udfs.serving import (
    FunctionRecipe,
    FunctionScoring,
    ModelFailedError,
    OutputError,
    ServedModel,
    TensorReader,
    TensorSpec,
    output_specs,
)
from udfs.serving._messages import SERVING, Answer, Collect, Results
from udfs.serving._outputs import split_outputs
from udfs.serving._texts import from_wire, to_wire
from udfs.serving.http._metadata import _described

SECONDS = 60.0
LABELS = np.array(["Bern", "Oslo"])
HALVES = np.array([0.5, 1.5])


def received(outputs: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch of two as they arrive at the router."""
    rows = split_outputs(outputs, 2, "m")
    sent = tuple(
        Answer(number, "", "", {name: to_wire(array) for name, array in row.items()}) for number, row in enumerate(rows)
    )
    assert all(answer.nbytes > 0 for answer in sent)
    results = SERVING.decode_reply(Collect(0), SERVING.encode(Results(sent, 2, 0, 0.0, {})))
    return [{name: from_wire(value) for name, value in answer.outputs.items()} for answer in results.answers]


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ({0: HALVES, 1: HALVES}, ["0", "1"]),
        ({np.int64(3): HALVES, True: HALVES, 0.5: HALVES}, ["3", "True", "0.5"]),
        (pd.DataFrame({"p": HALVES, 7: HALVES}), ["p", "7"]),
        (HALVES, ["output"]),
    ],
)
def test_names_become_texts(outputs: Any, names: list[str]) -> None:
    rows = received(outputs)
    assert [list(row) for row in rows] == [names, names]
    assert [float(row[names[0]]) for row in rows] == [0.5, 1.5]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (LABELS, ["Bern", "Oslo"]),
        (LABELS.astype(object), ["Bern", "Oslo"]),
        (["Bern", "Oslo"], ["Bern", "Oslo"]),
        (pd.Series(["é", ""]), ["é", ""]),
        (np.array([b"\xff\x00", b""], object), [b"\xff\x00", b""]),
        (np.array([["a", "b"], ["c", "d"]]), [["a", "b"], ["c", "d"]]),
        (np.array([1, 2], object), [1, 2]),
        (np.array([True, False], object), [True, False]),
    ],
)
def test_texts_bytes_and_numbers_in_columns_of_objects_arrive(array: Any, values: Any) -> None:
    assert [row["y"].tolist() for row in received({"y": array})] == values


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({("a", "b"): HALVES}, r"non-empty texts or numbers, got \('a', 'b'\)"),
        ({None: HALVES}, "non-empty texts or numbers, got None"),
        ({"": HALVES}, "non-empty texts or numbers"),
        ({0: HALVES, "0": HALVES}, "unique as texts, got '0' twice"),
        ({}, "at least one array"),
        ((HALVES, HALVES), "must be a mapping of names to arrays, got tuple"),
        (None, "must be a mapping of names to arrays, got NoneType"),
        ({"y": np.array(["a", 1], object)}, "'y' of 'm' must be texts, bytes or numbers"),
        ({"y": np.array(["a", None], object)}, "'y' of 'm' must be texts, bytes or numbers"),
        ({"y": np.array(["a", b"a"], object)}, "'y' of 'm' must be texts, bytes or numbers"),
        ({"y": HALVES * 1j}, "'y' of 'm' must be texts, bytes or numbers"),
        ({"y": np.array(["2020-01-01"] * 2, "datetime64[D]")}, "'y' of 'm' must be texts, bytes or numbers"),
        ({"y": [[1], [1, 2]]}, "'y' of 'm' must have rows of the same shape"),
        ({"y": HALVES[:1]}, "'y' of 'm' must have one row per record"),
        ({"y": 1.0}, "'y' of 'm' must have one row per record"),
    ],
)
def test_outputs_that_cannot_be_sent_are_refused_by_name(outputs: Any, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        split_outputs(outputs, 2, "m")


def test_a_model_with_such_outputs_answers_or_fails_alone() -> None:
    functions = {
        "classes": lambda arrays: {0: arrays["x"][:, 0], "label": np.array(["cat", "dog"])[[0] * len(arrays["x"])]},
        "wrong": lambda arrays: {("a",): arrays["x"]},
        "other": lambda arrays: {"y": arrays["x"]},
    }
    rows = {"x": np.ones((2, 2), np.float32)}
    with running(functions, "a") as server:
        answer = server.router.submit("classes", rows).result(SECONDS)
        assert {name: array.tolist() for name, array in answer.items()} == {"0": [1, 1], "label": ["cat", "cat"]}
        with pytest.raises(ModelFailedError, match="non-empty texts or numbers"):
            server.router.submit("wrong", rows).result(SECONDS)
        assert server.router.submit("other", rows).result(SECONDS)["y"].tolist() == [[1, 1], [1, 1]]
        assert not server.lost


def test_outputs_are_described_by_the_answers_to_samples() -> None:
    answers = [
        {"y": np.float32(1), "label": np.array("a", object), "same": np.zeros((3, 1)), "open": np.zeros((3, size))}
        for size in (1, 2)
    ]
    described: Any = output_specs(answers)  # type: ignore[arg-type]
    assert described == (
        TensorSpec("y", "float32", (-1,)),
        TensorSpec("label", "str", (-1,)),
        TensorSpec("same", "float64", (-1, 3, 1)),
        TensorSpec("open", "float64", (-1, 3, -1)),
    )
    assert output_specs([{"b": np.array([b"a"], object)}]) == (TensorSpec("b", "bytes", (-1, 1)),)
    model = ServedModel("m", "1", (), (), "opaque", 1.0, described)
    assert _described(model, [model])["outputs"][:2] == [
        {"name": "y", "datatype": "FP32", "shape": [-1]},
        {"name": "label", "datatype": "BYTES", "shape": [-1]},
    ]


def test_texts_of_a_model_become_columns_of_a_table() -> None:
    def labels(arrays: Any) -> Any:
        names = np.where(arrays["x"] > 0, "above", "below")
        return {"label": names, "pair": np.stack([names, names], 1)}

    inputs = (TensorSpec("x", "float64", (-1,)),)
    outputs = (TensorSpec("label", "str", (-1,)), TensorSpec("pair", "str", (-1, 2)))
    recipe = FunctionRecipe(labels, TensorReader(inputs))
    scoring = FunctionScoring("m", recipe, inputs, ("x",), outputs, ("label", "pair"), 8)
    columns = scoring.open(1)(pa.RecordBatch.from_pydict({"x": [1.0, None, -1.0]}))
    assert [column.to_pylist() for column in columns.columns] == [
        ["above", None, "below"],
        [["above", "above"], None, ["below", "below"]],
    ]
    assert [column.type for column in columns.columns] == [field.type for field in scoring.adds]
