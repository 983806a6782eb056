"""Rewritten pipelines against the library and against themselves without rewrites."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest, SelectPercentile
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from optimizer.compiling import INPUT, Arithmetic, Builder, CodeLookup, Encode, Finite, Output, Replace, Select, Trees
from vista_spark import CompiledPipeline, TensorPipeline, compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

TABLE, LABELS = load_breast_cancer(return_X_y=True)
HOLES = np.where(np.random.default_rng(0).random(TABLE.shape) < 0.02, np.nan, TABLE)
FOREST = RandomForestClassifier(5, max_depth=4, random_state=0)
FEATURES = (
    make_pipeline(SimpleImputer(), StandardScaler(), SelectKBest(k=4), LogisticRegression()),
    make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler(), SelectPercentile(percentile=20), FOREST),
    make_pipeline(
        SimpleImputer(),
        PolynomialFeatures(include_bias=False),
        StandardScaler(),
        SelectKBest(k=9),
        LogisticRegression(),
    ),
    make_pipeline(
        SimpleImputer(),
        KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"),
        SelectKBest(k=9),
        LogisticRegression(),
    ),
    make_pipeline(
        SimpleImputer(), StandardScaler(), LogisticRegression(C=0.02, l1_ratio=1, solver="saga", max_iter=50)
    ),
    *(make_pipeline(SimpleImputer(), scaler, FOREST) for scaler in (MaxAbsScaler(), MinMaxScaler(clip=True))),
    make_pipeline(RobustScaler(), HistGradientBoostingClassifier(max_iter=4)),
)


@pytest.mark.filterwarnings("ignore:The max_iter was reached")
@pytest.mark.parametrize("model", FEATURES, ids=lambda model: "-".join(name for name, _ in model.steps))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rewritten_pipeline_is_that_of_the_library(model: Any, dtype: type) -> None:
    model.fit(HOLES, LABELS)
    rows = HOLES.astype(dtype)
    compiled, plain = compile_pipeline(model), compile_pipeline(model, rewrites=False)
    assert "rewritten for float64: selection" in compiled.explain()
    assert "rewritten" not in plain.explain()
    np.testing.assert_array_equal(compiled.predict(rows), model.predict(rows))
    np.testing.assert_allclose(compiled.predict_proba(rows), model.predict_proba(rows), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(compiled.predict_proba(rows), plain.predict_proba(rows), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_columns_that_nothing_reads_refuse_what_they_refused(value: float) -> None:
    model = make_pipeline(StandardScaler(), SelectKBest(k=2), LogisticRegression()).fit(TABLE, LABELS)
    compiled = compile_pipeline(model)
    for column in range(TABLE.shape[1]):
        rows = TABLE[:3].copy()
        rows[1, column] = value
        with pytest.raises(InvalidArgumentError, match="row 1 has"):
            compiled.predict(rows)


def test_zero_weights_of_a_lasso() -> None:
    model = make_pipeline(StandardScaler(), Lasso(alpha=0.1)).fit(TABLE, LABELS)
    used = np.count_nonzero(model[-1].coef_)
    compiled = compile_pipeline(model)
    assert f"selection injected: linear reads {used} of 30 columns" in compiled.explain()
    np.testing.assert_allclose(compiled.predict(TABLE), model.predict(TABLE), rtol=1e-6)


def test_voting_and_stacking_share_featurizers() -> None:
    members = [
        ("all", make_pipeline(StandardScaler(), LogisticRegression())),
        ("some", make_pipeline(StandardScaler(), SelectKBest(k=3), LogisticRegression())),
        ("trees", make_pipeline(StandardScaler(), FOREST)),
    ]
    for model in (VotingClassifier(members, voting="soft"), StackingClassifier(members, cv=2)):
        model.fit(TABLE, LABELS)
        compiled = compile_pipeline(model)
        scalers = [node for node in compiled.rewritten().program.nodes if isinstance(node.operator, Arithmetic)]
        assert sum(node.operator.kind == "divide" and len(node.operator.operand) == 30 for node in scalers) == 1
        np.testing.assert_array_equal(compiled.predict(TABLE), model.predict(TABLE))
        np.testing.assert_allclose(compiled.predict_proba(TABLE), model.predict_proba(TABLE), rtol=1e-6)


def frame() -> tuple[pd.DataFrame, NDArray[Any]]:
    drawn = np.random.default_rng(3)
    labels = drawn.integers(0, 2, 200)
    table = pd.DataFrame({f"noise_{place}": drawn.normal(size=200) for place in range(3)})
    table["signal"] = labels + drawn.normal(0, 0.3, 200)
    table["town"] = drawn.choice(["Ulm", "Jena", "Bonn"], 200)
    table["sort"] = np.where(labels == 1, "x", "y")
    return table, labels


@pytest.mark.filterwarnings("ignore:divide by zero encountered")
def test_texts_that_nothing_reads_are_not_looked_up() -> None:
    table, labels = frame()
    encoder = ColumnTransformer(
        [("hot", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["town", "sort"])]
    )
    model = make_pipeline(encoder, SelectKBest(k=2), LogisticRegression()).fit(table, labels)
    compiled = compile_pipeline(model)
    (host,) = compiled.rewritten().program.host
    assert isinstance(host.operator, Encode)
    assert len(host.operator.columns) == 1
    table.loc[3, "town"] = "Köln"
    table.loc[4, "sort"] = "z"
    np.testing.assert_array_equal(compiled.predict(table), model.predict(table))


def test_columns_that_no_tree_reads_have_to_be_there() -> None:
    table, labels = frame()
    table = table.iloc[:, :4]
    model = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=2).fit(table, labels)
    compiled = compile_pipeline(model)
    assert compiled.rewritten().program.numeric == {3}
    assert "is read without noise_0, noise_1, noise_2" in compiled.explain()
    np.testing.assert_array_equal(compiled.predict(table), model.predict(table))
    with pytest.raises(ColumnError, match="noise_1"):
        compiled.predict(table.drop(columns="noise_1"))
    with pytest.raises(ColumnError, match="column 'noise_0'"):
        compiled.predict(table.astype(object).assign(noise_0="text"))


def test_what_is_saved_is_the_program_as_it_was_compiled(tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), FOREST).fit(TABLE, LABELS)
    compiled = compile_pipeline(model)
    compiled.save(tmp_path / "model.safetensors")
    again = CompiledPipeline.load(tmp_path / "model.safetensors")
    assert again.program.digest == compiled.program.digest
    assert again.rewritten().applied == compiled.rewritten().applied
    assert any(isinstance(node.operator, Trees) for node in compiled.rewritten("float32").program.nodes)


def test_how_it_runs_travels_with_it(tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), FOREST).fit(TABLE, LABELS)
    facts = {"tree_strategy": "traversal", "backend": "eager", "threads": 1, "rewrites": False}
    compiled = compile_pipeline(model, **facts)
    compiled.save(tmp_path / "model.safetensors")
    read = CompiledPipeline.load(tmp_path / "model.safetensors", **facts)
    travelled = pickle.loads(pickle.dumps(compiled))
    for one in (read, travelled):
        assert {name: getattr(one, name) for name in facts} == facts
        assert one.plan.rewrites == one.rewritten().applied == ()
    assert TensorPipeline(compiled=compiled)._facts == facts


def test_saved_options_of_earlier_versions_open() -> None:
    compiled = compile_pipeline(FOREST.fit(TABLE, LABELS))
    facts = {"tree_strategy": "bitvector", "backend": "inductor", "threads": 1, "rewrites": True}
    restore, (data, *_) = compiled.__reduce__()
    stage = TensorPipeline.read()._build(data, dict(facts))
    for opened in (restore(data, *facts.values()), stage.getCompiled()):
        assert (opened.tree_strategy, opened.backend, opened.threads) == ("auto", "auto", 1)
        np.testing.assert_array_equal(opened.predict(TABLE), FOREST.predict(TABLE))


def test_the_plan_is_that_of_the_program_that_runs() -> None:
    model = make_pipeline(StandardScaler(), SelectKBest(k=3), FOREST).fit(TABLE, LABELS)
    compiled = compile_pipeline(model, backend="eager", tree_strategy="perfect")
    assert compiled.plan.program is compiled.rewritten().program
    (trees,) = (node for node in compiled.plan.program.nodes if isinstance(node.operator, Trees))
    assert (trees.operator.features, dict(compiled.plan.strategies)) == (3, {trees.name: "perfect"})
    said = compiled.explain()
    assert said == compiled.plan.explain()
    assert f"rewritten for float64: thresholds pulled back: {trees.name} reads" in said
    assert "engine eager (backend='eager')" in said


def test_a_method_refuses_the_rows_that_it_refused() -> None:
    """Stages of Spark ML's pipelines are outputs of one program: a check of one is none of another."""
    build = Builder(3)
    scaled = build.add(Arithmetic("divide", np.array([2.0, 4.0, 8.0])), INPUT)
    last = build.add(Select(np.array([2])), build.add(Finite("as given", nan=False, who="Last"), scaled))
    program = build.program({"transform": Output(build.add(Select(np.array([0])), scaled)), "predict": Output(last)})
    rows = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    compiled = CompiledPipeline(program)
    assert any("check moved" in one for one in compiled.plan.rewrites)
    np.testing.assert_array_equal(compiled.transform(rows), rows[:, :1] / 2)
    with pytest.raises(InvalidArgumentError, match="row 0 has NaN or an infinity, which Last does not take"):
        compiled.predict(rows)
    np.testing.assert_array_equal(compiled.predict(rows[1:]), rows[1:, 2:] / 8)


