"""Leaves, categories and isolation in scikit-learn's trees, against the library."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tree_agreement import agree, holes, near_thresholds, strange

from optimizer.compiling import STRATEGIES, UnsupportedOperatorError
from vista_spark.compiling import compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError

DRAW = np.random.default_rng(0)
ROWS = 400
TABLE = np.column_stack(
    [
        DRAW.normal(size=ROWS),
        DRAW.choice([1.5, 2, 3, 7, -4, 30], ROWS),
        DRAW.normal(size=ROWS),
        DRAW.integers(0, 50, ROWS),
    ]
)
SPECIES = (TABLE[:, 1] > 2) + (TABLE[:, 3] % 3 == 0)
MISSING = holes(TABLE)
ASKED = np.concatenate([MISSING, strange(TABLE, more=(255.0, 256.0, 1.5))])


@pytest.mark.parametrize("columns", [[1, 3], [3], [0]], ids=str)
@pytest.mark.parametrize("stops", [False, True], ids=["all", "early"])
def test_categories_of_histogram_boosting(columns: list[int], stops: bool) -> None:
    """A category that was held out of training, or never seen, is missing; columns of categories come first inside."""
    table, asked = np.round(MISSING, 0) if columns == [0] else MISSING, np.round(ASKED, 0) if columns == [0] else ASKED
    options: dict[str, Any] = {"max_iter": 5, "categorical_features": columns, "early_stopping": stops}
    model = HistGradientBoostingClassifier(**options).fit(table, SPECIES)
    agree(model, asked, strategies=STRATEGIES)
    agree(HistGradientBoostingRegressor(**options, loss="quantile", quantile=0.3).fit(table, SPECIES), asked)


def test_a_category_that_only_the_held_out_rows_have_goes_where_the_library_sends_it() -> None:
    codes = np.where(np.arange(300) < 200, np.arange(300) % 4, np.arange(300) % 60 + 4.0)
    codes = np.where(np.arange(300) % 5 == 1, np.nan, codes)[:, None]
    target = np.where(np.isnan(codes[:, 0]), 5.0, codes[:, 0] % 2)
    options: dict[str, Any] = {"max_iter": 5, "categorical_features": [0], "early_stopping": True}
    for seed in range(3):
        model = HistGradientBoostingRegressor(
            **options, validation_fraction=0.6, min_samples_leaf=2, random_state=seed, max_leaf_nodes=5
        )
        agree(model.fit(codes, target), codes)


def test_nothing_but_categories() -> None:
    asked = ASKED[:, [1, 3]]
    for least in (5, 300):
        model = HistGradientBoostingRegressor(max_iter=4, categorical_features=[0, 1], min_samples_leaf=least)
        agree(model.fit(TABLE[:, [1, 3]], SPECIES), asked)
    with pytest.raises(InvalidArgumentError, match="row 0 has an infinity, which HistGradientBoostingRegressor"):
        compile_pipeline(model).predict([[np.inf, 1.0]])


@pytest.mark.parametrize("boosting", [HistGradientBoostingClassifier, HistGradientBoostingRegressor])
def test_categories_that_are_texts(boosting: Any) -> None:
    """Columns of a DataFrame that are categoricals; unknown texts are missing ones."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "length": MISSING[:200, 0],
            "city": pd.Categorical(draw.choice(["Oslo", "Malm\u00f6", "", None], 200)),
            "grade": pd.Categorical(draw.choice([3.0, 7.0, 9.0], 200)),
            "size": pd.Categorical(draw.choice([*"abcdefgh"], 200)),
        }
    )
    target = (frame["city"] == "Oslo") * 1 + frame["size"].isin([*"efgh"]) * 2
    model = boosting(max_iter=8, categorical_features="from_dtype").fit(frame, target)
    compiled = compile_pipeline(model)
    asked = frame.assign(city=frame["city"].cat.set_categories(["Oslo", "Malmo\u0308", "oslo", ""]))
    asked["city"] = asked["city"].fillna("oslo").where(np.arange(200) % 7 > 0)
    for rows in (frame, asked, asked.astype({"city": object, "size": object, "grade": float})):
        given = rows.astype({"city": "category", "size": "category", "grade": "category"})
        np.testing.assert_allclose(compiled.predict(rows), model.predict(given), rtol=1e-12)
    with pytest.raises(ColumnError, match="must hold texts, as in training"):
        compiled.predict(frame.assign(city=0.0))


