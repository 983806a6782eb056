"""Support vector machines and kernel ridge regression against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from optimizer.compiling import UnsupportedOperatorError
from tests.support.agreement import agree
from vista_spark import compile_pipeline

KERNELS = ("linear", "poly", "rbf", "sigmoid")
NAMES = np.array(["setosa", "b", "c"])
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of probability=True


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("data", [load_iris, load_breast_cancer], ids=["three", "two"])
def test_classifiers(kernel: str, data: Any) -> None:
    table, labels = data(return_X_y=True)
    table = table / table.max(axis=0)
    model = SVC(kernel=kernel, coef0=0.5, probability=True, random_state=0).fit(table[::2], NAMES[labels[::2]])
    agree(model, table, table.astype(np.float32), 10 - 20 * table)


@pytest.mark.parametrize(
    "model",
    [
        SVC(gamma="auto", decision_function_shape="ovo"),
        SVC(break_ties=True),
        SVC(C=0.01, class_weight="balanced"),
        SVC(kernel="poly", degree=5, gamma=0.01),
        NuSVC(nu=0.05),
        NuSVC(nu=0.05, probability=True, random_state=1),
    ],
    ids=str,
)
def test_many_classes(model: Any) -> None:
    table, labels = load_digits(return_X_y=True)
    model.fit(table[:300], labels[:300])
    agree(model, table[200:700])


@pytest.mark.parametrize("model", [SVC(), NuSVC(nu=0.1), SVR(kernel="poly"), OneClassSVM(nu=0.2)], ids=str)
def test_fitted_on_sparse_rows(model: Any) -> None:
    """After an encoder the vectors and their weights are sparse."""
    table, labels = load_iris(return_X_y=True)
    agree(make_pipeline(OneHotEncoder(handle_unknown="ignore"), model).fit(table[::2], labels[::2]), table)


def test_equal_votes() -> None:
    """Three classes around the origin: in the middle and far out, each wins one vote, or no score is above zero."""
    rows = np.array([[1.0, 0], [-0.5, 1], [-0.5, -1]]).repeat(2, axis=0)
    labels = np.arange(6) // 2
    draw = np.random.default_rng(0)
    around = np.vstack([np.zeros((1, 2)), draw.normal(size=(400, 2)) * 0.1, draw.normal(size=(50, 2)) * 1e3])
    model = SVC(gamma=5.0, C=1e-3).fit(rows, labels)
    assert np.array_equal(compile_pipeline(model).predict(around), model.predict(around))
    # Beyond all vectors every kernel is zero, and the score is the intercept: exactly zero in the middle of two.
    pair = SVC(gamma=1.0).fit([[-1.0], [1.0]], ["a", "b"])
    middle = np.array([[0.0], [1e6], [-1e6], [1.0], [-0.0]])
    assert np.array_equal(compile_pipeline(pair).predict(middle), pair.predict(middle))


@pytest.mark.parametrize("kernel", KERNELS)
def test_regressors(kernel: str) -> None:
    table, values = load_diabetes(return_X_y=True)
    for model in (SVR(kernel=kernel, C=10), NuSVR(kernel=kernel, gamma=0.3)):
        agree(model.fit(table[::2], values[::2]), table, table.astype(np.float32))


def test_one_class() -> None:
    table = load_iris().data
    for kernel in KERNELS:
        agree(OneClassSVM(kernel=kernel, nu=0.2, gamma=0.1).fit(table[::2]), table, 9 - table)


def test_a_tie_broken_over_pairs_has_no_prediction() -> None:
    table, labels = load_iris(return_X_y=True)
    model = SVC(break_ties=True, decision_function_shape="ovo").fit(table, labels)
    agree(model, table, without=("predict",))


def test_what_has_no_translation() -> None:
    table, labels = load_iris(return_X_y=True)
    with pytest.raises(UnsupportedOperatorError, match="SVC with kernel='precomputed'"):
        compile_pipeline(SVC(kernel="precomputed").fit(table @ table.T, labels))
    with pytest.raises(UnsupportedOperatorError, match="SVC with kernel=<"):
        compile_pipeline(SVC(kernel=lambda one, other: one @ other.T).fit(table, labels), example=table[:1])


def test_rows_with_holes_are_refused() -> None:
    table, labels = load_iris(return_X_y=True)
    compiled = compile_pipeline(SVC().fit(table, labels))
    with pytest.raises(ValueError, match="row 2 has NaN or an infinity, which SVC does not take"):
        compiled.predict([[0, 0, 0, 0.0]] * 2 + [[0, 0, 0, np.nan]])


@pytest.mark.parametrize("kernel", ["linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"])
def test_kernel_ridge(kernel: str) -> None:
    table, values = load_diabetes(return_X_y=True)
    for target in (values[::2], np.stack([values, -values], axis=1)[::2]):
        model = KernelRidge(kernel=kernel, alpha=0.5, degree=2).fit(table[::2], target)
        agree(model, table, table.astype(np.float32))
    small = KernelRidge(kernel=kernel, gamma=0.3).fit(table[::2].astype(np.float32), values[::2])
    agree(small, table.astype(np.float32))


def test_kernel_ridge_with_another_kernel_is_refused() -> None:
    table, values = load_diabetes(return_X_y=True)
    model = KernelRidge(kernel="chi2", gamma=1.0).fit(np.abs(table), values)
    with pytest.raises(UnsupportedOperatorError, match="KernelRidge with kernel='chi2' cannot be compiled"):
        compile_pipeline(model)
