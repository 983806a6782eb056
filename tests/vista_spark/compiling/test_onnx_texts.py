"""ONNX models that read texts, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import compile_pipeline
from vista_spark.errors import InvalidArgumentError

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

from onnx import TensorProto, helper
from skl2onnx.common.data_types import FloatTensorType, StringTensorType

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


def answers(model: Any, feeds: dict[str, Any]) -> list[Any]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, feeds)
    return found


CITIES = np.array(["Oslo", "", "Malm\u00f6", "Malmo\u0308", "\U0001f642", "x" * 300], object)


def test_texts_and_numbers() -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        {"city": draw.choice(CITIES, 80), "size": draw.choice(CITIES[:3], 80), "fare": draw.normal(size=80)}
    )
    features = ColumnTransformer(
        [("names", OneHotEncoder(handle_unknown="ignore"), ["city", "size"]), ("fare", StandardScaler(), ["fare"])]
    )
    model = make_pipeline(features, LogisticRegression()).fit(table, np.where(table["fare"] > 0, "up", "down"))
    kinds = [("city", StringTensorType([None, 1])), ("size", StringTensorType([None, 1]))]
    kinds.append(("fare", FloatTensorType([None, 1])))
    proto = skl2onnx.convert_sklearn(model, initial_types=kinds, options={"zipmap": False})
    table.loc[:3, "city"] = ["x" * 301, "Malmo", "oslo", "Oslo "]
    table["fare"] = table["fare"].astype(np.float32)
    compiled = compile_pipeline(proto)
    assert compiled.columns == ("city", "size", "fare")
    classes, shares = answers(proto, {name: table[[name]].to_numpy() for name in table})
    np.testing.assert_array_equal(compiled.predict(table), classes)
    np.testing.assert_allclose(compiled.predict_proba(table), shares, rtol=1e-5, atol=1e-6)
    with pytest.raises(InvalidArgumentError, match="row 0 and 79 more have a category that ONNX's OneHotEncoder"):
        compiled.predict(table.assign(city=None))


def test_places_of_texts() -> None:
    rows = CITIES.repeat(2)[:, None].repeat(2, axis=1)
    model = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(rows[:6])
    proto = skl2onnx.convert_sklearn(model, initial_types=[("X", StringTensorType([None, 2]))])
    np.testing.assert_array_equal(compile_pipeline(proto).transform(rows), answers(proto, {"X": rows})[0])


def alone(kind: str, given: Any, opset: int = 2, **attributes: Any) -> Any:
    """A model of one operator."""
    node = helper.make_node(kind, ["X"], ["Y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "one", [given], [onnx.ValueInfoProto(name="Y")])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


TEXTS = helper.make_tensor_value_info("X", TensorProto.STRING, [None, 2])


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LabelEncoder", {"keys_strings": ["a", "b"], "values_int64s": [5, 7], "default_int64": -2}),
        ("LabelEncoder", {"keys_strings": ["b", "a", "b"], "values_floats": [0.5, 7.0, 9.0]}),
        ("OneHotEncoder", {"cats_strings": ["b", "", "a"], "zeros": 1}),
    ],
)
def test_operators_on_texts(kind: str, attributes: dict[str, Any]) -> None:
    proto = alone(kind, TEXTS, **attributes)
    rows = np.array([["a", "b"], ["", "B"], ["ab", "a "]], object)
    compiled = compile_pipeline(proto)
    (method,) = compiled.outputs
    expected = answers(proto, {"X": rows})[0]
    np.testing.assert_array_equal(getattr(compiled, method)(rows).reshape(expected.shape), expected)
    with pytest.raises(InvalidArgumentError, match=f"a category that ONNX's {kind} does not know"):
        getattr(compiled, method)(np.array([["a", None]], object))


def test_categories_that_are_not_known_are_bad() -> None:
    compiled = compile_pipeline(alone("OneHotEncoder", TEXTS, cats_strings=["a", "b"], zeros=0))
    assert compiled.transform(np.array([["a", "b"]], object)).tolist() == [[1, 0, 0, 1]]
    with pytest.raises(InvalidArgumentError, match="row 1 has a category"):
        compiled.transform(np.array([["a", "b"], ["a", "c"]], object))


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (alone("CastMap", TEXTS), "CastMap cannot be compiled: it reads one map"),
        (alone("Scaler", TEXTS, offset=[0.0], scale=[1.0]), "Scaler with texts cannot be compiled"),
        (alone("LabelEncoder", TEXTS, keys_int64s=[1], values_int64s=[5]), "LabelEncoder"),
    ],
)
def test_what_is_refused(proto: Any, message: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=message):
        compile_pipeline(proto)
