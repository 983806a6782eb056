"""Imputers of scikit-learn, and the columns that say what was missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Choose,
    Concatenate,
    Constant,
    Encode,
    Filled,
    Impute,
    Like,
    Missing,
    NearestFill,
    Output,
    Patch,
    Recode,
    Reduce,
    Replace,
    Select,
    Within,
)
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling._vocabularies import entry_of, sources
from vista_spark.compiling.sklearn._checks import checked, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Builder, Entry

__all__ = ["lower_imputer", "lower_indicator", "lower_iterative", "lower_nearest"]


@parser("sklearn.SimpleImputer")
def lower_imputer(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower an imputer; a column without a statistic is left out, as the library does."""
    values = np.asarray(model.statistics_)
    numbers = all(isinstance(value, int | float) for value in values.tolist())
    if values.dtype.kind in "OU" and not (numbers and model.missing_values is not None):
        return _of_texts(model, build, table, values)
    rows = checked(model, build, table)
    filled = _filled(model, build, rows, values.astype(np.float64))
    return {"transform": Output(_with_indicator(model, build, filled, rows))}


def _filled(model: Any, build: Builder, rows: str, values: NDArray[np.float64]) -> str:
    empty = np.isnan(values)
    if empty.any() and not model.keep_empty_features:
        rows, values = build.add(Select(np.flatnonzero(~empty)), rows), values[~empty]
    # A mean of float32 numbers is kept as float64, and rounded to their type again when it is filled in.
    kind = getattr(getattr(model, "initial_imputer_", model), "_fill_dtype", values.dtype)
    return build.add(Impute(values.astype(kind).astype(np.float64), _mark(model)), rows)


def _of_texts(model: Any, build: Builder, table: str, values: NDArray[Any]) -> Mapping[str, Output]:
    """Tell the encoder that follows what stands for what: texts are looked up once, by it."""
    mark = _text_mark(model)
    # None is a statistic as any other, where NaN is what is missing.
    empty = np.array([value != value for value in values.tolist()], np.bool_)  # NaN
    kept = np.flatnonzero(~empty)
    own = build.add(Select(kept), table) if empty.any() and not model.keep_empty_features else table
    if empty.any() and model.keep_empty_features:
        raise refuse(model, "keep_empty_features=True and a column of texts without any")
    fills = [entry_of(values[column]) for column in kept]
    filled = build.add(Filled((mark,) * len(fills), tuple(fills), type(model).__name__, nan=mark != mark), own)
    if not model.add_indicator:
        return {"transform": Output(filled)}
    return {"transform": Output(build.add(Concatenate(), filled, _marked(model.indicator_, build, table, mark)))}