@pytest.mark.filterwarnings("ignore:divide by zero encountered")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_categories_that_are_numbers_are_looked_up_where_they_are_read(dtype: type) -> None:
    drawn = np.random.default_rng(5)
    labels = drawn.integers(0, 2, 300)
    table = drawn.integers(0, 5, (300, 6)).astype(float)
    table[:, 4], table[drawn.random(table.shape) < 0.1] = labels * 2, np.nan
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(encoder, SelectKBest(k=2), LogisticRegression()).fit(table, labels)
    compiled = compile_pipeline(model)
    (found,) = (node.operator for node in compiled.rewritten().program.nodes if isinstance(node.operator, CodeLookup))
    assert set(found.column) != set(range(6)) or len(found.column) < 6
    rows = np.concatenate([table, [[7.0] * 6, [np.nan] * 6, [-0.0] * 6, [1.5, 1e30, 2.0, 0.0, 2.0, 4.0]]]).astype(dtype)
    np.testing.assert_array_equal(compiled.predict(rows), model.predict(rows))
    np.testing.assert_allclose(compiled.predict_proba(rows), model.predict_proba(rows), rtol=1e-6)
    rows[3, 0] = np.inf  # refused, be it read or not
    with pytest.raises(InvalidArgumentError, match="row 3 has"):
        compiled.predict(rows)