def test_categories_that_are_neither_numbers_nor_texts_are_refused() -> None:
    days = np.array([dt.date(2026, 1, 1), dt.date(2026, 1, 2)], object)[np.arange(40) % 2][:, None]
    model = HistGradientBoostingClassifier(max_iter=1, categorical_features=[0]).fit(days, np.arange(40) % 2)
    with pytest.raises(UnsupportedOperatorError, match="categories must be numbers or texts"):
        compile_pipeline(model)


@pytest.mark.parametrize("loss", ["gamma", "poisson"])
def test_losses_with_a_logarithm(loss: str) -> None:
    agree(HistGradientBoostingRegressor(max_iter=5, loss=loss).fit(MISSING, SPECIES + 1.0), ASKED)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=5),
        RandomForestClassifier(5, max_depth=4),
        ExtraTreesRegressor(3),
        GradientBoostingClassifier(n_estimators=4),
        GradientBoostingRegressor(n_estimators=4),
    ],
    ids=lambda model: type(model).__name__,
)
def test_leaves_have_the_librarys_numbers(model: Any) -> None:
    model.fit(TABLE, SPECIES)
    compiled = compile_pipeline(model)
    rows = near_thresholds(compiled, TABLE)
    agree(model, rows, strategies=STRATEGIES)
    assert compiled.apply(rows).shape == model.apply(rows).shape


@pytest.mark.parametrize("contamination", ["auto", 0.1, 0.25, 1 / 399], ids=str)
def test_isolation(contamination: Any) -> None:
    """The score of a row may be the offset itself: it is no outlier, to the last bit."""
    for columns in (1.0, 0.5):
        model = IsolationForest(n_estimators=15, contamination=contamination, max_features=columns, random_state=0)
        agree(model.fit(TABLE), np.concatenate([TABLE, strange(TABLE, more=(np.inf, -np.inf))]), absolute=1e-13)
        agree(model.fit(MISSING), ASKED, absolute=1e-13)


def test_isolation_by_one_column() -> None:
    model = IsolationForest(n_estimators=5, random_state=0)
    agree(model.fit(TABLE[:, :1]), TABLE[:, :1], absolute=1e-13)


@pytest.mark.parametrize("kind", [GradientBoostingClassifier, GradientBoostingRegressor])
def test_boosting_has_leaves_for_rows_that_it_does_not_predict(kind: Any) -> None:
    """Its trees take NaN; its other methods do not. Nor do they inside a pipeline."""
    model = kind(n_estimators=4, max_depth=3, random_state=0).fit(TABLE, SPECIES)
    compiled = compile_pipeline(model)
    np.testing.assert_array_equal(compiled.apply(MISSING), model.apply(MISSING))
    np.testing.assert_array_equal(compiled.predict(TABLE), model.predict(TABLE))
    for method in set(compiled.outputs) - {"apply"}:
        for predict in (getattr(model, method), getattr(compiled, method)):
            with pytest.raises(ValueError, match="NaN"):
                predict(MISSING)
    great = np.where(np.isnan(MISSING), np.inf, MISSING)
    for apply in (model.apply, compiled.apply):
        with pytest.raises(ValueError, match="infinity"):
            apply(great)
    inside = compile_pipeline(make_pipeline(StandardScaler(), kind(n_estimators=2, random_state=0)).fit(TABLE, SPECIES))
    with pytest.raises(InvalidArgumentError, match="NaN or an infinity, which GradientBoosting"):
        inside.predict(MISSING)


def test_a_selector_that_takes_nan_takes_infinities() -> None:
    table = np.concatenate([MISSING, np.full((1, 4), np.inf), np.full((1, 4), -1e300)])
    model = VarianceThreshold(2.0).fit(TABLE)
    assert 0 < model.get_support().sum() < 4
    for rows in (table, np.float32(MISSING)):
        np.testing.assert_array_equal(compile_pipeline(model).transform(rows), model.transform(rows))
    best = SelectKBest(k=2).fit(TABLE, SPECIES)
    for transform in (best.transform, compile_pipeline(best).transform):
        with pytest.raises(ValueError, match="NaN"):
            transform(table)
