"""Linear models with a link, a loss or a consensus of their own, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    RANSACRegressor,
    SGDClassifier,
    SGDOneClassSVM,
    TweedieRegressor,
)
from sklearn.multiclass import OneVsRestClassifier

from optimizer.compiling import UnsupportedOperatorError
from tests.support.agreement import agree
from vista_spark import compile_pipeline

LOSSES = ("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron")
NAMES = np.array(["setosa", "b", "c"])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("data", [load_iris, load_breast_cancer], ids=["three", "two"])
def test_stochastic_classifiers(loss: str, data: Any) -> None:
    table, labels = data(return_X_y=True)
    model = SGDClassifier(loss=loss, random_state=0).fit(table[::2] / table.max(axis=0), NAMES[labels[::2]])
    # Far away, all classes of the modified Huber loss get nothing, and so equal shares.
    agree(model, table / table.max(axis=0), -50 * table, (table / table.max(axis=0)).astype(np.float32))


def test_a_row_that_no_class_wants_belongs_to_all_alike() -> None:
    table, labels = load_iris(return_X_y=True)
    model = SGDClassifier(loss="modified_huber", random_state=0).fit(table, labels)
    shares = compile_pipeline(model).predict_proba(np.vstack([table, 100 * np.eye(4), -100 * np.eye(4)]))
    assert (shares == 1 / 3).all(axis=1).any()


@pytest.mark.parametrize(
    "model",
    [
        GammaRegressor(),
        PoissonRegressor(alpha=0.1),
        TweedieRegressor(power=0),
        TweedieRegressor(power=1.5),
        TweedieRegressor(power=2, link="identity"),
        RANSACRegressor(random_state=0),
        RANSACRegressor(LinearRegression(positive=True), random_state=1),
    ],
    ids=str,
)
def test_regressors(model: Any) -> None:
    table, values = load_diabetes(return_X_y=True)
    model.fit(table[::2], values[::2])
    agree(model, table, table.astype(np.float32))


def test_a_consensus_of_two_columns() -> None:
    table, values = load_diabetes(return_X_y=True)
    agree(RANSACRegressor(random_state=0).fit(table, np.stack([values, -values], axis=1)), table)


def test_one_class() -> None:
    table = load_iris().data
    agree(SGDOneClassSVM(random_state=0).fit(table), table, 3 - table)


def test_an_unknown_link_is_refused() -> None:
    table, values = load_diabetes(return_X_y=True)
    model = PoissonRegressor().fit(table, values)
    model._base_loss.link = object()
    with pytest.raises(UnsupportedOperatorError, match="PoissonRegressor with the link object"):
        compile_pipeline(model)


def test_a_model_for_each_class_that_liblinear_left() -> None:
    """Releases before 1.8 fit such models, and normalise their scores one by one; later ones take their softmax."""
    table, labels = load_iris(return_X_y=True)
    rest = OneVsRestClassifier(LogisticRegression(solver="liblinear")).fit(table, labels)
    old = LogisticRegression(solver="liblinear").fit(table[:100], labels[:100])
    old.classes_ = rest.classes_
    old.coef_ = np.concatenate([one.coef_ for one in rest.estimators_])
    old.intercept_ = np.concatenate([one.intercept_ for one in rest.estimators_])
    with pytest.raises(UnsupportedOperatorError, match=r"solver='liblinear' and 3 classes, from a release before 1\.8"):
        compile_pipeline(old)
    old.get_params = lambda deep=True: {"multi_class": "deprecated"}  # a parameter of those releases
    compiled = compile_pipeline(old)
    np.testing.assert_array_equal(compiled.predict(table), rest.predict(table))
    np.testing.assert_allclose(compiled.predict_proba(table), rest.predict_proba(table), rtol=1e-12)