def test_lightgbm_reads_what_the_scaler_read() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
    model = make_pipeline(StandardScaler(), booster).fit(HOLES, LABELS)
    compiled = compile_pipeline(model)
    # LightGBM takes numbers near zero for zero.
    assert any(isinstance(node.operator, Replace) for node in compiled.program.nodes)
    assert any("thresholds pulled back" in one for one in compiled.plan.rewrites)
    # The last bits of an exponential depend on how many rows lie side by side.
    np.testing.assert_allclose(compiled.predict_proba(HOLES), model.predict_proba(HOLES), rtol=1e-14)
    np.testing.assert_array_equal(compiled.predict(HOLES), model.predict(HOLES))
    alone = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(TABLE, LABELS)
    with pytest.raises(InvalidArgumentError, match="16777217"):
        compile_pipeline(alone).predict(np.full((1, 30), 2**24 + 1))


def test_onnx_has_the_program_as_it_was_compiled(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    model = make_pipeline(StandardScaler(), SelectKBest(k=3), FOREST).fit(TABLE, LABELS)
    for rewrites in (True, False):
        compile_pipeline(model, rewrites=rewrites).to_onnx(tmp_path / f"{rewrites}.onnx")
    assert (tmp_path / "True.onnx").read_bytes() == (tmp_path / "False.onnx").read_bytes()
