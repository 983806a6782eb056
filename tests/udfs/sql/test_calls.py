"""Calls of SQL functions without Spark: what is named row by row, what is left out, types that do not fit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from udfs.inference import PortableNetwork, Prediction
from udfs.shards import TensorColumn, TensorGroup
from udfs.sql import CallError, PredictionCalls, SQLModel, as_arrow
from udfs.training import Task

COLUMNS = (TensorColumn("price", "float32", ()), TensorColumn("v", "float32", (2,)))
IDS = (TensorColumn("id", "int64", ()),)


def linear(scale: float, outputs: int = 1) -> torch.nn.Module:
    """A layer whose outputs are the sum of its inputs, times `scale` and the output's number from 1."""
    layer = torch.nn.Linear(3, outputs, bias=False)
    with torch.no_grad():
        layer.weight[:] = scale * torch.arange(1, outputs + 1)[:, None]
    return layer


def model(network: torch.nn.Module, kind: str, *, probabilities: bool = False) -> SQLModel:
    made = PortableNetwork.of(network, [np.zeros((2, 3), np.float32)])
    groups = (TensorGroup("features", COLUMNS, joined=True),)
    form: Any = "probabilities" if probabilities else "logits"
    tasks = {
        "value": Task("regression", "values", "values", 1),
        "positive": Task("binary", "0/1", form, 1),
        "classes": Task("multiclass", "class index", form),
    }
    return SQLModel(Prediction(made, groups, (), "raw", 2), COLUMNS, tasks[kind])


def goods(rows: int = 5) -> pa.StructArray:
    price = pa.array([Decimal("1.5"), None, Decimal(-4), Decimal(2), Decimal(1)][:rows], pa.decimal128(10, 2))
    v = pa.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [1.0], [float("nan"), 0.0]][:rows], pa.list_(pa.float64()))
    return pa.StructArray.from_arrays([v, pa.array(range(rows)), price], names=["v", "other", "price"])


def test_each_row_is_predicted_by_the_model_it_names() -> None:
    calls = PredictionCalls(
        "predict_tuned", {"one": model(linear(1), "value"), "ten": model(linear(10), "value")}, False
    )
    names = pa.array(["ten", "one", "one", "ten", "one"])
    assert calls([goods(), names]).to_pylist()[:4] == [45.0, None, -3.0, None]


def test_the_only_model_need_not_be_named() -> None:
    calls = PredictionCalls("predict_tuned", {"one": model(linear(1), "value")}, False)
    assert calls([goods(3)]).to_pylist() == [4.5, None, -3.0]
    both = PredictionCalls("predict_tuned", {"one": model(linear(1), "value"), "b": model(linear(2), "value")}, False)
    with pytest.raises(CallError, match="must name one of the registered model: 'one', 'b'"):
        both([goods(3)])


def test_outputs_become_scores_probabilities_and_classes_as_in_the_stage() -> None:
    """Of NaN too: it is Spark's largest number, so that it is above any threshold, and the largest output."""
    positive = PredictionCalls("f", {"m": model(linear(1), "positive")}, explained=True)([goods()]).to_pylist()
    assert [row["prediction"] for row in positive] == [1.0, None, 0.0, None, 1.0]
    assert positive[0]["raw_prediction"] == [-4.5, 4.5]
    assert np.allclose(positive[0]["probability"], [1 / (1 + np.exp(4.5)), 1 / (1 + np.exp(-4.5))])
    odds = PredictionCalls("f", {"m": model(linear(0.1), "positive", probabilities=True)}, explained=True)
    assert np.allclose(odds([goods(1)])[0].as_py()["probability"], [0.55, 0.45])
    assert odds([goods(1)])[0].as_py()["prediction"] == 0.0
    classes = PredictionCalls("f", {"m": model(linear(1, outputs=3), "classes")}, explained=True)([goods()]).to_pylist()
    assert [row["prediction"] for row in classes] == [2.0, None, 0.0, None, 0.0]
    assert np.allclose(sum(classes[0]["probability"]), 1)
    assert classes[1]["error"] == "null"
    assert classes[3] == {
        "prediction": None,
        "probability": None,
        "raw_prediction": None,
        "error": "tensor of another size",
        "detail": "column 'v'",
    }


@pytest.mark.parametrize(("kind", "outputs"), [("classes", 3), ("positive", 1), ("value", 1)])
def test_a_batch_without_a_good_row_is_nulls(kind: str, outputs: int) -> None:
    calls = PredictionCalls("f", {"m": model(linear(1, outputs), kind)}, explained=True)
    (row,) = calls([goods(2).slice(1)]).to_pylist()
    assert (row["prediction"], row["probability"], row["raw_prediction"], row["error"]) == (None, None, None, "null")


def test_a_null_struct_is_a_bad_row() -> None:
    struct = pa.array(
        [None, {"v": [1.0, 2.0], "price": 1.5}], pa.struct([("v", pa.list_(pa.float64())), ("price", pa.float64())])
    )
    told = PredictionCalls("f", {"m": model(linear(1), "value")}, explained=True)([struct]).to_pylist()
    assert [row["prediction"] for row in told] == [None, 4.5]
    assert told[0]["error"] == "null"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array(["1"]), "must have column 'price', got string"),
        (
            pa.StructArray.from_arrays([pa.array([1.0])], names=["prices"]),
            "must have column 'price', got .*did you mean 'prices'",
        ),
        (
            pa.StructArray.from_arrays([pa.array(["1"]), pa.array([[1.0, 2.0]])], names=["price", "v"]),
            "column 'price' of .* must be float32, .*got string",
        ),
        (
            pa.StructArray.from_arrays([pa.array([1.0]), pa.array([[[1.0, 2.0]]])], names=["price", "v"]),
            r"column 'v' of .* must be float32\[2\], .*got list<",
        ),
        (
            pa.StructArray.from_arrays([pa.array([1.0]), pa.array([[1, 2]])], names=["price", "v"]),
            r"column 'v' of .* must be float32\[2\], .*got list<",
        ),
    ],
)
def test_a_column_of_another_type_is_named(values: pa.Array, message: str) -> None:
    calls = PredictionCalls("predict_tuned", {"m": model(linear(1), "value")}, explained=False)
    with pytest.raises(CallError, match=message):
        calls([values])


def test_what_pandas_has_becomes_what_arrow_had() -> None:
    class Vector:
        def toArray(self) -> np.ndarray:
            return np.array([1.0, 2.0])

    series = pd.Series([Vector(), None], dtype=object)
    assert as_arrow(series).to_pylist() == [[1.0, 2.0], None]
    assert as_arrow(pd.Series([b"a", None], dtype=object)).type == pa.binary()
    assert as_arrow(pd.Series([1.5, np.nan])).to_pylist() == [1.5, None]
    nested = np.empty(1, object)
    nested[0] = np.array([np.array([1.0, 2.0]), np.array([3.0, 4.0])], dtype=object)
    assert as_arrow(pd.Series(nested)).to_pylist() == [[[1.0, 2.0], [3.0, 4.0]]]
    struct = as_arrow(pd.DataFrame({"a": [1.0, None], "b": ["x", None]}))
    assert struct.to_pylist() == [{"a": 1.0, "b": "x"}, None]
