"""Compiled models of XGBoost against the library: equal classes and leaves, values within its float32."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

xgboost = pytest.importorskip("xgboost")

from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import VotingRegressor
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MaxAbsScaler, OneHotEncoder, StandardScaler
from tree_agreement import agree, holes, near_thresholds, strange

from optimizer.compiling import STRATEGIES, Trees, UnsupportedOperatorError
from vista_spark.compiling import compile_pipeline, read_model
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from vista_spark.compiling import CompiledPipeline

DRAW = np.random.default_rng(0)
IRIS, SPECIES = (np.concatenate([part] * 3) for part in load_iris(return_X_y=True))
ROWS = len(IRIS)
TABLE = np.column_stack(
    [
        IRIS + DRAW.normal(size=IRIS.shape) * 0.3,
        DRAW.integers(0, 40, ROWS),
        DRAW.integers(0, 6, ROWS),
        np.where(DRAW.random(ROWS) < 0.4, 0, DRAW.normal(size=ROWS)),
    ]
)
MISSING = holes(TABLE)
ASKED = np.concatenate([MISSING, strange(TABLE)])
BOTH = np.stack([SPECIES, SPECIES * 2.0 + 1], axis=1)
SMALL = {"n_estimators": 6, "max_depth": 4, "n_jobs": 1}
CODES = {"feature_types": [*"qqqqccq"], "enable_categorical": True, "max_cat_to_onehot": 3}
Classifier = partial(xgboost.XGBClassifier, **SMALL)
Regressor = partial(xgboost.XGBRegressor, **SMALL)


def held(model: Any, table: NDArray[Any] = ASKED, **options: Any) -> CompiledPipeline:
    compiled = compile_pipeline(model)
    rows = near_thresholds(compiled, table)
    return agree(model, rows, **{"relative": 1e-5, "absolute": 1e-7, "compiled": compiled, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"booster": "dart", "rate_drop": 0.3},
        {"num_parallel_tree": 3, "subsample": 0.5},
        {"missing": 0.0},
        {"tree_method": "exact", "gamma": 1.5},
        {"base_score": 0.3, "grow_policy": "lossguide", "max_leaves": 9},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
@pytest.mark.parametrize("categories", [{}, CODES], ids=["numbers", "categories"])
def test_every_kind_of_trees(options: dict[str, Any], categories: dict[str, Any]) -> None:
    if categories and options.get("tree_method") == "exact":
        categories = {}  # the library takes none there; pruned nodes stay in the document
    held(Classifier(**options, **categories).fit(MISSING, SPECIES))
    held(Classifier(**options, **categories).fit(MISSING, SPECIES > 0))
    held(Regressor(**options, **categories).fit(MISSING, SPECIES))
    held(Classifier(**options, **categories).fit(MISSING, np.stack([SPECIES > 0, SPECIES > 1], axis=1)))


@pytest.mark.parametrize(
    "objective",
    [
        "reg:squaredlogerror",
        "reg:logistic",
        "reg:pseudohubererror",
        "reg:absoluteerror",
        "count:poisson",
        "reg:gamma",
        "reg:tweedie",
        "survival:cox",
        "binary:logitraw",
        "binary:hinge",
    ],
)
def test_every_objective(objective: str) -> None:
    whole = "log" in objective or "hinge" in objective
    held(Regressor(objective=objective).fit(MISSING, (SPECIES > 0) * 1.0 if whole else SPECIES + 1.0))


def test_objectives_of_classes() -> None:
    held(Classifier(objective="multi:softmax").fit(MISSING, SPECIES))
    held(Classifier(objective="binary:hinge").fit(MISSING, SPECIES > 0))
    held(Classifier(objective="binary:logitraw").fit(MISSING, SPECIES > 0))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_takes_vectors_in_leaves(strategy: str) -> None:
    vectors = partial(Regressor, multi_strategy="multi_output_tree", tree_method="hist")
    held(vectors().fit(MISSING, BOTH), strategies=(strategy,))
    held(
        Classifier(multi_strategy="multi_output_tree", tree_method="hist").fit(MISSING, SPECIES), strategies=(strategy,)
    )


def test_several_targets_have_a_base_score_each() -> None:
    held(Regressor().fit(MISSING, BOTH))
    held(Regressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.6]).fit(MISSING, SPECIES))


def test_sums_are_of_float32_in_the_order_of_the_trees() -> None:
    """The same bits, without which classes that are all but equal may change places."""
    model = Regressor().set_params(n_estimators=80).fit(MISSING, SPECIES + 1000.0)
    compiled = compile_pipeline(model)
    np.testing.assert_array_equal(compiled.predict(ASKED), model.predict(ASKED))
    trees = next(node.operator for node in compiled.program.nodes if isinstance(node.operator, Trees))
    assert trees.value.dtype == np.float32


def test_probabilities_that_round_to_one_half_are_of_the_first_class() -> None:
    """The margin is above zero, yet the library's float32 has one half for its probability."""
    model = Classifier(base_score=0.5).set_params(n_estimators=1, max_depth=1, learning_rate=1e-8)
    model.fit(TABLE, SPECIES > 0)
    assert (model.get_booster().predict(xgboost.DMatrix(TABLE), output_margin=True) > 0).any()
    held(model)


