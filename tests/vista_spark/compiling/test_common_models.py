"""Everyday models that options, types or classes of the user's make special."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

for LIBRARY in ("catboost", "lightgbm", "xgboost"):
    pytest.importorskip(LIBRARY)

from catboost import CatBoostClassifier, CatBoostRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from lightgbm.basic import LightGBMError
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from xgboost import XGBClassifier, XGBRegressor

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import CompiledPipeline, compile_pipeline
from vista_spark.compiling import read_model
from vista_spark.errors import ExistingFileError

if TYPE_CHECKING:
    from pathlib import Path

DRAW = np.random.default_rng(0)
X = DRAW.random((300, 3))
VALUES = X[:, 0] * 3 + X[:, 1]
CLASSES = (VALUES > 2).astype(int)
THREE = np.digitize(VALUES, [1.2, 2.4])


def squares(truth: Any, scores: Any) -> tuple[Any, Any]:
    return scores - truth, np.ones_like(truth)


def logistic(truth: Any, scores: Any) -> tuple[Any, Any]:
    shares = 1 / (1 + np.exp(-scores))
    return shares - truth, shares * (1 - shares)


def softmax(truth: Any, scores: Any) -> tuple[Any, Any]:
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return shares - np.eye(3)[np.asarray(truth, int)], shares * (1 - shares)


class Squares:
    """Objective of CatBoost."""

    def calc_ders_range(self, scores: Any, truth: Any, _: Any) -> list[tuple[float, float]]:
        return [(right - score, -1.0) for score, right in zip(scores, truth, strict=True)]


OWN: dict[str, tuple[Any, Any]] = {
    "LightGBM, values": (LGBMRegressor(n_estimators=5, verbose=-1, objective=squares), VALUES),
    "LightGBM, two classes": (LGBMClassifier(n_estimators=5, verbose=-1, objective=logistic), CLASSES),
    "LightGBM, three classes": (LGBMClassifier(n_estimators=5, verbose=-1, objective=softmax), THREE),
    "XGBoost, values": (XGBRegressor(n_estimators=5, objective=squares), VALUES),
    "XGBoost, two classes": (XGBClassifier(n_estimators=5, objective=logistic), CLASSES),
    "CatBoost, values": (
        CatBoostRegressor(
            iterations=5, loss_function=Squares(), eval_metric="RMSE", verbose=0, allow_writing_files=False
        ),
        VALUES,
    ),
    "CatBoost, two classes": (
        CatBoostClassifier(
            iterations=5, loss_function=Squares(), eval_metric="Logloss", verbose=0, allow_writing_files=False
        ),
        CLASSES,
    ),
}


@pytest.fixture(scope="module")
def own() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that functions run slowly without numba
        return {name: model.fit(X, target) for name, (model, target) in OWN.items()}


@pytest.mark.parametrize("name", sorted(OWN))
def test_an_objective_of_your_own(own: dict[str, Any], name: str) -> None:
    model, compiled = own[name], compile_pipeline(own[name])
    for method in ("predict", "predict_proba") if hasattr(model, "predict_proba") else ("predict",):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that these are no probabilities
            expected = np.asarray(getattr(model, method)(X))
        found = getattr(compiled, method)(X)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_the_file_of_an_objective_of_your_own(own: dict[str, Any], tmp_path: Path) -> None:
    model = own["LightGBM, values"]
    model.booster_.save_model(tmp_path / "model.txt")
    for source in (model.booster_, read_model(tmp_path / "model.txt")):
        np.testing.assert_allclose(compile_pipeline(source).predict(X), model.predict(X))


SIZES, COLORS = ("S", "M", "L", "XL"), ("red", "green", "blue")


def _ordered_table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "weight": DRAW.random(300) + 0.5,
            "size": pd.Categorical(DRAW.choice(SIZES, 300), SIZES, ordered=True),
            "color": pd.Categorical(DRAW.choice(COLORS, 300), COLORS),
            "count": DRAW.integers(10, 90, 300),
        }
    )


@pytest.mark.parametrize("columns", [["weight", "size"], ["weight", "size", "color"], ["color", "count", "size"]])
def test_ordered_categoricals_of_lightgbm(columns: list[str]) -> None:
    table = _ordered_table()
    model = LGBMClassifier(n_estimators=8, verbose=-1).fit(table[columns], table["size"].cat.codes % 3 > 0)
    compiled = compile_pipeline(model)
    new = table[columns].head(40).copy()
    new.loc[:5, "size"] = np.nan
    np.testing.assert_allclose(compiled.predict_proba(new), model.predict_proba(new), rtol=1e-9)
    # Texts are looked up, whatever the categories of the new table are.
    texts = new.assign(size=new["size"].astype(object))
    np.testing.assert_allclose(compiled.predict_proba(texts), model.predict_proba(new), rtol=1e-9)


def test_ordered_categoricals_that_could_be_several_columns_are_refused() -> None:
    table = _ordered_table().assign(stars=DRAW.integers(0, 3, 300))
    model = LGBMClassifier(n_estimators=3, verbose=-1).fit(table[["size", "stars"]], table["stars"] > 1)
    with pytest.raises(UnsupportedOperatorError, match=r"1 ordered categorical.*codes as numbers"):
        compile_pipeline(model)


def test_numbers_that_reach_the_next_step_as_objects() -> None:
    table = pd.DataFrame({"plan": DRAW.choice(["free", "pro", "team"], 300), "active": DRAW.random(300) < 0.5})
    table = table.assign(spend=DRAW.random(300), visits=DRAW.integers(0, 4, 300))
    target = (table["plan"] == "pro") ^ table["active"]
    columns = make_column_transformer((OrdinalEncoder(), ["plan"]), remainder="passthrough")
    for last in (
        HistGradientBoostingClassifier(max_iter=10, categorical_features=[0]),
        HistGradientBoostingClassifier(max_iter=10, categorical_features=[0, 1]),
        make_pipeline(
            make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0, 1, 3])), LogisticRegression()
        ),
    ):
        model = make_pipeline(columns, last).fit(table, target)
        np.testing.assert_allclose(
            compile_pipeline(model).predict_proba(table), model.predict_proba(table), rtol=1e-9, atol=1e-12
        )


class Ratio(TransformerMixin, BaseEstimator):
    """Transformer without ``n_features_in_``."""

    def fit(self, table: Any, target: Any = None) -> Ratio:
        return self

    def transform(self, table: Any) -> Any:
        return np.c_[table, table[:, 0] / (1 + table[:, 1])]


def test_a_class_without_a_parser_is_named() -> None:
    first = make_pipeline(Ratio(), LogisticRegression())
    for model in (
        Ratio(),
        first,
        make_pipeline(make_union(Ratio()), LogisticRegression()),
        GridSearchCV(first, {"logisticregression__C": [1.0]}, cv=2),
    ):
        model.fit(X, CLASSES)
        for options in ({}, {"example": X[:1]}):
            with pytest.raises(UnsupportedOperatorError, match=r"Ratio .*register a parser"):
                compile_pipeline(model, **options)


@pytest.mark.parametrize("option", ["text_features", "cat_features"])
def test_features_of_catboost_that_are_no_numbers_are_named(option: str) -> None:
    table = pd.DataFrame({"x": X[:, 0], "note": DRAW.choice(["late good", "broken", "nice late"], 300)})
    model = CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False, **{option: ["note"]})
    with pytest.raises(UnsupportedOperatorError, match=rf"{option}=\['note'\]"):
        compile_pipeline(model.fit(table, table["note"].str.contains("late").astype(int)))


def test_errors_of_a_library_are_explained(own: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> str:
        raise LightGBMError("Model file doesn't specify the number of classes")

    monkeypatch.setattr("lightgbm.Booster.model_to_string", fail)
    with pytest.raises(UnsupportedOperatorError, match=r"lightgbm raised LightGBMError, Model file.*Score the model"):
        compile_pipeline(own["LightGBM, values"])


def test_a_file_is_replaced_on_request(tmp_path: Path) -> None:
    first, second = (
        compile_pipeline(LogisticRegression().fit(X, target > bound)) for target, bound in ((VALUES, 1), (VALUES, 2))
    )
    for name, write in {"save": CompiledPipeline.save, "to_onnx": CompiledPipeline.to_onnx}.items():
        path = tmp_path / name
        write(first, path)
        before = path.read_bytes()
        with pytest.raises(ExistingFileError, match=rf"{name}.*overwrite=True"):
            write(second, path)
        assert path.read_bytes() == before
        write(second, path, overwrite=True)
        assert path.read_bytes() != before
        write(first, path, overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["save", "to_onnx"]
    assert CompiledPipeline.load(tmp_path / "save").program.digest == first.program.digest
