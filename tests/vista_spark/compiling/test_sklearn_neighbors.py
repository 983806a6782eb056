"""Neighbours, against scikit-learn: what it decides is given, what its search happens to decide is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from optimizer.compiling import UnsupportedOperatorError
from tests.support.agreement import METHODS, agree, answers_agree
from vista_spark import compile_pipeline

NAMES = np.array(["a", "bb", "c"])
METRICS = (("euclidean", 2), ("manhattan", 2), ("chebyshev", 2), ("minkowski", 3), ("cosine", 2))


def sure(model: Any, table: np.ndarray[Any, Any], *, least: float, near: float = 1e-6) -> None:
    """Compare the rows that are not refused, of which there must be a part."""
    compiled = compile_pipeline(model)
    good = ~compiled._scorer.run(table).bad
    assert good.mean() >= least
    for method in METHODS:
        if method in compiled.outputs and good.any():
            answers_agree(getattr(compiled, method)(table[good]), getattr(model, method)(table[good]), method, near)


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree", "brute"])
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric[0])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_measured_data(algorithm: str, metric: tuple[str, float], weights: str) -> None:
    if metric[0] == "cosine" and algorithm != "brute":
        return
    table, values = load_diabetes(return_X_y=True)
    options = {"algorithm": algorithm, "metric": metric[0], "p": metric[1], "weights": weights}
    apart = table + np.random.default_rng(0).normal(size=table.shape) * 1e-3
    rounds_near_points = metric[0] == "cosine" and weights == "distance"
    tables = (apart,) if rounds_near_points else (apart, apart.astype(np.float32))
    for rows in tables:
        least = 0.98 if rows.dtype == np.float32 else 1
        near = 1e-5 if rows.dtype == np.float32 else 1e-6
        sure(KNeighborsRegressor(4, **options).fit(rows[::2], values[::2]), rows[1::2], least=least, near=near)
        sure(KNeighborsClassifier(4, **options).fit(rows[::2], values[::2] > 140), rows, least=0.97, near=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**16),
    st.sampled_from(METRICS[:4]),
    st.sampled_from(["kd_tree", "ball_tree", "brute"]),
    st.sampled_from(["uniform", "distance"]),
    st.integers(1, 9),
    st.sampled_from([np.float64, np.float32]),
)
def test_ties_are_settled_as_the_library_does_or_refused(
    seed: int, metric: tuple[str, float], algorithm: str, weights: str, count: int, dtype: Any
) -> None:
    """Rows on a grid of tenths, many of them equal."""
    draw = np.random.default_rng(seed)
    rows = (draw.integers(0, 5, (40, 2)) / draw.choice([1, 10])).astype(dtype)
    labels, values = NAMES[draw.integers(0, 3, 40)], draw.integers(0, 3, 40) / 1.0
    asked = np.concatenate([rows, rows + dtype(0.05)])
    options = {"algorithm": algorithm, "metric": metric[0], "p": metric[1], "weights": weights, "leaf_size": 3}
    sure(KNeighborsClassifier(count, **options).fit(rows, labels), asked, least=0)
    sure(KNeighborsRegressor(count, **options).fit(rows, values), asked, least=0)


def test_embeddings_of_float32_are_compared_row_by_row() -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(300, 24)).astype(np.float32)
    for metric in ("euclidean", "cosine", "manhattan"):
        model = KNeighborsClassifier(5, algorithm="brute", metric=metric).fit(rows, rows[:, 0] > 0)
        compiled = compile_pipeline(model)
        for asked in (draw.normal(size=(300, 24)).astype(np.float32), draw.normal(size=(300, 24))):
            refused = compiled._scorer.run(asked).bad
            assert refused.mean() <= 0.02
            np.testing.assert_array_equal(compiled.predict(asked[~refused]), model.predict(asked[~refused]))


def test_weights_of_cosines_of_float32_are_refused() -> None:
    """The library rounds the distances of near points to float32, so their inverses are chance."""
    options = {"algorithm": "brute", "metric": "cosine", "weights": "distance"}
    model = KNeighborsClassifier(2, **options).fit(np.float32([[0.0, 1.0], [1.0, 1.0], [3.0, 2.0]]), [0, 1, 1])
    with pytest.raises(UnsupportedOperatorError, match=r"metric='cosine', weights='distance'.*Fit on float64"):
        compile_pipeline(model)


def test_neighbours_that_agree_may_tie() -> None:
    rows = np.array([[0.0], [1.0], [1.0], [-1.0], [3.0]])
    compiled = agree(KNeighborsClassifier(2).fit(rows, [0, 1, 1, 1, 0]), np.array([[0.0], [0.1]]))
    assert compiled.predict_proba([[0.0]]).tolist() == [[0.5, 0.5]]
    torn = compile_pipeline(KNeighborsClassifier(2).fit(rows, [0, 1, 1, 0, 0]))
    with pytest.raises(ValueError, match="row 1 has neighbours at one distance"):
        torn.predict([[0.1], [0.0]])


@pytest.mark.parametrize("data", [load_iris, load_breast_cancer, load_digits], ids=["iris", "cancer", "digits"])
def test_few_rows_of_real_data_are_refused(data: Any) -> None:
    table, labels = data(return_X_y=True)
    table, labels = table[:600], labels[:600]
    for weights in ("uniform", "distance"):
        sure(KNeighborsClassifier(weights=weights).fit(table[::2], labels[::2]), table, least=0.97, near=1e-5)


def test_several_outputs() -> None:
    table, labels = load_iris(return_X_y=True)
    target = np.stack([NAMES[labels], NAMES[(labels + 1) % 2]], axis=1)
    apart = table + np.random.default_rng(0).normal(size=table.shape) * 1e-3
    for weights in ("uniform", "distance"):
        agree(KNeighborsClassifier(3, weights=weights).fit(apart, target), apart)


def test_what_has_no_translation() -> None:
    table, labels = load_iris(return_X_y=True)
    for model, message in (
        (KNeighborsClassifier(weights=lambda distance: distance), "weights=<function"),
        (KNeighborsClassifier(metric="canberra"), "metric='canberra'"),
        (KNeighborsClassifier(metric="minkowski", p=3, metric_params={"w": np.ones(4)}), "metric_params="),
    ):
        with pytest.raises(UnsupportedOperatorError, match=message):
            compile_pipeline(model.fit(table, labels))


def test_no_number_of_neighbours_is_refused() -> None:
    model = KNeighborsRegressor(n_neighbors=None).fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(UnsupportedOperatorError, match="KNeighborsRegressor with n_neighbors=None"):
        compile_pipeline(model)


def test_a_distance_whose_inverse_is_infinite_is_none() -> None:
    """The library weighs by the inverse first, and looks for infinities then."""
    points = np.array([[0.0], [1.0], [3.0], [7.0]])
    model = KNeighborsRegressor(2, weights="distance", algorithm="brute", metric="cityblock")
    model.fit(points, [10.0, 20.0, 30.0, 40.0])
    compiled = compile_pipeline(model)
    rows = np.array([[5e-324], [-1e-310], [1e-300], [0.0], [0.25]])
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_allclose(compiled.predict(rows), model.predict(rows), rtol=1e-12)
