"""Text vectorizers of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling._vocabularies import entry_of, sources
from vista_spark.compiling.sklearn._checks import checked, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@parser("sklearn.CountVectorizer")
def lower_counts(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the counts of the terms of a vocabulary."""
    bag = _bag(model, build, table, terms=_terms(model), binary=bool(model.binary))
    counts = _added(model, build, bag)
    return {"transform": ops.Output(counts, dtype=np.dtype(model.dtype).name)}


@parser("sklearn.TfidfVectorizer")
def lower_tfidf(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the counts, and their weights and norm."""
    bag = _bag(model, build, table, terms=_terms(model), binary=bool(model.binary))
    return {"transform": ops.Output(_added(model, build, _weighted(model, bag)))}


@parser("sklearn.HashingVectorizer")
def lower_hashes(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
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
    return {"transform": ops.Output(_added(model, build, bag))}


@parser("sklearn.TfidfTransformer")
def lower_weights(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the weights and the norm: of counts of texts, together with those."""
    node = build.node(table)
    if node is not None and isinstance(node.operator, ops.HasText):
        counted = build.node(node.inputs[0])
        if counted is not None and isinstance(counted.operator, ops.Bag) and _plain_counts(counted.operator):
            bag = _weighted(model, counted.operator)
            return {"transform": ops.Output(build.add(node.operator, build.add(bag)))}
    damped = ops.Damped(bool(model.sublinear_tf), _weights(model), model.norm or "")
    return {"transform": ops.Output(build.add(damped, checked(model, build, table)))}


@parser("sklearn.DictVectorizer")
def lower_dictionaries(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a column for each name that is in the fitted dictionaries."""
    kind = _lists(model, build, table, "pairs", terms=_terms(model), separator=model.separator)
    return {"transform": ops.Output(kind)}


@parser("sklearn.MultiLabelBinarizer")
def lower_label_sets(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a column for each label: whether it is in a row's list."""
    terms = tuple(entry_of(label) for label in np.asarray(model.classes_).tolist())
    if any(not isinstance(term, str | int) for term in terms):
        raise refuse(model, f"labels like {terms[:3]}", "labels must be texts or integers")
    return {"transform": ops.Output(_lists(model, build, table, "list", terms=terms, binary=True), dtype="int64")}


def _lists(model: Any, build: ops.Builder, table: str, analyzer: str, **options: Any) -> str:
    """Count the entries of lists or dictionaries."""
    kind = np.dtype(getattr(model, "dtype", np.float64))
    if kind not in (np.float32, np.float64):
        raise refuse(model, f"dtype={model.dtype!r}")
    dtype = {"columns": _one_column(model, build, table), "dtype": kind.name, "analyzer": analyzer}
    what = "no list" if analyzer == "list" else "no names with numbers or texts, or NaN"
    return build.add(ops.HasText(type(model).__name__, what), build.add(ops.Bag(**{**dtype, **options})))


def _plain_counts(bag: ops.Bag) -> bool:
    return not (bag.sublinear or bag.norm or len(bag.weights))


def _weights(model: Any) -> NDArray[Any]:
    return plain(model.idf_) if model.use_idf else np.zeros(0)


def _weighted(model: Any, bag: ops.Bag) -> ops.Bag:
    return replace(bag, sublinear=bool(model.sublinear_tf), weights=_weights(model), norm=model.norm or "")


def _added(model: Any, build: ops.Builder, bag: ops.Bag) -> str:
    return build.add(ops.HasText(type(model).__name__), build.add(bag))


def _terms(model: Any) -> tuple[str, ...]:
    places = model.vocabulary_
    terms = sorted(places, key=places.__getitem__)
    if not all(isinstance(term, str) for term in terms):
        raise refuse(model, "a vocabulary of other things than texts")
    return tuple(terms)


def _bag(model: Any, build: ops.Builder, table: str, **options: Any) -> ops.Bag:
    for option in ("preprocessor", "tokenizer", "analyzer", "strip_accents"):
        value = getattr(model, option)
        if callable(value):
            raise refuse(model, f"{option}={value!r}", "it is a function of yours")
    if model.input != "content":
        raise refuse(model, f"input={model.input!r}", "programs read texts, not files")
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
    return ops.Bag(**{**fields, **options})


def _one_column(model: Any, build: ops.Builder, table: str) -> NDArray[np.int64]:
    """Return the input column that a vectorizer reads."""
    read = sources(build, table)
    if len(read) != 1 or read[0] is None or read[0][1]:
        raise refuse(
            model,
            f"a table of {len(read)} columns, or of texts that an earlier step computes",
            "it reads one column of the input",
        )
    return np.array([read[0][0]], np.int64)