def test_infinities_are_numbers_for_estimators_and_refused_by_boosters() -> None:
    model = Classifier(**CODES).fit(MISSING, SPECIES)
    rows = strange(TABLE, more=(np.inf, -np.inf, 1e39) * 4)
    np.testing.assert_array_equal(compile_pipeline(model).predict(rows), model.predict(rows))
    booster = compile_pipeline(model.get_booster())
    for wrong in (np.inf, -np.inf, 1e39):
        rows = TABLE.copy()
        rows[3, 1] = wrong
        with pytest.raises(InvalidArgumentError, match="row 3 has an infinity in float32, which XGBoost does not take"):
            booster.predict(rows)


def test_random_forests_rankers_and_linear_boosters() -> None:
    held(xgboost.XGBRFClassifier(**SMALL).fit(MISSING, SPECIES))
    held(xgboost.XGBRFRegressor(**SMALL).fit(MISSING, SPECIES))
    held(xgboost.XGBRanker(**SMALL).fit(MISSING, SPECIES, group=[90] * 5))
    linear = xgboost.XGBRegressor(n_estimators=4, booster="gblinear", n_jobs=1).fit(MISSING, SPECIES)
    assert compile_pipeline(linear).outputs == ("predict",)
    # Products of 1e30 and sums in another order have no digits in common.
    agree(linear, MISSING, relative=1e-5, absolute=1e-6)
    # Of classes of unequal sizes: each has a base of its own, of which the linear booster adds the first one's to all.
    for table, classes in ((MISSING, SPECIES), (MISSING[40:], SPECIES[40:])):
        several = xgboost.XGBClassifier(n_estimators=4, booster="gblinear", n_jobs=1).fit(table, classes)
        agree(several, table, absolute=1e-6)


WORDS = np.array([f"word {number % 12}" for number in range(120)], object)
MIXED = pd.DataFrame(
    {"word": WORDS, "x": np.where(np.arange(120) % 3, DRAW.normal(size=120), 0), "y": np.arange(120.0)}
)
TEXTS = np.array([f"red {'fox ' * (number % 3)}blue {number % 7}" for number in range(120)], object)
VALUES = DRAW.normal(size=120) + (np.arange(120) % 12 == 3) * 2 + (np.arange(120) % 7)


def by_column(**options: Any) -> ColumnTransformer:
    columns = [("word", OneHotEncoder(), ["word"]), ("rest", StandardScaler(), ["x", "y"])]
    return ColumnTransformer(columns, **options)


