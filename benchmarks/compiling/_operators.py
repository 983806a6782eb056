"""The thesis's 13 operators on Iris, widened by noise, timed by scikit-learn, by ONNX Runtime and compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn import linear_model, naive_bayes, neural_network, preprocessing, svm, tree
from sklearn.datasets import load_iris

from benchmarks.compiling._onnx import onnx_session
from benchmarks.compiling._times import Spent, first_answer, spent
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["OPERATORS", "Measured", "measured"]

_COLUMNS = 20

OPERATORS: dict[str, Any] = {
    type(model).__name__: model
    for model in (
        linear_model.LogisticRegression(max_iter=1000),
        linear_model.SGDClassifier(random_state=0),
        svm.LinearSVC(),
        svm.NuSVC(nu=0.2),
        svm.SVC(),
        naive_bayes.BernoulliNB(),
        neural_network.MLPClassifier(max_iter=500, random_state=0),
        tree.DecisionTreeClassifier(random_state=0),
        preprocessing.Binarizer(),
        preprocessing.MinMaxScaler(),
        preprocessing.Normalizer(),
        preprocessing.PolynomialFeatures(),
        preprocessing.StandardScaler(),
    )
}


class Measured(NamedTuple):
    """Seconds of an operator by side: ``"scikit-learn"``, ``"ONNX Runtime"``, ``"compiled"``.

    Parameters
    ----------
    many, one : dict of str to Spent
        For all rows, and for one.
    converted_s : dict of str to float
        By the clock, from the fitted operator to its first answer; not of scikit-learn.
    """

    many: dict[str, Spent]
    one: dict[str, Spent]
    converted_s: dict[str, float]


def measured(model: Any, rows: int, threads: int) -> Measured:
    """Fit an operator, convert it, and time each side on rows of float32."""
    torch.set_num_threads(threads)
    iris, labels = load_iris(return_X_y=True)
    noise = np.random.default_rng(0).normal(size=(len(iris), _COLUMNS - iris.shape[1]))
    train = np.column_stack([iris, noise]).astype(np.float32)
    table = np.resize(train, (rows, _COLUMNS))
    model.fit(train, labels)
    method = "predict" if hasattr(model, "predict") else "transform"
    library, row = getattr(model, method), table[:1]

    def converted() -> Callable[[NDArray[Any]], Any]:
        session = onnx_session(model, threads)
        output = session.get_outputs()[0].name
        return lambda given: session.run([output], {"x": given})[0]

    runtime, runtime_s = first_answer(converted, row)
    compiled, compiled_s = first_answer(lambda: getattr(compile_pipeline(model, threads=threads), method), row)
    for place in (runtime, compiled):
        np.testing.assert_allclose(place(train), library(train), rtol=1e-4, atol=1e-5)
    calls = {"scikit-learn": library, "ONNX Runtime": runtime, "compiled": compiled}
    many = {side: _timed(call, table) for side, call in calls.items()}
    one = {side: _timed(call, row) for side, call in calls.items()}
    return Measured(many, one, {"ONNX Runtime": runtime_s, "compiled": compiled_s})


def _timed(call: Callable[[NDArray[Any]], Any], rows: NDArray[Any]) -> Spent:
    return spent(lambda: call(rows))
