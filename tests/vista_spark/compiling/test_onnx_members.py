"""ONNX graphs of bagging and of nearest neighbours, as skl2onnx writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

for LIBRARY in ("onnxruntime", "skl2onnx"):
    pytest.importorskip(LIBRARY)

import onnxruntime
from skl2onnx import to_onnx
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import compile_pipeline

DRAW = np.random.default_rng(0)
X = DRAW.random((200, 4)).astype(np.float32)
CLASSES, VALUES = np.digitize(X[:, 0], [0.3, 0.6]), X @ np.array([1.0, 2, 3, 4], np.float32)
OPSETS = {"": 18, "ai.onnx.ml": 3, "com.microsoft": 1}
CDIST = {"optim": "cdist"}


def graph_of(model: Any, target: Any, **options: Any) -> Any:
    model.fit(X, target)
    options |= {"zipmap": False} if hasattr(model, "predict_proba") else {}
    return to_onnx(model, X[:1], options={type(model): options}, target_opset=OPSETS)


@pytest.mark.parametrize(
    ("model", "target", "options"),
    [
        (BaggingClassifier(n_estimators=4, random_state=0), CLASSES, {}),
        (BaggingClassifier(LogisticRegression(), n_estimators=3, random_state=0), CLASSES > 0, {}),
        (BaggingClassifier(n_estimators=3, max_features=2, random_state=0), CLASSES, {}),
        (BaggingRegressor(n_estimators=3, random_state=0), VALUES, {}),
        (BaggingRegressor(Ridge(), n_estimators=3, random_state=0), VALUES, {}),
        (KNeighborsClassifier(), CLASSES, CDIST),
        (KNeighborsClassifier(3, weights="distance"), CLASSES > 0, CDIST),
        (KNeighborsClassifier(1), CLASSES, CDIST),
        (KNeighborsRegressor(4), VALUES, CDIST),
    ],
)
def test_results_are_those_of_onnx_runtime(model: Any, target: Any, options: dict[str, Any]) -> None:
    graph = graph_of(model, target, **options)
    rows = np.concatenate([DRAW.random((100, 4)).astype(np.float32), X])
    expected = onnxruntime.InferenceSession(graph.SerializeToString()).run(None, {"X": rows})
    compiled = compile_pipeline(graph)
    np.testing.assert_allclose(compiled.predict(rows), np.ravel(expected[0]), rtol=1e-5)
    if len(expected) > 1:
        np.testing.assert_allclose(compiled.predict_proba(rows), expected[1], rtol=1e-5, atol=1e-6)


def test_equal_distances_go_to_the_first_point() -> None:
    points = np.repeat(np.float32([[0.0], [1.0]]), 3, axis=0)
    model = KNeighborsRegressor(2).fit(points, [1.0, 3.0, 5.0, 7.0, 9.0, 11.0])
    graph = to_onnx(model, points[:1], options={KNeighborsRegressor: CDIST}, target_opset=OPSETS)
    assert compile_pipeline(graph).predict(np.float32([[0.0], [0.9]])).tolist() == [2.0, 8.0]


def test_neighbours_row_by_row_name_the_option_that_compiles() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"Scan .*options=\{'optim': 'cdist'\}"):
        compile_pipeline(graph_of(KNeighborsClassifier(), CLASSES))