@pytest.mark.parametrize(
    ("steps", "table"),
    [
        ([by_column(sparse_threshold=1.0)], MIXED),
        ([by_column(sparse_threshold=0.0)], MIXED),
        ([by_column(sparse_threshold=1.0), SelectKBest(f_regression, k=6), MaxAbsScaler()], MIXED),
        ([FeatureUnion([("one", by_column(sparse_threshold=1.0)), ("two", by_column(sparse_threshold=0.0))])], MIXED),
        ([OneHotEncoder(), TruncatedSVD(3, random_state=0)], MIXED[["word"]]),
        ([KBinsDiscretizer(4)], MIXED[["x", "y"]]),
        ([TfidfVectorizer()], TEXTS),
        ([CountVectorizer(), TfidfTransformer(), StandardScaler(with_mean=False)], TEXTS),
        ([HashingVectorizer(n_features=32, alternate_sign=False)], TEXTS),
    ],
    ids=["columns", "dense columns", "chosen", "union", "factors", "bins", "texts", "counts", "hashes"],
)
def test_what_is_absent_from_a_sparse_table_is_missing(steps: list[Any], table: Any) -> None:
    """Of a sparse table XGBoost sees what is written alone, and sends the rest where missing values go."""
    single = make_pipeline(*steps, Regressor())
    members = [("trees", Regressor()), ("others", xgboost.XGBRFRegressor(**SMALL))]
    several = make_pipeline(*steps, VotingRegressor(members))
    for model in (single, several):
        model.fit(table, VALUES)
        np.testing.assert_allclose(compile_pipeline(model).predict(table), model.predict(table), rtol=1e-6)


def test_zeros_that_may_be_written_in_a_sparse_table_are_refused() -> None:
    model = make_pipeline(HashingVectorizer(n_features=32), Regressor()).fit(TEXTS, VALUES)
    with pytest.raises(UnsupportedOperatorError, match="sparse table may hold explicit zeros"):
        compile_pipeline(model)
    booster = xgboost.XGBRegressor(n_estimators=4, booster="gblinear", n_jobs=1)
    linear = make_pipeline(HashingVectorizer(n_features=32), booster).fit(TEXTS, VALUES)
    np.testing.assert_allclose(compile_pipeline(linear).predict(TEXTS), linear.predict(TEXTS), rtol=1e-5)


def test_estimators_stop_at_the_best_iteration_and_boosters_do_not() -> None:
    model = Classifier(early_stopping_rounds=3, num_parallel_tree=2, learning_rate=0.9).set_params(n_estimators=60)
    model.fit(MISSING[:300], SPECIES[:300], eval_set=[(MISSING[300:], SPECIES[:150])], verbose=False)
    assert held(model).apply(ASKED).shape[1] == 6 * (model.best_iteration + 1)
    booster, rows = model.get_booster(), xgboost.DMatrix(ASKED)
    compiled = compile_pipeline(booster)
    np.testing.assert_array_equal(compiled.apply(ASKED), booster.predict(rows, pred_leaf=True))
    assert compiled.apply(ASKED).dtype == booster.predict(rows, pred_leaf=True).dtype
    np.testing.assert_allclose(compiled.predict(ASKED), booster.predict(rows), rtol=1e-5)


