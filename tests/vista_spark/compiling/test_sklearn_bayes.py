"""Naive Bayes, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

from tests.support.agreement import agree
from vista_spark import compile_pipeline

NAMES = np.array([f"number {number}" for number in range(10)])


@pytest.mark.parametrize(
    "model",
    [
        GaussianNB(),
        GaussianNB(priors=np.array([0.5, 0.5, 0.0])),
        MultinomialNB(),
        MultinomialNB(fit_prior=False),
        ComplementNB(norm=True),
        BernoulliNB(binarize=2.5),
        BernoulliNB(binarize=None),
    ],
    ids=str,
)
@pytest.mark.parametrize("data", [load_iris, load_wine], ids=["iris", "wine"])
def test_numbers(model: Any, data: Any) -> None:
    table, labels = data(return_X_y=True)
    own = (table > 2).astype(float) if getattr(model, "binarize", 0) is None else table
    model.fit(own[::2], NAMES[labels[::2]])
    agree(model, own, own.astype(np.float32), 7.5 * own)


def test_counts_of_ten_classes() -> None:
    table, labels = load_digits(return_X_y=True)
    for model in (MultinomialNB(), ComplementNB(), BernoulliNB(binarize=8.0), CategoricalNB(min_categories=17)):
        agree(model.fit(table[:900], labels[:900]), table)


def test_one_class_alone() -> None:
    table = load_iris().data
    for model in (MultinomialNB(), ComplementNB(), GaussianNB()):
        agree(model.fit(table, np.zeros(150)), table)


def test_categories_are_whole_numbers_and_known() -> None:
    draw = np.random.default_rng(0)
    table = draw.integers(0, [3, 5, 2], (120, 3))
    model = CategoricalNB().fit(table, draw.integers(0, 3, 120))
    compiled = agree(model, table.astype(float) + 0.75, np.array([[-0.9, 0.0, 0.0]]), table.astype(np.float32))
    with pytest.raises(ValueError, match="row 0 has a category that was not seen"):
        compiled.predict([[1e30, 0, 0]])
    for wrong in (3.0, -1.0):
        with pytest.raises(ValueError, match="row 1 has a category that was not seen in training"):
            compiled.predict([[0, 0, 0], [wrong, 0, 0]])
        with pytest.raises((ValueError, IndexError)):
            model.predict([[wrong, 0, 0]])


@pytest.mark.filterwarnings("ignore:.*encountered")
@pytest.mark.parametrize("kind", [ComplementNB, MultinomialNB])
def test_beside_an_endless_score_others_are_zero(kind: Any) -> None:
    counts = np.array([[9.0, 0, 1], [8, 1, 0], [0, 7, 9], [1, 9, 7]])
    model = kind().fit(counts, [0, 0, 1, 1])
    huge = np.array([[1.79e308, 0, 0], [0, 0, 1.79e308], [1.79e308] * 3, [1e300, 2, 3]])
    np.testing.assert_allclose(compile_pipeline(model).predict_proba(huge), model.predict_proba(huge), rtol=1e-9)
