"""Compiled models of LightGBM against the library: equal classes and leaves, equal values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

lightgbm = pytest.importorskip("lightgbm")

from sklearn.datasets import load_iris
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tree_agreement import agree, holes, near_thresholds, strange

from optimizer.compiling import STRATEGIES, UnsupportedOperatorError
from vista_spark.compiling import TensorPipeline, compile_pipeline, read_model
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from vista_spark.compiling import CompiledPipeline

# Of the library: parameters with two names, and eval_set=, which its older releases want.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore:The argument 'eval_set':FutureWarning")

DRAW = np.random.default_rng(0)
IRIS, SPECIES = (np.concatenate([part] * 3) for part in load_iris(return_X_y=True))
ROWS = len(IRIS)
# Four lengths, categories of forty and of six, and a number that is often zero.
TABLE = np.column_stack(
    [
        IRIS + DRAW.normal(size=IRIS.shape) * 0.3,
        DRAW.integers(0, 40, ROWS),
        DRAW.integers(0, 6, ROWS),
        np.where(DRAW.random(ROWS) < 0.4, 0, DRAW.normal(size=ROWS)),
    ]
)
MISSING = holes(TABLE)
ASKED = np.concatenate([MISSING, strange(TABLE, more=(np.inf, -np.inf, 1e39))])
SMALL = {"n_estimators": 6, "num_leaves": 9, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
Classifier = partial(lightgbm.LGBMClassifier, **SMALL)
Regressor = partial(lightgbm.LGBMRegressor, **SMALL)


def held(model: Any, table: NDArray[Any] = ASKED, **options: Any) -> CompiledPipeline:
    compiled = compile_pipeline(model)
    leaves = {"apply": partial(model.predict, pred_leaf=True)}
    return agree(model, near_thresholds(compiled, table), truth=leaves, compiled=compiled, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"boosting_type": "dart"},
        {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        {"data_sample_strategy": "goss"},
        {"zero_as_missing": True},
        {"use_missing": False},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
@pytest.mark.parametrize("categories", ["auto", [4, 5]], ids=["numbers", "categories"])
def test_every_kind_of_boosting_and_of_missing(options: dict[str, Any], categories: Any) -> None:
    for table in (TABLE, MISSING):
        held(Classifier(**options).fit(table, SPECIES, categorical_feature=categories))
    names = np.array(["no", "yes"])[(SPECIES > 0).astype(int)]
    held(Classifier(**options).fit(MISSING, names, categorical_feature=categories))
    held(Regressor(**options).fit(MISSING, SPECIES, categorical_feature=categories))


@pytest.mark.parametrize(
    "objective",
    [
        "regression_l1",
        "huber",
        "fair",
        "poisson",
        "quantile",
        "mape",
        "gamma",
        "tweedie",
        "cross_entropy",
        "cross_entropy_lambda",
    ],
)
def test_every_objective(objective: str) -> None:
    target = DRAW.random(ROWS) if "cross" in objective else SPECIES + 1.0
    held(Regressor(objective=objective).fit(MISSING, target))


def test_objectives_with_options() -> None:
    held(Regressor(reg_sqrt=True).fit(MISSING, SPECIES - 1.0))
    held(Classifier(objective="multiclassova", sigmoid=0.7).fit(MISSING, SPECIES))
    held(Classifier(sigmoid=2.3).fit(MISSING, SPECIES > 0))
    held(lightgbm.LGBMRanker(**SMALL).fit(MISSING, SPECIES, group=[90] * 5))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_takes_categories_and_missing(strategy: str) -> None:
    model = Classifier(zero_as_missing=True).fit(MISSING, SPECIES, categorical_feature=[4, 5])
    held(model, strategies=(strategy,))


def test_leaves_with_linear_models_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"^LightGBM with linear_tree=True cannot be compiled"):
        compile_pipeline(Regressor(linear_tree=True).fit(TABLE, SPECIES))


def test_a_threshold_is_not_rounded_to_float32() -> None:
    """Rounded, one of two doubles that are one float32 would be on the wrong side."""
    low, high = 0.1, 0.1 + 1e-12
    table = np.where(np.arange(40) % 2, high, low)[:, None]
    model = lightgbm.LGBMRegressor(n_estimators=1, min_child_samples=1, min_data_in_bin=1, verbose=-1)
    model.fit(table, np.arange(40) % 2)
    compiled = held(model, table)
    assert len(np.unique(compiled.predict(table))) == 2


def test_what_is_all_but_zero_is_zero() -> None:
    """LightGBM drops numbers within 1e-35 of zero before it compares: at a threshold there, they go as zero does."""
    table = np.repeat([-1.0, 0.0], 30)[:, None]
    model = lightgbm.LGBMRegressor(n_estimators=1, min_child_samples=1, verbose=-1).fit(
        table, np.repeat([0.0, 1.0], 30)
    )
    tiny = float(np.float32(1e-35))
    edges = [end * np.nextafter(tiny, side) for end in (-1, 1) for side in (0, tiny, 1)]
    held(model, np.array([*edges, -1.0, 0.0, -0.0, 5e-324])[:, None])


def test_a_category_is_cut_to_a_whole_number() -> None:
    """Toward zero: minus one half is category 0, and minus one is none."""
    codes = np.arange(120) % 6
    model = Regressor(min_data_per_group=1, cat_smooth=0, cat_l2=0, max_cat_to_onehot=1)
    model.fit(codes[:, None], (codes % 5 == 0) * 1.0, categorical_feature=[0])
    compiled = held(model, np.array([-0.5, -1.0, -0.999, 0.0, 0.9, 5.5, 6.0, 1e10, -1e10, 2.0**32, np.nan])[:, None])
    assert compiled.predict([[-0.5]]) == compiled.predict([[0.0]]) != compiled.predict([[-1.0]])


def test_the_best_iteration_is_the_last() -> None:
    model = Classifier(learning_rate=0.5).set_params(n_estimators=60)
    stop = lightgbm.early_stopping(3, verbose=False)
    model.fit(MISSING[:300], SPECIES[:300], eval_set=[(MISSING[300:], SPECIES[:150])], callbacks=[stop])
    compiled = held(model)
    assert compiled.apply(ASKED).shape[1] == 3 * model.best_iteration_ < 180


def test_trees_of_one_leaf_and_one_tree() -> None:
    held(Regressor().fit(TABLE, np.ones(ROWS)))
    held(Regressor(objective="poisson").set_params(n_estimators=1).fit(TABLE, SPECIES))


def test_boosters_and_their_files(tmp_path: Path) -> None:
    booster = lightgbm.train(
        {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(MISSING, SPECIES, categorical_feature=[4, 5]),
        4,
    )
    held(booster)
    booster.save_model(tmp_path / "model.txt")
    compiled = compile_pipeline(read_model(tmp_path / "model.txt"))
    np.testing.assert_array_equal(compiled.apply(ASKED), booster.predict(ASKED, pred_leaf=True))
    np.testing.assert_allclose(compiled.predict(ASKED), booster.predict(ASKED), rtol=1e-9)
    text = (tmp_path / "model.txt").read_text()
    for wrong in (text[: len(text) // 4], text.replace("leaf_value=", "leaf_value=1 "), "tree\nversion=v4\n"):
        (tmp_path / "model.txt").write_text(wrong)
        with pytest.raises(UnsupportedOperatorError, match="model text of LightGBM"):
            read_model(tmp_path / "model.txt")


def test_inside_a_pipeline_of_scikit_learn_and_with_names() -> None:
    frame = pd.DataFrame(MISSING, columns=list("abcdefg"))
    model = make_pipeline(StandardScaler(), Classifier()).fit(MISSING, SPECIES)
    assert "apply" not in agree(model, MISSING).outputs
    named = Classifier().fit(frame, SPECIES)
    compiled = compile_pipeline(named)
    assert compiled.columns == tuple("abcdefg")
    assert (compiled.predict(frame[frame.columns[::-1]]) == named.predict(frame)).all()
    assert compile_pipeline(Classifier().fit(MISSING, SPECIES)).columns is None


def test_what_is_refused() -> None:
    numbers = pd.DataFrame({"a": pd.Categorical(np.arange(ROWS) % 4 * 10), "b": TABLE[:, 0]})
    with pytest.raises(UnsupportedOperatorError, match="that has the category 0"):
        compile_pipeline(Classifier().fit(numbers, SPECIES))


FRAME = pd.DataFrame(
    {
        "a": TABLE[:, 0],
        "k": pd.Categorical(np.array(["x", "yy", "z\u00e9", None], object)[DRAW.integers(0, 4, ROWS)]),
        "i": pd.Categorical(TABLE[:, 5].astype(int)),
        "n": TABLE[:, 6],
        "s": pd.Categorical(np.array([*"abcdefghij"])[(TABLE[:, 4] % 10).astype(int)]),
    }
)


def test_categories_of_a_dataframe() -> None:
    """LightGBM numbers texts itself, and takes an unknown one for missing."""
    for options in ({}, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}):
        model = Classifier(**options, min_data_per_group=3, cat_smooth=1.0).fit(FRAME, SPECIES)
        compiled = compile_pipeline(model)
        asked = FRAME.assign(k=FRAME["k"].cat.rename_categories({"x": "X"}), i=FRAME["i"].cat.add_categories([77]))
        asked.loc[:4, ["i", "s"]] = [77, None]
        for rows in (FRAME, asked, asked[asked.columns[::-1]]):
            expected = model.predict_proba(rows[FRAME.columns])
            texts = rows.astype({"k": object, "s": object, "i": float})
            for given in (rows, texts):
                np.testing.assert_allclose(compiled.predict_proba(given), expected, rtol=1e-9)
        leaves = model.predict(asked, pred_leaf=True)
        assert (compiled.apply(asked) == leaves).all()
    with pytest.raises(ColumnError, match="must hold texts, as in training"):
        compiled.predict(FRAME.assign(k=FRAME["k"].cat.codes))
    with pytest.raises(ColumnError):
        compiled.predict(TABLE[:, :5])


def test_categories_of_a_dataframe_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    model = Classifier().fit(FRAME, SPECIES)
    path = tmp_path / "model.txt"
    model.booster_.save_model(str(path))
    stage = TensorPipeline(compiled=compile_pipeline(read_model(path)), predictionCol="shares")
    rows = FRAME.astype({"k": object, "s": object, "i": int}).where(FRAME.notna(), None)
    df = spark.createDataFrame(list(rows.itertuples(index=False)), "a double, k string, i int, n double, s string")
    found = np.array([row.shares for row in stage.transform(df).collect()])
    np.testing.assert_allclose(found, model.predict_proba(FRAME), rtol=1e-9)


def test_whole_numbers_of_an_array_that_the_library_would_round() -> None:
    """It reads integers of an array as float32, those of a DataFrame and floats as they are."""
    whole = DRAW.integers(2**24 - 50, 2**24 + 50, (200, 2))
    model = Regressor(min_child_samples=1).fit(whole.astype(float), whole[:, 0] % 7)
    compiled = compile_pipeline(model)
    for rows in (whole.astype(float), pd.DataFrame(whole), whole[(whole % 2 == 0).all(axis=1)]):
        np.testing.assert_array_equal(compiled.predict(rows), model.predict(rows))
    for refused in (compiled, compile_pipeline(make_pipeline(SelectKBest(k=1), model).fit(whole, whole[:, 0] % 7))):
        with pytest.raises(InvalidArgumentError, match=r"to which LightGBM rounds them, got 1677"):
            refused.predict(whole)
    scaled = make_pipeline(StandardScaler(), Regressor()).fit(whole, whole[:, 0] % 7)
    np.testing.assert_array_equal(compile_pipeline(scaled).predict(whole), scaled.predict(whole))


def test_columns_with_spaces_which_the_library_writes_otherwise() -> None:
    table = pd.DataFrame(IRIS, columns=["sepal length", "sepal_width", "petal  length", "é"])
    model = Classifier().fit(table, SPECIES)
    for compiled in (compile_pipeline(model), compile_pipeline(model.booster_)):
        np.testing.assert_array_equal(compiled.apply(table[table.columns[::-1]]), model.predict(table, pred_leaf=True))
        with pytest.raises(ColumnError, match="sepal_length"):
            compiled.apply(table.rename(columns={"sepal length": "length"}))