def test_trees_of_one_leaf() -> None:
    held(Regressor().fit(TABLE, np.ones(ROWS)))
    held(Regressor(objective="count:poisson").set_params(n_estimators=1).fit(TABLE, np.full(ROWS, 3.0)))


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for model in (
        Classifier(**CODES, booster="dart").fit(MISSING, SPECIES),
        Regressor(objective="reg:gamma").fit(MISSING, BOTH[:, 1]),
    ):
        booster = model.get_booster()
        booster.save_model(path)
        compiled = compile_pipeline(read_model(path))
        rows = xgboost.DMatrix(ASKED, feature_types=model.feature_types, enable_categorical=True)
        np.testing.assert_array_equal(compiled.apply(ASKED), booster.predict(rows, pred_leaf=True))
        np.testing.assert_allclose(compiled.predict(ASKED), booster.predict(rows), rtol=1e-5)
        data = path.read_bytes()
        for wrong in (data[: len(data) // 2], data[:-1], data.replace(b"split_indices", b"split_indixes")):
            path.write_bytes(wrong)
            with pytest.raises(UnsupportedOperatorError, match="XGBoost must be complete"):
                compile_pipeline(read_model(path))
    path.write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(UnsupportedOperatorError, match="path must be a model text of LightGBM"):
        read_model(path)
    binary = tmp_path / "model.ubj"
    booster.save_model(binary)
    np.testing.assert_array_equal(
        compile_pipeline(read_model(binary)).apply(ASKED), booster.predict(rows, pred_leaf=True)
    )
    binary.write_bytes(binary.read_bytes()[:-1])
    with pytest.raises(UnsupportedOperatorError, match="XGBoost must be complete"):
        read_model(binary)


def test_names_of_columns() -> None:
    frame = pd.DataFrame(MISSING, columns=list("abcdefg"))
    model = Classifier().fit(frame, SPECIES)
    compiled = compile_pipeline(model)
    assert compiled.columns == tuple("abcdefg")
    assert (compiled.predict(frame[frame.columns[::-1]]) == model.predict(frame)).all()


@pytest.mark.parametrize("onehot", [1, 100])
def test_categories_of_a_dataframe(onehot: int, tmp_path: Path) -> None:
    """XGBoost numbers texts itself, and fails on one that it does not know."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": MISSING[:, 0],
            "k": pd.Categorical(draw.choice(["x", "yy", "z z", ""], ROWS)),
            "s": pd.Categorical(draw.choice(np.array([*"abcdefghij", None], object), ROWS)),
        }
    )
    target = SPECIES * (frame["k"] == "x") + frame["s"].isin([*"aei"])
    model = Classifier(enable_categorical=True, max_cat_to_onehot=onehot).fit(frame, target)
    asked = frame.assign(k=frame["k"].cat.reorder_categories(["yy", "z z", "x", ""]))
    model.save_model(tmp_path / "model.json")
    compiled = compile_pipeline(model)
    for rows in (frame, asked):
        for given in (rows, rows.astype({"k": object, "s": object})):
            np.testing.assert_allclose(compiled.predict_proba(given), model.predict_proba(rows), rtol=1e-5)
        assert (compiled.predict(rows) == model.predict(rows)).all()
        shares = compile_pipeline(read_model(tmp_path / "model.json")).predict(rows)
        np.testing.assert_allclose(shares, model.predict_proba(rows), rtol=1e-5)
    unknown = frame.astype({"k": object})
    unknown.loc[3, "k"] = "X"
    with pytest.raises(InvalidArgumentError, match="row 3 has a category that XGBoost does not know"):
        compiled.predict(unknown)
    accented = frame.assign(k=frame["k"].cat.rename_categories({"x": "\u00e9"}))
    with pytest.raises(UnsupportedOperatorError, match="in column 1 that are not ASCII"):
        compile_pipeline(Classifier(enable_categorical=True).fit(accented, target))
    with pytest.raises(UnsupportedOperatorError, match=r"categories that are texts and missing=-1\.0"):
        compile_pipeline(Classifier(enable_categorical=True, missing=-1.0).fit(frame, target))


def test_what_is_refused() -> None:
    frame = pd.DataFrame({"a": pd.Categorical(np.array([10, 20])[np.arange(ROWS) % 2]), "b": TABLE[:, 0]})
    with pytest.raises(UnsupportedOperatorError, match="categories in column 0 that are numbers"):
        compile_pipeline(Classifier(enable_categorical=True).fit(frame, SPECIES))
    with pytest.raises(InvalidArgumentError, match="Fit it on a table"):
        compile_pipeline(Classifier())
