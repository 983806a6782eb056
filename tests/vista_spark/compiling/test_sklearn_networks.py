"""Multilayer perceptrons, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.neural_network import MLPClassifier, MLPRegressor

from optimizer.compiling import UnsupportedOperatorError
from tests.support.agreement import agree
from vista_spark import compile_pipeline

ACTIVATIONS = ("identity", "logistic", "tanh", "relu")
NAMES = np.array(["x", "yy", "z"])
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_classifiers(activation: str) -> None:
    for data in (load_iris, load_breast_cancer):
        table, labels = data(return_X_y=True)
        table = table / table.max(axis=0)
        model = MLPClassifier((7, 5), activation=activation, max_iter=25, random_state=0)
        agree(model.fit(table, NAMES[labels]), table, 4 - 8 * table, table.astype(np.float32))
        agree(model.fit(table.astype(np.float32), labels), table.astype(np.float32))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_regressors(activation: str) -> None:
    table, values = load_diabetes(return_X_y=True)
    model = MLPRegressor(hidden_layer_sizes=9, activation=activation, max_iter=20, random_state=0)
    agree(model.fit(table, values), table, table.astype(np.float32))
    agree(model.fit(table, np.stack([values, -values], axis=1)), table)


def test_several_labels_at_once() -> None:
    table, labels = load_iris(return_X_y=True)
    wanted = np.stack([labels > 0, labels != 1, labels == 2], axis=1).astype(int)
    model = MLPClassifier(6, max_iter=60, random_state=0).fit(table, wanted)
    compiled = agree(model, table)
    assert compiled.predict(table).dtype == model.predict(table).dtype
    assert len(np.unique(compiled.predict(table), axis=0)) > 1


def test_counts_by_the_exponential() -> None:
    table, values = load_diabetes(return_X_y=True)
    agree(MLPRegressor(hidden_layer_sizes=5, loss="poisson", max_iter=10, random_state=0).fit(table, values), table)


def test_an_unknown_activation_is_refused() -> None:
    table, values = load_diabetes(return_X_y=True)
    model = MLPRegressor(hidden_layer_sizes=3, max_iter=2).fit(table, values)
    model.activation = "swish"
    with pytest.raises(UnsupportedOperatorError, match="MLPRegressor with activation='swish'"):
        compile_pipeline(model)