@parser("sklearn.MissingIndicator")
def lower_indicator(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the columns that say what is missing; with ``error_on_new``, others must not miss anything."""
    if isinstance(model.missing_values, str) or model.missing_values is None:
        marked = _marked(model, build, table, _text_mark(model))
    else:
        rows = build.add(Missing(_mark(model)), checked(model, build, table))
        marked = _chosen(model, build, rows)
    build.mark_kind(marked, "bool")
    return {"transform": Output(marked, dtype="bool")}


def _with_indicator(model: Any, build: Builder, filled: str, rows: str) -> str:
    if not model.add_indicator:
        return filled
    return build.add(Concatenate(), filled, _chosen(model.indicator_, build, build.add(Missing(_mark(model)), rows)))


def _marked(model: Any, build: Builder, table: str, mark: Entry) -> str:
    """Look the mark up in texts."""
    read = sources(build, table)
    columns = [one[0] for one in read if one is not None and not one[1]]
    if len(columns) < len(read):
        raise refuse(model, "texts that an earlier step computes")
    codes = build.add(Encode(np.array(columns, np.int64), ((mark,),) * len(columns)))
    values = np.tile(np.array([1.0, 0.0]), len(columns))[:, None]
    return _chosen(model, build, build.add(Recode(values, np.full(len(columns), 2, np.int64)), codes))


def _chosen(model: Any, build: Builder, marked: str) -> str:
    features = np.asarray(model.features_, np.int64)
    width = build.width(marked)
    if model.features == "missing-only" and model.error_on_new and len(features) < width:
        high = np.zeros(width)
        high[features] = 1
        reason = f"a missing value where there was none in training, which {type(model).__name__} refuses"
        marked = build.add(Within(np.zeros(width), high, reason), marked)
    return marked if len(features) == width else build.add(Select(features), marked)


def _mark(model: Any) -> float:
    """The number that is missing: NaN for all that pandas takes for it."""
    given = model.missing_values
    if given is None or type(given).__name__ == "NAType":
        return float("nan")
    if isinstance(given, str):
        raise refuse(model, f"missing_values={given!r} and numbers")
    return float(given)


def _text_mark(model: Any) -> Entry:
    given = model.missing_values
    if type(given).__name__ == "NAType":
        raise refuse(model, "missing_values=pandas.NA and texts")
    return entry_of(given)


@parser("sklearn.IterativeImputer")
def lower_iterative(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the rounds: each regression fills its column from those that are filled already."""
    if model.sample_posterior:
        raise refuse(model, "sample_posterior=True", "draws numbers, and has no one answer")
    empty = np.asarray(model._is_empty_feature, np.bool_)  # there is no public way
    if empty.any() and model.keep_empty_features:
        raise refuse(model, "keep_empty_features=True and an empty column")
    rows = checked(model, build, table)
    mark = _mark(model)
    known = np.asarray(model.initial_imputer_.statistics_, np.float64)
    filled = _filled(model, build, rows, known)
    known = known[~empty]
    marked = build.add(Select(np.flatnonzero(~empty)), rows) if empty.any() else rows
    if model.n_iter_:
        marked = _not_all_missing(build, marked, mark)
    for step in model.imputation_sequence_ if model.n_iter_ else ():
        place, others = int(step.feat_idx), np.asarray(step.neighbor_feat_idx, np.int64)
        neighbours = build.add(Select(others), filled)
        there = build.add(Select(np.array([place])), build.add(Missing(mark), marked))
        outputs = lower(step.estimator, build, _asked(build, neighbours, there, known[others]))
        found = outputs.get("predict")
        if found is None or found.labels is not None or build.width(found.node) != 1:
            raise refuse(model, f"estimator={step.estimator!r}")
        low, high = float(model._min_value[place]), float(model._max_value[place])
        filled = build.add(Patch(place, mark, low, high), filled, marked, found.node)
    return {"transform": Output(_with_indicator(model, build, filled, rows))}


def _asked(build: Builder, rows: str, missing: str, usual: NDArray[np.float64]) -> str:
    """Give usual numbers where nothing is missing: there the library does not ask, and no row can be bad."""
    return build.add(Choose(), missing, rows, build.add(Like(), build.add(Constant(usual), rows), rows))


def _not_all_missing(build: Builder, rows: str, mark: float) -> str:
    """Refuse rows of nothing: what the library gives for them depends on whether other rows have something."""
    width = build.width(rows)
    both = build.add(Concatenate(), rows, build.add(Reduce("sum"), build.add(Missing(mark), rows)))
    high = np.append(np.full(width, np.inf), width - 1)
    reason = "nothing but missing values, for which IterativeImputer's answer depends on the other rows"
    return build.add(Select(np.arange(width)), build.add(Within(np.full(width + 1, -np.inf), high, reason), both))


@parser("sklearn.KNNImputer")
def lower_nearest(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower means of the nearest rows of the fit. A row where ties of unequal rows decide is bad.

    Which of equally distant rows count is left to the order of numpy's partition.
    """
    if callable(model.weights) or model.metric != "nan_euclidean":
        raise refuse(model, f"weights={model.weights!r}, metric={model.metric!r}")
    fitted, absent = np.asarray(model._fit_X), np.asarray(model._mask_fit_X)  # there is no public way
    points = np.where(absent, np.nan, fitted.astype(np.float64))
    empty = absent.all(axis=0)
    sums = np.where(absent, 0.0, points).sum(axis=0)
    means = np.divide(sums, (~absent).sum(axis=0), out=np.full(len(sums), np.nan), where=~empty)
    rows, mark = checked(model, build, table), _mark(model)
    width = build.width(rows)
    marked = rows if mark != mark else build.add(Replace(*(np.full(width, mark),) * 2, np.full(width, np.nan)), rows)
    step = float(np.finfo(fitted.dtype).eps)
    fill = NearestFill(points, means, int(model.n_neighbors), model.weights == "distance", step)
    found = build.add(fill, marked)
    reason = "rows of the fit at one distance, of which KNNImputer takes those that numpy's partition puts first"
    limit = np.append(0.0, np.full(width, np.inf))
    low = np.full(width + 1, -np.inf)
    filled = build.add(Select(np.flatnonzero(~empty) + 1), build.add(Within(low, limit, reason), found))
    if empty.any() and model.keep_empty_features:
        joined = build.add(Concatenate(), filled, build.add(Constant(np.zeros(1, fitted.dtype)), filled))
        places = np.where(empty, build.width(filled), np.cumsum(~empty) - 1)
        filled = build.add(Select(places), joined)
    return {"transform": Output(_with_indicator(model, build, filled, rows))}
