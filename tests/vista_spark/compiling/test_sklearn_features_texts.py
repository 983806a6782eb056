"""Vectorizers of texts against scikit-learn: tokens, n-grams, hashes, weights, and what follows them."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MultiLabelBinarizer, OneHotEncoder, StandardScaler

from optimizer.compiling import UnsupportedOperatorError, sparse_nodes
from vista_spark import compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError

DOCUMENTS = [
    "The quick brown fox",
    "jumps over the lazy dog",
    "",
    "   ",
    "\u00c9l\u00e9phant na\u00efve CAF\u00c9 cafe\u0301 caf\u00e9",
    "\U0001f642 emoji \U0001f642\U0001f642 fun_1",
    "a b c d",
    "x" * 500,
    "\u0130stanbul \u015eIK \u00df SS \ufb01n",
    "the the the dog dog",
    "don't stop-me now!\n\n  tab\t\tand  more",
]
MORE = [*DOCUMENTS, "unseen words only", "\U0001d4ef\U0001d4ea quick", "\u0130", "e\u0301lephant \u00e9l\u00e9phant"]
LABELS = np.arange(len(DOCUMENTS)) % 2


def name(value: Any) -> str:
    return repr(value)[:70]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"analyzer": "char", "ngram_range": (1, 3)},
        {"analyzer": "char", "ngram_range": (2, 2)},
        {"analyzer": "char_wb", "ngram_range": (2, 5)},
        {"ngram_range": (1, 2)},
        {"ngram_range": (2, 3)},
        {"lowercase": False},
        {"strip_accents": "ascii"},
        {"strip_accents": "unicode"},
        {"stop_words": "english"},
        {"stop_words": ["quick"], "ngram_range": (1, 2)},
        {"binary": True},
        {"token_pattern": r"(?u)\b(\w)\w*\b"},
        {"dtype": np.float32},
    ],
    ids=name,
)
def test_vectorizers(options: dict[str, Any]) -> None:
    for model in (
        CountVectorizer(**options),
        TfidfVectorizer(**options),
        TfidfVectorizer(**options, sublinear_tf=True, norm="l1"),
        TfidfVectorizer(**options, norm=None, use_idf=False),
        HashingVectorizer(**options, n_features=1000),
        # Terms of opposite signs meet here, and cancel.
        HashingVectorizer(**options, n_features=7, norm=None),
        HashingVectorizer(**options, n_features=64, norm="l1", alternate_sign=False),
    ):
        compiled = pickle.loads(pickle.dumps(compile_pipeline(model.fit(DOCUMENTS))))
        tolerance = 1e-6 if "dtype" in options else 1e-12
        np.testing.assert_allclose(compiled.transform(MORE), model.transform(MORE).toarray(), rtol=tolerance)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=5))
def test_hashes_of_any_text(texts: list[str]) -> None:
    model = HashingVectorizer(n_features=101, analyzer="char_wb", ngram_range=(1, 6), norm=None)
    np.testing.assert_array_equal(compile_pipeline(model).transform(texts), model.transform(texts).toarray())


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(TfidfVectorizer(), LogisticRegression()),
        make_pipeline(CountVectorizer(), TfidfTransformer(sublinear_tf=True), LogisticRegression()),
        make_pipeline(HashingVectorizer(), LogisticRegression()),
        make_pipeline(TfidfVectorizer(), MaxAbsScaler(), RidgeClassifier()),
        make_pipeline(CountVectorizer(), StandardScaler(with_mean=False), LogisticRegression()),
        make_pipeline(TfidfVectorizer(), TruncatedSVD(3, random_state=0), LogisticRegression()),
        make_pipeline(CountVectorizer(), SelectKBest(chi2, k=4), LogisticRegression()),
        make_pipeline(TfidfVectorizer(), RandomForestClassifier(5, random_state=0)),
    ],
    ids=name,
)
def test_what_follows_a_vectorizer(model: Any) -> None:
    compiled = compile_pipeline(model.fit(DOCUMENTS, LABELS))
    assert (compiled.predict(MORE) == model.predict(MORE)).all()
    method = "predict_proba" if "predict_proba" in compiled.outputs else "decision_function"
    for texts in (MORE, pd.Series(MORE), np.array(MORE, object), MORE[:1]):
        np.testing.assert_allclose(getattr(compiled, method)(texts), getattr(model, method)(texts), rtol=1e-7)


def test_texts_numbers_and_categories_stay_sparse_until_the_linear_model() -> None:
    frame = pd.DataFrame({"text": DOCUMENTS, "number": np.arange(11.0), "kind": list("aabbccddeef")})
    features = ColumnTransformer(
        [
            ("text", HashingVectorizer(), "text"),
            ("number", StandardScaler(), ["number"]),
            ("kind", OneHotEncoder(handle_unknown="ignore"), ["kind"]),
        ]
    )
    model = make_pipeline(features, LogisticRegression()).fit(frame, LABELS)
    compiled = compile_pipeline(model)
    assert sparse_nodes(compiled.program) >= {"bag", "hastext", "concatenate"}
    np.testing.assert_allclose(compiled.predict_proba(frame), model.predict_proba(frame), rtol=1e-9)
    with pytest.raises(InvalidArgumentError, match=r"row 3 has .*LogisticRegression does not take"):
        compiled.predict(frame.assign(number=[0, 1, 2, np.inf, *range(7)]))


@pytest.mark.parametrize("wrong", [None, np.nan, 3, b"\xff"], ids=repr)
def test_what_is_no_text_makes_a_row_bad(wrong: Any) -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(DOCUMENTS, LABELS)
    compiled = compile_pipeline(model)
    with pytest.raises((ValueError, AttributeError)):
        model.predict(np.array(["a", wrong], object))
    with pytest.raises(InvalidArgumentError, match="row 1 has no text, which TfidfVectorizer does not take"):
        compiled.predict(np.array(["a", wrong], object))
    assert compiled.predict(np.array([b"quick dog"], object)) == model.predict(["quick dog"])
    with pytest.raises(ColumnError, match="must hold texts"):
        compiled.predict([1.0])


def test_half_of_a_pair_of_surrogates() -> None:
    text = ["ab\ud83d"]
    counts = CountVectorizer(analyzer="char").fit(["ab\ud83d c"])
    np.testing.assert_array_equal(compile_pipeline(counts).transform(text), counts.transform(text).toarray())
    hashes = HashingVectorizer(analyzer="char", n_features=9)
    with pytest.raises(UnicodeEncodeError):
        hashes.transform(text)
    with pytest.raises(InvalidArgumentError, match="no text"):
        compile_pipeline(hashes).transform(text)


def test_weights_of_counts_that_are_numbers() -> None:
    counts = np.random.default_rng(0).poisson(0.7, (30, 6)).astype(float)
    for options in ({}, {"sublinear_tf": True, "norm": "l1"}, {"use_idf": False, "norm": None}):
        model = TfidfTransformer(**options).fit(counts)
        np.testing.assert_allclose(compile_pipeline(model).transform(counts), model.transform(counts).toarray())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CountVectorizer(tokenizer=str.split, token_pattern=None), "CountVectorizer with tokenizer="),
        (CountVectorizer(preprocessor=str.lower), "CountVectorizer with preprocessor="),
        (TfidfVectorizer(analyzer=str.split), "TfidfVectorizer with analyzer="),
        (HashingVectorizer(strip_accents=str.lower), "HashingVectorizer with strip_accents="),
        (HashingVectorizer(), "input of .*transform.* must have at most 65,536 columns of texts, got 1,048,576"),
        (make_pipeline(HashingVectorizer(), RandomForestClassifier(1)), "input of .*Cast.* must have at most 65,536"),
    ],
    ids=name,
)
def test_what_is_refused(model: Any, message: str) -> None:
    model.fit(DOCUMENTS, LABELS)
    with pytest.raises(UnsupportedOperatorError, match=message):
        compile_pipeline(model)


DICTIONARIES = [
    {"city": "Oslo", "heads": 3, "tags": ["old", "old", "good"]},
    {"city": "Malmo\u0308", "heads": -0.5, "alone": True},
    {},
    {"heads": 2**40, "city=Oslo": 2.0, "city": "Oslo"},
]


@pytest.mark.parametrize(
    "model",
    [
        DictVectorizer(),
        DictVectorizer(sparse=False, separator=" is ", dtype=np.float32, sort=False),
        make_pipeline(DictVectorizer(), StandardScaler(with_mean=False)),
    ],
    ids=name,
)
def test_dictionaries(model: Any) -> None:
    compiled = compile_pipeline(model.fit(DICTIONARIES))
    given = [*DICTIONARIES, {"city": "Malmo", "heads": 1e30, "new": 5}, {"city": ""}]
    truth = model.transform(given)
    truth = truth.toarray() if hasattr(truth, "toarray") else truth
    found = pickle.loads(pickle.dumps(compiled)).transform(given)
    assert found.dtype == truth.dtype
    np.testing.assert_allclose(found, truth, rtol=1e-6)
    arrow = pd.DataFrame({"row": given})
    np.testing.assert_array_equal(compiled.transform(arrow), found)


@pytest.mark.parametrize("row", [{"heads": float("nan")}, {"heads": None}, {"city": object()}, "city", None, 3.0])
def test_what_is_no_dictionary_is_bad(row: Any) -> None:
    compiled = compile_pipeline(DictVectorizer().fit(DICTIONARIES))
    with pytest.raises(InvalidArgumentError, match="row 1 has no names with numbers or texts, or NaN, which DictVect"):
        compiled.transform([{"heads": 1}, row])


def test_lists_of_labels_and_of_words() -> None:
    words = [["a", "b", "b"], (), ("\u00e9", "e\u0301", "a b"), {"b"}]
    for model in (MultiLabelBinarizer(), MultiLabelBinarizer(sparse_output=True, classes=["b", "a", "x"])):
        compiled = compile_pipeline(model.fit(words[:3]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown labels
            truth = model.transform(words)
        truth = truth.toarray() if model.sparse_output else truth
        assert compiled.transform(words).dtype == truth.dtype
        np.testing.assert_array_equal(compiled.transform(words), truth)
    numbers = MultiLabelBinarizer().fit([[3, 1], [2]])
    np.testing.assert_array_equal(compile_pipeline(numbers).transform([[2, 2], [1, 3]]), [[0, 1, 0], [1, 0, 1]])
    with pytest.raises(InvalidArgumentError, match="no list, which MultiLabelBinarizer"):
        compiled.transform([["a"], "a"])
    with pytest.raises(UnsupportedOperatorError, match="MultiLabelBinarizer with labels like"):
        compile_pipeline(MultiLabelBinarizer().fit([[1.5]]))
    with pytest.raises(UnsupportedOperatorError, match="DictVectorizer with dtype="):
        compile_pipeline(DictVectorizer(dtype=int).fit(DICTIONARIES))
