"""Clusterings, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits, load_iris, load_wine

from tests.support.agreement import agree
from vista_spark import compile_pipeline

MODELS = (
    KMeans(4, n_init=2, random_state=0),
    MiniBatchKMeans(3, n_init=1, random_state=0),
)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("data", [load_iris, load_wine], ids=["iris", "wine"])
def test_clusters(model: Any, data: Any) -> None:
    table = data().data
    table = table / table.std(axis=0)
    # The library's own distances lose digits beside a centre: its root of an error of 1e-16 is 1e-8.
    compiled = agree(model.fit(table[::2]), table, 20 * table, near=1e-6)
    assert compiled.predict(table).dtype == model.predict(table).dtype


@pytest.mark.parametrize("model", [KMeans(3, n_init=1)], ids=str)
def test_of_float32(model: Any) -> None:
    table = load_iris().data.astype(np.float32)
    agree(model.fit(table[::2]), table)


@pytest.mark.parametrize("model", [KMeans(5, n_init=1, random_state=0)], ids=str)
def test_many_columns(model: Any) -> None:
    table = load_digits().data
    agree(model.fit(table[::4]), table, near=1e-6)


def test_a_row_between_centres_goes_to_the_first() -> None:
    rows = np.array([[0.0, 0], [0, 8], [8, 0], [8, 8]])
    between = np.array([[4.0, 4], [4, 0], [0, 4], [4, 8], [4, 2**20], [2**20, 4]])
    agree(KMeans(4, n_init=1, random_state=0).fit(rows), between)


def test_distances_are_exact_beside_a_centre() -> None:
    centres = np.array([[1e6, 1e6], [1e6 + 1, 1e6]])
    compiled = compile_pipeline(KMeans(2, init=centres, n_init=1).fit(centres))
    np.testing.assert_array_equal(compiled.transform(centres + np.array([0, 2.0**-20])).min(axis=1), 2.0**-20)


def test_products_are_doubled_once_they_are_added_up() -> None:
    """Doubled before, two that cancel would be infinite at the greatest floats."""
    table = np.array([[-1.0, 1], [-0.9, 1], [1, -1], [1, -0.8]])
    model = KMeans(2, random_state=0, n_init=1).fit(table)
    huge = np.array([[1.7e308, 1.7e308], [1.2e308, 1e308], [1e308, 1.2e308], [-1.2e308, 1e308]])
    np.testing.assert_array_equal(compile_pipeline(model).predict(huge), model.predict(huge))
