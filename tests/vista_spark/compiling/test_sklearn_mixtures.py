"""Mixtures of normal distributions and the elliptic envelope, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.covariance import EllipticEnvelope
from sklearn.datasets import load_iris, load_wine
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from tests.support.agreement import agree
from vista_spark import compile_pipeline

KINDS = ("full", "tied", "diag", "spherical")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [load_iris, load_wine], ids=["iris", "wine"])
def test_mixtures(kind: str, data: Any) -> None:
    table = data().data
    table = table / table.std(axis=0)
    for model in (
        GaussianMixture(3, covariance_type=kind, random_state=0),
        BayesianGaussianMixture(n_components=4, covariance_type=kind, random_state=0, max_iter=30),
        BayesianGaussianMixture(
            n_components=2,
            covariance_type=kind,
            weight_concentration_prior_type="dirichlet_distribution",
            random_state=0,
            max_iter=30,
        ),
    ):
        agree(model.fit(table[::2]), table, 9 * table)


@pytest.mark.parametrize("kind", KINDS)
def test_mixtures_and_float32(kind: str) -> None:
    table = load_iris().data
    narrow = table.astype(np.float32)
    agree(GaussianMixture(3, covariance_type=kind, random_state=0).fit(table), narrow)
    model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(narrow)
    compiled = compile_pipeline(model)
    assert (compiled.predict(narrow) == model.predict(narrow)).all()
    assert compiled.score_samples(narrow).dtype == model.score_samples(narrow).dtype
    np.testing.assert_allclose(compiled.score_samples(narrow), model.score_samples(narrow), rtol=1e-4, atol=1e-4)


def test_shares_far_from_all_components() -> None:
    # There the logarithm of 2 is lost in a sum of 1e30, and the shares of two equal components are 1 each.
    table = np.random.default_rng(0).normal(size=(80, 3))
    model = GaussianMixture(2, covariance_type="tied", random_state=0).fit(table)
    far = np.concatenate([np.full((1, 3), 1e39), np.full((1, 3), -1e150)])
    assert (model.predict_proba(far) == 1).all()
    np.testing.assert_array_equal(compile_pipeline(model).predict_proba(far), model.predict_proba(far))


def test_the_envelope() -> None:
    table = load_wine().data[:, :6]
    model = EllipticEnvelope(contamination=0.2, random_state=0).fit(table)
    compiled = agree(model, table, table.astype(np.float32), near=1e-7)
    assert set(compiled.predict(table)) == {-1, 1}
