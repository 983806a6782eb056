"""Drawn pipelines against their library: results within 1e-5, for missing values and numbers up to 1e30."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLERANCE = 1e-5
WIDTH = 4
SCORES = ("predict_proba", "decision_function", "transform")

FEATURIZERS: tuple[Any, ...] = (
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler(),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    Normalizer(),
    Normalizer("l1"),
    Binarizer(threshold=0.2),
    PolynomialFeatures(2),
    PolynomialFeatures(2, interaction_only=True, include_bias=False),
    PowerTransformer(),
    QuantileTransformer(n_quantiles=20),
    KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
    KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    PCA(2, random_state=0),
    SelectKBest(k=2),
    SimpleImputer(strategy="median", add_indicator=True),
    FeatureUnion([("scaled", StandardScaler()), ("signs", Binarizer())]),
    ColumnTransformer([("scaled", StandardScaler(), [2, 0])], remainder="passthrough"),
    ColumnTransformer([("coded", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [3])], remainder="drop"),
)
MODELS: tuple[Any, ...] = (
    DecisionTreeClassifier(max_depth=4, random_state=0),
    DecisionTreeRegressor(random_state=0),
    RandomForestClassifier(5, random_state=0),
    RandomForestRegressor(5, max_depth=5, random_state=0),
    ExtraTreesRegressor(5, random_state=0),
    GradientBoostingClassifier(n_estimators=4, random_state=0),
    HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5),
    HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5),
    IsolationForest(n_estimators=5, random_state=0),
    AdaBoostClassifier(n_estimators=3, random_state=0),
    LogisticRegression(C=0.5),
    LinearSVC(random_state=0),
    SGDClassifier(loss="modified_huber", random_state=0),
    Ridge(),
    Lasso(alpha=0.1),
    LinearDiscriminantAnalysis(),
    GaussianNB(),
    MLPClassifier((5,), max_iter=20, random_state=0),
    VotingClassifier([("line", LogisticRegression()), ("tree", DecisionTreeClassifier(max_depth=3))], voting="soft"),
    StackingRegressor([("line", Ridge()), ("tree", DecisionTreeRegressor(max_depth=3))], cv=2),
)
# Their answers for rows far from the table of the fit depend on the order of sums.
NEAR_MODELS: tuple[Any, ...] = (
    PoissonRegressor(),
    SVC(gamma=0.5),
    SVR(C=2.0),
)


def boosters() -> list[Any]:
    """Return small models of the boosting libraries that are installed."""
    found: list[Any] = []
    try:
        from lightgbm import LGBMClassifier, LGBMRegressor

        found += [LGBMClassifier(n_estimators=4, n_jobs=1, verbose=-1), LGBMRegressor(n_estimators=4, verbose=-1)]
    except ImportError:
        pass
    try:
        from xgboost import XGBClassifier, XGBRegressor

        found += [XGBClassifier(n_estimators=4, n_jobs=1), XGBRegressor(n_estimators=4, n_jobs=1)]
    except ImportError:
        pass
    try:
        from catboost import CatBoostClassifier

        found.append(CatBoostClassifier(iterations=4, silent=True, allow_writing_files=False, thread_count=1))
    except ImportError:
        pass
    return found


def numbers(most: float) -> st.SearchStrategy[float]:
    """Return a strategy of missing values and numbers up to a magnitude."""
    special = st.sampled_from((0.0, -0.0, 1.0, -1.0, 0.5, 2.0**20, most, -most, np.nan))
    return st.one_of(special, st.floats(-3, 3, width=32), st.floats(-most, most, allow_subnormal=False))


def training_table(seed: int, *, missing: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    draw = np.random.default_rng(seed)
    table = draw.normal(size=(60, WIDTH))
    table[:, 3] = draw.integers(0, 4, 60)
    target = (table[:, 0] + table[:, 1] ** 2 + draw.normal(0, 0.3, 60) > 1).astype(int) + (table[:, 3] > 2)
    if missing:
        table[draw.random(table.shape) < 0.05] = np.nan
    return table, target


def fitted(model: Any, table: NDArray[Any], target: NDArray[Any]) -> Any:
    """Fit a model, behind an imputer where it takes no missing values."""
    try:
        return clone(model).fit(table, target)
    except ValueError:
        return make_pipeline(SimpleImputer(), clone(model)).fit(table, target)


def answers(call: Any, rows: NDArray[Any]) -> list[Any]:
    """Return the answer of each row, ``None`` for those that are refused."""
    try:
        return list(np.asarray(call(rows)))
    except ValueError:
        if len(rows) == 1:
            return [None]
        return [answer for at in range(len(rows)) for answer in answers(call, rows[at : at + 1])]


def check_agreement(model: Any, rows: NDArray[Any]) -> None:
    """Compare refused rows, scores and classes of a model with those of its compiled pipeline."""
    compiled = compile_pipeline(model, threads=1)
    # Sums of great terms cancel to results whose error is that of the terms.
    sizes = np.maximum(np.abs(np.where(np.isnan(rows), 0, rows)).max(axis=1), 1.0)
    close = np.zeros(len(rows), np.bool_)
    for method in [name for name in SCORES if name in compiled.outputs] + ["predict"] * ("predict" in compiled.outputs):
        expected, ours = answers(getattr(model, method), rows), answers(getattr(compiled, method), rows)
        for row, size in enumerate(sizes):
            note(f"{method}, row {row}: {rows[row].tolist()}: {ours[row]} for {expected[row]}")
            assert (ours[row] is None) == (expected[row] is None)
            if expected[row] is not None:
                scale = 1.0 if method == "predict_proba" else float(size)
                close[row] |= check_row(method, np.ravel(ours[row]), np.ravel(expected[row]), scale, close=close[row])


def check_row(method: str, ours: NDArray[Any], expected: NDArray[Any], scale: float, *, close: bool) -> bool:
    """Compare the answers for one row, and return whether its two greatest scores are all but equal."""
    if method == "predict" and expected.dtype.kind in "iUb":
        assert close or (ours == expected).all()
        return False
    np.testing.assert_allclose(ours, expected, rtol=TOLERANCE, atol=TOLERANCE * scale)
    if method not in {"predict_proba", "decision_function"}:
        return False
    ordered = np.sort(expected)[::-1]
    margin = ordered[0] - ordered[1] if len(ordered) > 1 else abs(ordered[0])
    return not margin > 2 * TOLERANCE * scale


@st.composite
def cases(draw: Any) -> tuple[Any, int, bool, list[list[float]], str]:
    """Draw a pipeline that is not fitted, the seed of its table, and rows beside those of the fit."""
    model = draw(st.sampled_from((*MODELS, *NEAR_MODELS, *boosters())))
    steps = draw(st.lists(st.sampled_from(FEATURIZERS), max_size=2))
    # Edges of bins are numbers of the table, so that a sum before them decides by its last bit.
    steps.sort(key=lambda step: not isinstance(step, KBinsDiscretizer))
    most = 1e3 if model in NEAR_MODELS else 1e30
    rows = draw(st.lists(st.lists(numbers(most), min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=5))
    pipeline = Pipeline([(f"step_{place}", step) for place, step in enumerate([*steps, model])])
    return pipeline, draw(st.integers(0, 50)), draw(st.booleans()), rows, draw(st.sampled_from(("f8", "f4")))


def check_case(case: tuple[Any, int, bool, list[list[float]], str]) -> None:
    pipeline, seed, missing, more, dtype = case
    table, target = training_table(seed, missing=missing)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = fitted(pipeline, table, target)
        except ValueError:
            return  # what was drawn does not go together
        check_agreement(model, np.concatenate([table[:20], np.array(more)]).astype(dtype))


RELAXED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED, derandomize=True)
@given(cases())
def test_a_drawn_pipeline_agrees_with_its_library(case: Any) -> None:
    check_case(case)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=RELAXED)
@given(cases())
def test_many_drawn_pipelines_agree_with_their_library(case: Any) -> None:
    check_case(case)
