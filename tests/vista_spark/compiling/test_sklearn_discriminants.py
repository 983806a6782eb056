"""Discriminant analysis and the nearest centroid, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.neighbors import NearestCentroid

from optimizer.compiling import UnsupportedOperatorError
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


@pytest.mark.parametrize(
    "model",
    [
        NearestCentroid(),
        NearestCentroid(metric="manhattan"),
        NearestCentroid(shrink_threshold=0.4),
        NearestCentroid(priors="empirical"),
        NearestCentroid(metric="manhattan", priors=[0.2, 0.3, 0.5]),
    ],
    ids=str,
)
def test_centroids(model: Any) -> None:
    table, labels = load_wine(return_X_y=True)
    model.fit(table[::2], NAMES[labels[::2]])
    agree(model, table, table.astype(np.float32))


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_far_away_nothing_is_left_of_a_difference() -> None:
    """The library squares rows and centroids apart, so that at 2^54 all classes have equal shares."""
    table, labels = load_iris(return_X_y=True)
    far = np.array([[2.0**53] * 4, [2.0**53, 0, 0, 0], [0, -(2.0**53), 1, 2], [1e9, 1, 2, 3], [2.0**54, 1, 1, 1]])
    model = NearestCentroid().fit(table, labels)
    agree(model, far)
    np.testing.assert_allclose(compile_pipeline(model).predict_proba(far[4:]), [[1 / 3] * 3])
    beyond = np.array([[1.79e308, 0, 0, 0]])
    for one in (model, compile_pipeline(model)):
        with pytest.raises(ValueError, match="infinity"):
            one.predict_proba(beyond)


def test_rows_in_the_middle_go_to_the_first_centroid() -> None:
    rows = np.array([[-1.0, 0], [1, 4], [3, 0], [5, 4]])
    model = NearestCentroid().fit(rows, [0, 0, 1, 1])
    middle = np.array([[2.0, y] for y in np.arange(-3, 3, 0.25)] + [[2.0, 2e8]])
    agree(model, middle)
    whole = NearestCentroid(metric="manhattan").fit(rows, [0, 0, 1, 1])
    agree(whole, middle)


def test_distances_over_holes_are_refused() -> None:
    table, labels = load_iris(return_X_y=True)
    model = NearestCentroid().fit(table, labels)
    model.metric = "nan_euclidean"
    with pytest.raises(UnsupportedOperatorError, match="metric='nan_euclidean'"):
        compile_pipeline(model)
