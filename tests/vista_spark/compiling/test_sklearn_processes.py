"""Kernel ridge regression and Gaussian processes, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.kernel_ridge import KernelRidge

from optimizer.compiling import UnsupportedOperatorError
from tests.support.agreement import agree
from vista_spark import compile_pipeline

FORMS = (
    ConstantKernel(2.0) * RBF(0.3) + WhiteKernel(0.5),
    RBF(np.linspace(0.1, 1, 10)) + 0.2,
    Matern(0.3, nu=0.5),
    Matern(0.3, nu=1.5),
    Matern(np.linspace(0.1, 1, 10), nu=2.5),
    Matern(0.3, nu=np.inf),
    RationalQuadratic(0.2, 1.5),
    ExpSineSquared(0.7, 1.3),
    DotProduct(0.4) ** 2,
    PairwiseKernel(metric="rbf", gamma=0.7),
)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_regressors(form: Any) -> None:
    table, values = load_diabetes(return_X_y=True)
    model = GaussianProcessRegressor(form, alpha=0.5, normalize_y=True, optimizer=None).fit(table[:150], values[:150])
    # The last rows are the model's own: nothing cancels at distance zero.
    agree(model, table[100:250], near=1e-7)


def test_regressors_of_two_columns_and_of_whole_numbers() -> None:
    rows = np.random.default_rng(0).integers(0, 4, (40, 3))
    values = np.stack([rows.sum(axis=1), rows[:, 0] ** 2], axis=1)
    agree(GaussianProcessRegressor(RBF(2.0), alpha=0.1, normalize_y=True, optimizer=None).fit(rows, values), rows)


@pytest.mark.parametrize("form", FORMS[:9:2], ids=str)
def test_classifiers_of_two(form: Any) -> None:
    table, labels = load_breast_cancer(return_X_y=True)
    table = (table / table.max(axis=0))[:, :10]
    model = GaussianProcessClassifier(form, optimizer=None).fit(table[:120], np.array(["no", "yes"])[labels[:120]])
    agree(model, table[80:300], near=1e-7)


@pytest.mark.parametrize("way", ["one_vs_rest", "one_vs_one"])
def test_classifiers_of_several(way: str) -> None:
    table, labels = load_iris(return_X_y=True)
    model = GaussianProcessClassifier(1.5 * RBF(1.2), multi_class=way, optimizer=None).fit(table[::3], labels[::3])
    agree(model, table, table.astype(np.float32), without=("predict_proba",) if way == "one_vs_one" else ())


@pytest.mark.parametrize("kernel", ["linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"])
def test_kernel_ridge(kernel: str) -> None:
    table, values = load_diabetes(return_X_y=True)
    for target in (values[::2], np.stack([values, -values], axis=1)[::2]):
        model = KernelRidge(kernel=kernel, alpha=0.5, degree=2).fit(table[::2], target)
        agree(model, table, table.astype(np.float32))
    small = KernelRidge(kernel=kernel, gamma=0.3).fit(table[::2].astype(np.float32), values[::2])
    agree(small, table.astype(np.float32))


def test_what_has_no_translation() -> None:
    table, values = load_diabetes(return_X_y=True)
    bessel = GaussianProcessRegressor(Matern(nu=0.7), alpha=1.0, optimizer=None).fit(table[:30], values[:30])
    with pytest.raises(UnsupportedOperatorError, match=r"Matern kernel of nu=0.7 needs a Bessel function"):
        compile_pipeline(bessel)
    chi = KernelRidge(kernel="chi2", gamma=1.0).fit(np.abs(table), values)
    with pytest.raises(UnsupportedOperatorError, match="KernelRidge with kernel='chi2'"):
        compile_pipeline(chi)
