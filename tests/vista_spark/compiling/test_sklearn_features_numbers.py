"""Featurizers of numbers against scikit-learn: curves, bins, products, imputers, projections."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes
from sklearn.decomposition import NMF, PCA, FactorAnalysis, FastICA, IncrementalPCA, KernelPCA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import Lasso, Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import compile_pipeline
from vista_spark.errors import InvalidArgumentError

# IterativeImputer asks for this import before its own.
importlib.import_module("sklearn.experimental.enable_iterative_imputer")
IterativeImputer = importlib.import_module("sklearn.impute").IterativeImputer

TABLE = (load_diabetes().data[:, :5] * 30).astype(np.float32).astype(np.float64)
FAR = np.concatenate([TABLE, 5 * TABLE, 100 * TABLE[:1], np.zeros((1, 5)), -np.zeros((1, 5))])
HOLES = np.where(np.random.default_rng(0).random(TABLE.shape) < 0.2, np.nan, TABLE)
GRID = np.round(TABLE)
ABOVE = np.abs(FAR) + 0.01


def name(value: Any) -> str:
    return repr(value)[:60] if hasattr(value, "fit") else ""


def same(model: Any, train: Any, table: Any) -> None:
    model.fit(train)
    compiled = compile_pipeline(model)
    for dtype in (np.float64, np.float32):
        given = table.astype(dtype)
        truth, ours = model.transform(given), compiled.transform(given)
        truth = truth.toarray() if hasattr(truth, "toarray") else truth
        assert ours.shape == truth.shape
        assert (ours.dtype.kind == "b") == (truth.dtype.kind == "b")
        tolerance = 1e-9 if dtype == np.float64 else 1e-5
        scale = max(1.0, float(np.nanmax(np.abs(truth.astype(float)))))
        np.testing.assert_allclose(ours, truth, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("function", [np.log1p, np.abs, np.exp, np.cbrt, np.sign, np.isnan, np.rint, np.sqrt, np.cos])
def test_functions_of_numpy(function: Any) -> None:
    table = np.array([[0.0, 1.0, 8.0, 27.0, -0.0], [0.5, 1.5, 2.5, 1e-300, np.nan], [3.0, 1e30, 0.1, np.inf, 1e-5]])
    with np.errstate(all="ignore"):
        model = FunctionTransformer(function).fit(table)
        np.testing.assert_allclose(compile_pipeline(model).transform(table), model.transform(table), rtol=1e-14)


@pytest.mark.parametrize(
    ("model", "train", "table"),
    [
        (PowerTransformer(), TABLE, FAR),
        (PowerTransformer(standardize=False), HOLES, HOLES),
        (PowerTransformer("box-cox"), ABOVE, ABOVE),
        *((QuantileTransformer(n_quantiles=30), TABLE, near) for near in (FAR, HOLES)),
        (QuantileTransformer(n_quantiles=30, output_distribution="normal"), TABLE, FAR),
        # Repeated quantiles: the mean of both ends.
        (QuantileTransformer(n_quantiles=100), GRID, FAR),
        (QuantileTransformer(n_quantiles=100, output_distribution="normal"), GRID, GRID),
        (SimpleImputer(add_indicator=True), HOLES, HOLES),
        (SimpleImputer(missing_values=0, strategy="median"), GRID, GRID),
        (SimpleImputer(strategy="constant", fill_value=7, add_indicator=True), HOLES, HOLES),
        (MissingIndicator(), HOLES, HOLES),
        (MissingIndicator(missing_values=-1, features="all"), GRID, GRID),
        (IterativeImputer(max_iter=4, tol=10), HOLES, HOLES[:200]),
        (
            IterativeImputer(Ridge(), max_iter=2, tol=10, add_indicator=True, min_value=-1, max_value=1),
            HOLES,
            HOLES[:200],
        ),
        (PCA(2, whiten=True), TABLE, FAR),
        (IncrementalPCA(2, whiten=True), TABLE, FAR),
        (FastICA(3, whiten="unit-variance", random_state=0, max_iter=1000), TABLE, TABLE),
        (FactorAnalysis(2), TABLE, TABLE),
        *((KernelPCA(3, kernel=kind, gamma=0.05), TABLE[:90], TABLE) for kind in ("linear", "poly", "rbf", "cosine")),
        (GaussianRandomProjection(3, random_state=0), TABLE, TABLE),
        (SparseRandomProjection(3, random_state=0), TABLE, TABLE),
    ],
    ids=name,
)
def test_rows_are_transformed_as_by_the_library(model: Any, train: Any, table: Any) -> None:
    same(model, train, table)


def test_the_least_float32_is_no_zero() -> None:
    """A tree may take a zero for what is missing."""
    train = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    model = PowerTransformer(standardize=False).fit(train)
    least = np.full((1, 2), 1e-45, np.float32)
    for rows in (least, -least):
        found = compile_pipeline(model).transform(rows)
        assert found.tolist() == model.transform(rows).tolist()
        assert np.all(found != 0)


@pytest.mark.parametrize("encode", ["ordinal", "onehot", "onehot-dense"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile", "kmeans"])
def test_bins(encode: str, strategy: str) -> None:
    train = TABLE[:, [0, 2, 3, 4]]
    more = {"quantile_method": "averaged_inverted_cdf"} if strategy == "quantile" else {}
    model = KBinsDiscretizer(4, encode=encode, strategy=strategy, subsample=None, **more).fit(train)
    edges = np.full((9, 4), 0.0)
    for column, own in enumerate(model.bin_edges_):
        edges[: 3 * len(own[1:-1]), column] = np.concatenate(
            [np.nextafter(own[1:-1], -np.inf), own[1:-1], np.nextafter(own[1:-1], np.inf)]
        )
    same(model, train, np.concatenate([FAR[:, [0, 2, 3, 4]], edges]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"degree": (2, 3)},
        {"degree": (0, 2), "order": "F"},
        {"degree": 3, "interaction_only": True},
        {"degree": (2, 4), "include_bias": False},
        {"degree": 1},
        {"degree": 0},
        {"degree": (3, 3), "interaction_only": True},
        {"degree": 7, "interaction_only": True},
    ],
    ids=str,
)
def test_polynomials(options: dict[str, Any]) -> None:
    for rows in (50, len(TABLE)):  # few are gathered, and many are written in place
        same(PolynomialFeatures(**options), TABLE, TABLE[:rows])


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_the_norm_of_one_column_overflows_and_vanishes_too(norm: Any) -> None:
    rows = np.array([[-1e300], [1e-200], [3.0], [-0.0], [1e-160]])
    model = Normalizer(norm).fit(rows)
    compiled = compile_pipeline(model)
    for table in (rows, np.repeat(rows, 100, axis=0)):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(compiled.transform(table), model.transform(table))


@pytest.mark.filterwarnings("ignore:.*Early stopping criterion not reached")
def test_an_imputer_refuses_no_row_for_what_it_has() -> None:
    inside = make_pipeline(PowerTransformer("box-cox"), Ridge())
    model = IterativeImputer(inside, max_iter=1, random_state=0).fit(np.abs(HOLES[:100]) + 0.01)
    compiled = compile_pipeline(model)
    whole = np.full((1, 5), -40.0)
    np.testing.assert_array_equal(compiled.transform(whole), model.transform(whole))
    whole[0, 1] = np.nan
    with pytest.raises(InvalidArgumentError, match="a number that is not positive"):
        compiled.transform(whole)


def test_quantiles_of_a_sparse_table_take_nothing_below_zero() -> None:
    bins = KBinsDiscretizer(3, strategy="uniform")
    both = FeatureUnion([("a", bins), ("b", FunctionTransformer(np.log1p))])
    for lenient in (False, True):
        spread = QuantileTransformer(n_quantiles=5, ignore_implicit_zeros=lenient)
        model = make_pipeline(both, spread).fit(np.abs(TABLE))
        compiled = compile_pipeline(model)
        np.testing.assert_allclose(compiled.transform(ABOVE[:9]), model.transform(ABOVE[:9]).toarray())
        low = np.where(np.arange(5) == 2, -0.5, ABOVE[:1])
        if lenient:
            np.testing.assert_allclose(compiled.transform(low), model.transform(low).toarray())
            continue
        with pytest.raises(ValueError, match="only accepts non-negative sparse"):
            model.transform(low)
        with pytest.raises(InvalidArgumentError, match="a number below zero, which QuantileTransformer does not take"):
            compiled.transform(low)


def test_booleans_are_computed_with_as_float64() -> None:
    """Whatever type the table is of; a constant column's power is a number that float32 rounds to another one."""
    model = make_pipeline(MissingIndicator(features="all"), PowerTransformer(), MinMaxScaler())
    few = np.where(np.random.default_rng(1).random(TABLE.shape) < 0.02, np.nan, TABLE)
    same(model, few, HOLES)
    compiled, given = compile_pipeline(model), few.astype(np.float32)
    np.testing.assert_allclose(compiled.transform(given), model.transform(given), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("output", ["normal", "uniform"])
def test_quantiles_of_a_sparse_table_leave_its_zeros(output: Any) -> None:
    spread = QuantileTransformer(n_quantiles=5, output_distribution=output)
    model = make_pipeline(KBinsDiscretizer(4, strategy="uniform"), spread).fit(TABLE)
    truth, ours = model.transform(TABLE).toarray(), compile_pipeline(model).transform(TABLE)
    assert (truth == 0).any()
    np.testing.assert_allclose(ours, truth)
    dense = make_pipeline(KBinsDiscretizer(4, strategy="uniform", encode="onehot-dense"), spread)
    np.testing.assert_allclose(compile_pipeline(dense.fit(TABLE)).transform(TABLE), dense.transform(TABLE))


def test_coordinate_descent_takes_what_a_sparse_table_has() -> None:
    def pipeline(encoder: OneHotEncoder) -> Any:
        both = FeatureUnion([("marks", encoder), ("as they are", "passthrough")])
        return make_pipeline(both, Lasso(0.01)).fit(TABLE, TABLE[:, 0])

    rows = np.array([[np.nan, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    model = pipeline(OneHotEncoder(handle_unknown="ignore", max_categories=3))
    assert np.isnan(model.predict(rows)[0])
    np.testing.assert_allclose(compile_pipeline(model).predict(rows), model.predict(rows))
    dense = pipeline(OneHotEncoder(handle_unknown="ignore", max_categories=3, sparse_output=False))
    for predict in (dense.predict, compile_pipeline(dense).predict):
        with pytest.raises(ValueError, match="NaN"):
            predict(rows)


@pytest.mark.parametrize(
    ("model", "train", "wrong", "message"),
    [
        (PowerTransformer("box-cox"), ABOVE, 0.0, "not positive"),
        (MissingIndicator(missing_values=0.0), np.array([[0.0, 1], [1, 1]]).repeat(3, axis=0), 0.0, "none in training"),
        (QuantileTransformer(n_quantiles=9), TABLE, np.inf, "an infinity"),
    ],
    ids=name,
)
def test_rows_that_the_library_refuses(model: Any, train: Any, wrong: float, message: str) -> None:
    compiled = compile_pipeline(model.fit(train))
    table = train[:4].copy()
    table[2, 1] = wrong
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
        model.transform(table)
    with pytest.raises(InvalidArgumentError, match=f"row 2 .*{message}"):
        compiled.transform(table)


KNN = [
    KNNImputer(),
    KNNImputer(n_neighbors=3, weights="distance", add_indicator=True),
    KNNImputer(n_neighbors=900),
    KNNImputer(missing_values=0.0, n_neighbors=2, keep_empty_features=True),
    KNNImputer(keep_empty_features=True),
]


def but_for_ties(model: Any, train: Any, table: Any, near: float = 1e-6) -> int:
    """Compare row by row, and count the rows that are refused for their ties."""
    compiled, truth = compile_pipeline(model.fit(train)), model.transform(table)
    refused = 0
    for place, row in enumerate(table):
        try:
            found = compiled.transform(row[None])
        except InvalidArgumentError as error:
            assert "rows of the fit at one distance" in str(error)  # most rows do not raise
            refused += 1
            continue
        assert found.dtype == truth.dtype
        np.testing.assert_allclose(found[0], truth[place], rtol=near, err_msg=f"{row}")
    return refused


@pytest.mark.parametrize("model", KNN, ids=name)
def test_nearest_rows_fill(model: Any) -> None:
    draw = np.random.default_rng(1)
    numbers = draw.normal(size=(200, 4)) * [1, 1, 1, 30]
    train = np.where(draw.random(numbers.shape) < 0.2, np.nan, numbers)
    table = np.concatenate([train[:80] + 0.01, np.full((1, 4), np.nan), 1e5 * numbers[:2], numbers[:2]])
    train[:, 1] = np.nan
    if model.missing_values == 0.0:
        train, table = np.nan_to_num(train), np.nan_to_num(table)
    # A weight of a small distance is lost where the library takes differences of squares.
    assert but_for_ties(model, train, table) <= 3 * (model.weights == "distance")
    assert but_for_ties(model, train.astype(np.float32), table.astype(np.float32), 1e-5) < 35


def test_ties_of_unequal_rows_are_refused_and_others_are_not() -> None:
    """On a grid many rows are equally near; whatever is not refused is the library's answer."""
    draw = np.random.default_rng(3)
    train, table = (np.where(draw.random((60, 4)) < 0.2, np.nan, draw.integers(0, 4, (60, 4))) for _ in range(2))
    for weights in ("uniform", "distance"):
        assert 10 < but_for_ties(KNNImputer(n_neighbors=3, weights=weights), train, table) < 50
    # Points at one distance that agree leave nothing to choose.
    both = np.array([[0.0, 1.0], [2.0, 1.0], [9.0, 5.0]])
    assert compile_pipeline(KNNImputer(n_neighbors=1).fit(both)).transform([[1.0, np.nan]]).tolist() == [[1.0, 1.0]]


def test_a_row_of_nothing_for_the_iterative_imputer() -> None:
    compiled = compile_pipeline(IterativeImputer(max_iter=2, tol=10).fit(HOLES))
    with pytest.raises(InvalidArgumentError, match="depends on the other rows"):
        compiled.transform(np.full((1, 5), np.nan))


def test_the_iterative_imputer_asks_for_what_is_missing() -> None:
    # A forest refuses the row for its 1e39. Where nothing is missing the library does not ask it.
    forest = ExtraTreesRegressor(3, max_depth=3, random_state=0)
    model = IterativeImputer(forest, max_iter=2, tol=10, random_state=0).fit(HOLES)
    compiled = compile_pipeline(model)
    rows = np.array([[1e39, 1.0, -1e39, 0.0, 1e300], [np.nan, 0.5, 1.0, 0.0, 1.0]])
    np.testing.assert_allclose(compiled.transform(rows), model.transform(rows))
    rows[0, 1] = np.nan
    for transform in (model.transform, compiled.transform):
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="float32"):
            transform(rows)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NMF(2, max_iter=500), "NMF .*solves a problem for each row"),
        (KNNImputer(weights=lambda d: d), "KNNImputer with weights="),
        (FunctionTransformer(lambda x: x), "FunctionTransformer with func="),
        (FunctionTransformer(np.reciprocal), "reciprocal"),
        (make_pipeline(MissingIndicator(features="all"), FunctionTransformer(np.sqrt)), "a table of booleans"),
        (FunctionTransformer(np.sqrt, kw_args={"dtype": float}), "kw_args"),
        (IterativeImputer(sample_posterior=True, max_iter=2, tol=10), "sample_posterior=True"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, BaseEstimator) else "",
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_refused(model: Any, message: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=message):
        compile_pipeline(model.fit(ABOVE[:50]))


def test_factors_of_float32_are_computed_in_float64() -> None:
    table = np.random.default_rng(0).normal(size=(60, 6)) * [1, 1, 1, 1, 30, 1] + 9
    model = FactorAnalysis(3, random_state=0).fit(table)
    single = table.astype(np.float32)
    np.testing.assert_allclose(compile_pipeline(model).transform(single), model.transform(single), rtol=1e-12)
