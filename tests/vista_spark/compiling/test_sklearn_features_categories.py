"""Texts and categories as inputs, against scikit-learn: unseen, missing, empty, unicode, long, numbers, booleans."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    LabelBinarizer,
    LabelEncoder,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)

from optimizer.compiling import UnsupportedOperatorError
from udfs.compiling import ColumnReader
from vista_spark import CompiledPipeline, compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError

WORDS = ["a", "ab", "", "\u00e9", "e\u0301", "\U0001f642", "x" * 300, "A", "a ", "nan", "None"]
RANDOM = np.random.default_rng(0)


def draw(words: list[Any], rows: int = 300) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "text": pd.Series(RANDOM.choice(np.array(words, object), rows), dtype=object),
            "number": RANDOM.normal(size=rows),
            "whole": RANDOM.integers(0, 6, rows),
            "flag": RANDOM.random(rows) < 0.5,
            "share": np.round(RANDOM.random(rows), 1),
        }
    )
    frame.loc[::7, "text"] = None
    frame.loc[::11, "text"] = np.nan
    return frame


TRAIN = draw(WORDS)
# Longer than a known text by one character, another normal form, half of a pair of surrogates, numbers as texts.
TEST = draw([*WORDS, "x" * 301, "e", "\u0301", "\ud83d", "0", " a"]).assign(whole=RANDOM.integers(-2, 9, 300))
COLUMNS = ["text", "whole", "flag", "share"]


def name(value: Any) -> str:
    return repr(value)[:70]


def equal(model: Any, compiled: CompiledPipeline, table: Any) -> None:
    truth = model.transform(table)
    truth = truth.toarray() if hasattr(truth, "toarray") else truth
    np.testing.assert_array_equal(compiled.transform(table), truth)


@pytest.mark.parametrize(
    "model",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32),
        OneHotEncoder(handle_unknown="ignore", drop="first"),
        OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
        OneHotEncoder(handle_unknown="ignore", drop=["ab", 3, True, 0.5]),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=25),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=25, drop="first"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=3),
        OneHotEncoder(handle_unknown="ignore", max_categories=4),
        OneHotEncoder(handle_unknown="warn", min_frequency=0.1),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=-3),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=77, min_frequency=25),
        OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=77, max_categories=3, encoded_missing_value=-2
        ),
    ],
    ids=name,
)
@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_encoders(model: Any) -> None:
    """Of a DataFrame, each column with its own type, and of one table of objects."""
    model.fit(TRAIN[COLUMNS])
    equal(model, compile_pipeline(model), TEST[COLUMNS])
    table = TEST[COLUMNS].to_numpy()
    model.fit(TRAIN[COLUMNS].to_numpy())
    compiled = pickle.loads(pickle.dumps(compile_pipeline(model)))
    equal(model, compiled, table)
    assert len(compiled.transform(table[:0])) == 0
    equal(model, compiled, table[:1])


def test_none_and_nan_are_two_categories_and_unseen_is_a_third() -> None:
    model = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=9)
    for known in ([["a"], [None]], [["a"], [np.nan]], [["a"], [None], [np.nan]], [["a"]]):
        model.fit(np.array(known, object))
        equal(model, compile_pipeline(model), np.array([["a"], [None], [np.nan], [float("nan")], ["b"]], object))


def test_an_unknown_category_makes_a_row_bad() -> None:
    for model in (OneHotEncoder(), OrdinalEncoder()):
        compiled = compile_pipeline(model.fit(np.array([["a", 1], ["b", 2]], object)))
        with pytest.raises(InvalidArgumentError, match=f"row 1 has a category that {type(model).__name__} does not"):
            compiled.transform(np.array([["a", 1], ["c", 1]], object))
    compiled = compile_pipeline(OneHotEncoder().fit(np.array([[1.5], [np.nan]])))
    assert compiled.transform([[np.nan], [1.5]]).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(InvalidArgumentError, match="does not know"):
        compiled.transform([[np.nextafter(1.5, 2)]])


def test_bytes_lists_and_fixed_width_texts() -> None:
    model = OneHotEncoder(handle_unknown="ignore").fit(np.array([[b"a"], [b"\xff\x01"]], object))
    equal(model, compile_pipeline(model), np.array([[b"\xff\x01"], [b"a"], [b"\xff"]], object))
    model = OneHotEncoder(handle_unknown="ignore").fit([["a", 1], ["b", 2]])
    equal(model, compile_pipeline(model), [["b", 1], ["c", 2], ["a", 3]])
    model = OneHotEncoder(handle_unknown="ignore").fit(np.array([["a"], ["b"]]))
    equal(model, compile_pipeline(model), np.array([["ab"], ["b"]]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=3), min_size=1, max_size=8), st.lists(st.text(max_size=3) | st.none(), min_size=1))
def test_texts_are_equal_as_in_python(known: list[str], seen: list[str | None]) -> None:
    model = OneHotEncoder(handle_unknown="ignore").fit(np.array(known, object)[:, None])
    equal(model, compile_pipeline(model), np.array(seen, object)[:, None])


@pytest.mark.parametrize("targets", [2, 3, 0])
def test_target_encoder(targets: int) -> None:
    labels = RANDOM.integers(0, targets, 300) if targets else RANDOM.normal(size=300)
    model = TargetEncoder(target_type="continuous" if not targets else "auto").fit(TRAIN[COLUMNS], labels)
    equal(model, compile_pipeline(model), TEST[COLUMNS])


def test_labels() -> None:
    labels = np.array(["b", "a", "\u00e9", "b"], object)
    encoder = LabelEncoder().fit(labels)
    assert compile_pipeline(encoder).transform(labels).tolist() == encoder.transform(labels).tolist()
    with pytest.raises(InvalidArgumentError, match="does not know"):
        compile_pipeline(encoder).transform(["c"])
    for known in (labels, labels[:2], np.array([3, 1, 2]), np.array([True, False])):
        binarizer = LabelBinarizer(neg_label=-2, pos_label=3).fit(known)
        ours = compile_pipeline(binarizer).transform(known)
        np.testing.assert_array_equal(ours, binarizer.transform(known))


def pipelines() -> list[Any]:
    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    constant = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="(none)"),
        SimpleImputer(missing_values=None, strategy="constant", fill_value="ab"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return [
        ColumnTransformer([("text", text, ["text"]), ("n", numbers, ["number"])], remainder="passthrough"),
        ColumnTransformer([("text", constant, ["text"]), ("n", numbers, ["share"])]),
        FeatureUnion(
            [
                ("hot", ColumnTransformer([("all", OneHotEncoder(handle_unknown="ignore"), ["text", "whole"])])),
                ("no", ColumnTransformer([("all", MissingIndicator(), ["number"])])),
            ]
        ),
    ]


@pytest.mark.parametrize("features", pipelines(), ids=["most frequent", "constant", "union"])
def test_mixed_columns_end_in_a_classifier(features: Any) -> None:
    labels = np.where(TRAIN["number"] > 0, "yes", "no")
    model = make_pipeline(features, LogisticRegression(max_iter=500)).fit(TRAIN.fillna({"number": 0}), labels)
    compiled = compile_pipeline(model)
    for table in (TEST, TEST[TEST.columns[::-1]], TEST.head(0) if "union" not in str(features) else TEST.head(1)):
        if len(table):
            np.testing.assert_allclose(compiled.predict_proba(table), model.predict_proba(table), rtol=1e-9)
            assert (compiled.predict(table) == model.predict(table)).all()
    with pytest.raises(ColumnError, match=r"got none of \['text'\]"):
        compiled.predict(TEST.drop(columns="text"))
    with pytest.raises(ColumnError, match="must hold texts"):
        compiled.predict(TEST.assign(text=1.5))
    with pytest.raises(ColumnError, match=r"must hold numbers.*got 'five'"):
        compiled.predict(TEST.assign(number="five", share="five"))


def test_nan_where_an_imputer_of_none_refuses_it() -> None:
    imputer = SimpleImputer(missing_values=None, strategy="most_frequent")
    model = make_pipeline(imputer, OneHotEncoder()).fit(np.array([["a"], ["a"], ["b"], [None]], object))
    compiled = compile_pipeline(model)
    equal(model, compiled, np.array([[None], ["b"]], object))
    with pytest.raises(ValueError, match="NaN"):
        model.transform(np.array([["b"], [np.nan]], object))
    with pytest.raises(InvalidArgumentError, match="row 1 has a category that SimpleImputer"):
        compiled.transform(np.array([["b"], [np.nan]], object))


def test_a_column_that_nobody_reads_may_hold_anything() -> None:
    model = ColumnTransformer([("n", StandardScaler(), ["number"])]).fit(TRAIN)
    np.testing.assert_array_equal(compile_pipeline(model).transform(TEST), model.transform(TEST))


def test_texts_that_reach_numbers_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="SimpleImputer of texts cannot be compiled"):
        compile_pipeline(SimpleImputer(strategy="most_frequent").fit(np.array([["a"], ["b"]], object)))
    with pytest.raises(UnsupportedOperatorError, match=r"A category .* of type Timestamp"):
        compile_pipeline(OneHotEncoder().fit(np.array([[pd.Timestamp(0)], [pd.Timestamp(1)]], object)))


def test_columns_of_arrow_are_read_as_those_of_numpy() -> None:
    model = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    reader = ColumnReader(compile_pipeline(model.fit(TRAIN[["text", "whole"]])).program)
    whole = np.arange(5)
    texts = ["\u00e9", "e\u0301", None, "x" * 301, ""]
    numpy = reader.read([np.array(texts, object), whole])
    for column in (pa.array(texts), pa.array(texts, pa.large_string()), pa.array(texts).dictionary_encode()):
        arrow = reader.read([column, pa.array(whole)])
        assert arrow.given[0].tolist() == numpy.given[0].tolist()
        assert arrow.numbers.tolist() == numpy.numbers.tolist()
    # A null is NaN where the model knows no None.
    reader = ColumnReader(compile_pipeline(model.fit(np.array([["a"], [np.nan]], object))).program)
    assert reader.read([pa.array([None, "a", "b"])]).given[0].tolist() == [[1], [0], [2]]
