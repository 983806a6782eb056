"""Vectorizers of texts of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Bag, Damped, HasText, Output, UnsupportedOperatorError
from vista_spark.compiling._registry import parser
from vista_spark.compiling._vocabularies import entry_of, sources
from vista_spark.compiling.sklearn._checks import checked, of_dtype, plain, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = [
    "lower_counts",
    "lower_dictionaries",
    "lower_hashed_names",
    "lower_hashes",
    "lower_label_sets",
    "lower_tfidf",
    "lower_weights",
]


@parser("sklearn.CountVectorizer")
def lower_counts(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the counts of the terms of a vocabulary."""
    bag = _bag(model, build, table, terms=_terms(model), binary=bool(model.binary))
    counts = of_dtype(model, build, _added(model, build, bag))
    return {"transform": Output(counts, dtype=np.dtype(model.dtype).name)}


@parser("sklearn.TfidfVectorizer")
def lower_tfidf(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the counts, and their weights and norm."""
    bag = _bag(model, build, table, terms=_terms(model), binary=bool(model.binary))
    return {"transform": Output(_added(model, build, _weighted(model, bag)))}


@parser("sklearn.HashingVectorizer")
def lower_hashes(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the counts of hashed terms."""
    bag = _bag(
        model,
        build,
        table,
        buckets=int(model.n_features),
        signs=bool(model.alternate_sign),
        binary=bool(model.binary),
        norm=model.norm or "",
    )
    return {"transform": Output(_added(model, build, bag))}


@parser("sklearn.TfidfTransformer")
def lower_weights(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the weights and the norm: of counts of texts, together with those."""
    node = build.node(table)
    if node is not None and isinstance(node.operator, HasText):
        counted = build.node(node.inputs[0])
        if counted is not None and isinstance(counted.operator, Bag) and _plain_counts(counted.operator):
            bag = _weighted(model, counted.operator)
            return {"transform": Output(build.add(node.operator, build.add(bag)))}
    damped = Damped(bool(model.sublinear_tf), _weights(model), model.norm or "")
    return {"transform": Output(build.add(damped, checked(model, build, table)))}


@parser("sklearn.DictVectorizer")
def lower_dictionaries(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a column for each name that is in the fitted dictionaries."""
    kind = _lists(model, build, table, "pairs", terms=_terms(model), separator=model.separator)
    return {"transform": Output(kind)}


@parser("sklearn.FeatureHasher")
def lower_hashed_names(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower hashed names, with their numbers, or of lists."""
    signs = {"buckets": int(model.n_features), "signs": bool(model.alternate_sign)}
    analyzer = "list" if model.input_type == "string" else "pairs"
    return {"transform": Output(_lists(model, build, table, analyzer, **signs))}


@parser("sklearn.MultiLabelBinarizer")
def lower_label_sets(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a column for each label: whether it is in a row's list."""
    terms = tuple(entry_of(label) for label in np.asarray(model.classes_).tolist())
    if any(not isinstance(term, str | int) for term in terms):
        raise refuse(model, f"labels like {terms[:3]}", "has no translation: texts and whole numbers can be looked up")
    return {"transform": Output(_lists(model, build, table, "list", terms=terms, binary=True), dtype="int64")}


def _lists(model: Any, build: Builder, table: str, analyzer: str, **own: Any) -> str:
    """Count what is in rows that are lists, or dictionaries."""
    kind = np.dtype(getattr(model, "dtype", np.float64))
    if kind not in (np.float32, np.float64):
        raise refuse(model, f"dtype={model.dtype!r}")
    dtype = {"columns": _one_column(model, build, table), "dtype": kind.name, "analyzer": analyzer}
    what = "no list" if analyzer == "list" else "no names with numbers or texts, or NaN"
    return build.add(HasText(type(model).__name__, what), build.add(Bag(**{**dtype, **own})))


def _plain_counts(bag: Bag) -> bool:
    return not (bag.sublinear or bag.norm or len(bag.weights))


def _weights(model: Any) -> NDArray[Any]:
    return plain(model.idf_) if model.use_idf else np.zeros(0)


def _weighted(model: Any, bag: Bag) -> Bag:
    return replace(bag, sublinear=bool(model.sublinear_tf), weights=_weights(model), norm=model.norm or "")


def _added(model: Any, build: Builder, bag: Bag) -> str:
    return build.add(HasText(type(model).__name__), build.add(bag))


def _terms(model: Any) -> tuple[str, ...]:
    places = model.vocabulary_
    terms = sorted(places, key=places.__getitem__)
    if not all(isinstance(term, str) for term in terms):
        raise refuse(model, "a vocabulary of other things than texts")
    return tuple(terms)


def _bag(model: Any, build: Builder, table: str, **own: Any) -> Bag:
    for option in ("preprocessor", "tokenizer", "analyzer", "strip_accents"):
        given = getattr(model, option)
        if callable(given):
            raise refuse(model, f"{option}={given!r}", "has no translation: it is a user's own function")
    if model.input != "content":
        raise refuse(model, f"input={model.input!r}", "has no translation: programs read texts, not files")
    kind = np.dtype(model.dtype)
    if kind.kind not in "iuf" or kind == np.float16:
        raise refuse(model, f"dtype={model.dtype!r}")
    column = _one_column(model, build, table)
    stop = model.get_stop_words() if model.analyzer == "word" else None
    fields: dict[str, Any] = {
        "columns": column,
        "lowercase": bool(model.lowercase),
        "accents": model.strip_accents or "",
        "pattern": model.token_pattern if model.analyzer == "word" else "",
        "analyzer": model.analyzer,
        "least": int(model.ngram_range[0]),
        "most": int(model.ngram_range[1]),
        "stop_words": tuple(sorted(stop or ())),
        "encoding": model.encoding,
        "errors": model.decode_error,
        "dtype": "float32" if kind == np.float32 else "float64",
    }
    return Bag(**{**fields, **own})


def _one_column(model: Any, build: Builder, table: str) -> NDArray[np.int64]:
    """Give the column of the program's input that a vectorizer reads."""
    read = sources(build, table)
    if len(read) != 1 or read[0] is None or read[0][1]:
        raise UnsupportedOperatorError(
            f"{type(model).__name__} of a table of {len(read)} columns, or of texts that an earlier step computes: "
            "it takes one column, as it is read"
        )
    return np.array([read[0][0]], np.int64)
