"""Clusterings, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import AffinityPropagation, Birch, BisectingKMeans, KMeans, MeanShift, MiniBatchKMeans
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from optimizer.compiling import UnsupportedOperatorError
from tests.support.agreement import agree
from vista_spark import compile_pipeline

MODELS = (
    KMeans(4, n_init=2, random_state=0),
    MiniBatchKMeans(3, n_init=1, random_state=0),
    BisectingKMeans(7, random_state=0),
    BisectingKMeans(1, random_state=0),
    MeanShift(),
    AffinityPropagation(random_state=0),
    Birch(n_clusters=3),
    Birch(n_clusters=None, threshold=0.8),
)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("data", [load_iris, load_wine], ids=["iris", "wine"])
def test_clusters(model: Any, data: Any) -> None:
    table = data().data
    table = table / table.std(axis=0)
    # The library's own distances lose digits beside a centre: its root of an error of 1e-16 is 1e-8.
    compiled = agree(model.fit(table[::2]), table, 20 * table, near=1e-6)
    assert compiled.predict(table).dtype == model.predict(table).dtype


@pytest.mark.parametrize("model", [KMeans(3, n_init=1), BisectingKMeans(4), Birch(n_clusters=2), MeanShift()], ids=str)
def test_of_float32(model: Any) -> None:
    table = load_iris().data.astype(np.float32)
    agree(model.fit(table[::2]), table)


@pytest.mark.parametrize("model", [KMeans(5, n_init=1, random_state=0), BisectingKMeans(9, random_state=0)], ids=str)
def test_many_columns(model: Any) -> None:
    table = load_digits().data
    agree(model.fit(table[::4]), table, near=1e-6)


def test_a_row_between_centres_goes_to_the_first() -> None:
    rows = np.array([[0.0, 0], [0, 8], [8, 0], [8, 8]])
    between = np.array([[4.0, 4], [4, 0], [0, 4], [4, 8], [4, 2**20], [2**20, 4]])
    for model in (KMeans(4, n_init=1, random_state=0), BisectingKMeans(4, random_state=0), Birch(n_clusters=None)):
        agree(model.fit(rows), between)


def test_distances_are_exact_beside_a_centre() -> None:
    centres = np.array([[1e6, 1e6], [1e6 + 1, 1e6]])
    compiled = compile_pipeline(KMeans(2, init=centres, n_init=1).fit(centres))
    np.testing.assert_array_equal(compiled.transform(centres + np.array([0, 2.0**-20])).min(axis=1), 2.0**-20)


def test_what_predicts_nothing_is_refused() -> None:
    table = load_iris().data
    model = AffinityPropagation(affinity="precomputed", random_state=0).fit(-np.abs(table @ table.T))
    with pytest.raises(UnsupportedOperatorError, match="AffinityPropagation with no centres"):
        compile_pipeline(model)


@pytest.mark.filterwarnings("ignore:Affinity propagation did not converge")
def test_centres_that_are_sparse() -> None:
    table = np.round(load_iris().data)
    model = make_pipeline(OneHotEncoder(), AffinityPropagation(random_state=0)).fit(table)
    assert hasattr(model[-1].cluster_centers_, "toarray")
    np.testing.assert_array_equal(compile_pipeline(model).predict(table), model.predict(table))


def test_bisections_beyond_all_floats() -> None:
    """Both squares are infinite there, or no number: the library goes left."""
    table = load_iris().data
    model = BisectingKMeans(5, random_state=0).fit(table)
    great = np.vstack([table * scale for scale in (1e154, 1e300, -1e300, 1.7e307)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compile_pipeline(model).predict(great), model.predict(great))


def test_products_are_doubled_once_they_are_added_up() -> None:
    """Doubled before, two that cancel would be infinite at the greatest floats."""
    table = np.array([[-1.0, 1], [-0.9, 1], [1, -1], [1, -0.8]])
    model = KMeans(2, random_state=0, n_init=1).fit(table)
    huge = np.array([[1.7e308, 1.7e308], [1.2e308, 1e308], [1e308, 1.2e308], [-1.2e308, 1e308]])
    np.testing.assert_array_equal(compile_pipeline(model).predict(huge), model.predict(huge))


def test_of_float32_a_cosine_is_computed_in_float64_beside_points_of_float64() -> None:
    table = np.random.default_rng(0).random((40, 4))
    model = Nystroem(kernel="cosine", n_components=3, random_state=0).fit(table)
    huge = np.array([[0.4, 0.8, 3.4e38, 15], [1e25, 1, 2, 3]], np.float32)
    np.testing.assert_allclose(compile_pipeline(model).transform(huge), model.transform(huge), rtol=1e-6)
