"""Discriminant analysis and the nearest centroid, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from tests.support.agreement import agree
from vista_spark import compile_pipeline

NAMES = np.array(["a", "bb", "c"])
DATA = pytest.mark.parametrize("data", [load_iris, load_wine, load_breast_cancer], ids=["iris", "wine", "two"])


@pytest.mark.parametrize(
    "model",
    [
        LinearDiscriminantAnalysis(),
        LinearDiscriminantAnalysis(n_components=1),
        LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
        LinearDiscriminantAnalysis(solver="lsqr"),
        QuadraticDiscriminantAnalysis(reg_param=0.1),
        QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.3),
    ],
    ids=str,
)
@DATA
def test_discriminants(model: Any, data: Any) -> None:
    table, labels = data(return_X_y=True)
    table = table / table.max(axis=0)
    model.fit(table[::2], NAMES[labels[::2]])
    refused = ("transform",) if getattr(model, "solver", "") == "lsqr" else ()
    # Far away probabilities are zero, and their logarithm is that of the least number.
    agree(model, table, 300 * table, without=refused)


def test_of_float32() -> None:
    table, labels = load_iris(return_X_y=True)
    own = table.astype(np.float32)
    for model in (LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()):
        model.fit(own[::2], labels[::2])
        compiled = compile_pipeline(model)
        assert (compiled.predict(own) == model.predict(own)).all()
        np.testing.assert_allclose(compiled.decision_function(own), model.decision_function(own), rtol=1e-4, atol=1e-3)
