"""Imputers and missing-value indicators of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling._vocabularies import entry_of, sources
from vista_spark.compiling.sklearn._checks import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@parser("sklearn.SimpleImputer")
def lower_imputer(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower an imputer; a column without a statistic is left out, as the library does."""
    values = np.asarray(model.statistics_)
    numbers = all(isinstance(value, int | float) for value in values.tolist())
    if values.dtype.kind in "OU" and not (numbers and model.missing_values is not None):
        return _of_texts(model, build, table, values)
    if model.strategy in {"constant", "most_frequent"}:  # the other strategies convert objects to floats
        table = build.add(ops.ReadAs(type(model).__name__, "values"), table)
    rows = checked(model, build, table)
    filled = _filled(model, build, rows, values.astype(np.float64))
    return {"transform": ops.Output(_with_indicator(model, build, filled, rows))}


def _filled(model: Any, build: ops.Builder, rows: str, values: NDArray[np.float64]) -> str:
    empty = np.isnan(values)
    if empty.any() and not model.keep_empty_features:
        rows, values = build.add(ops.Select(np.flatnonzero(~empty)), rows), values[~empty]
    # A mean of float32 numbers is kept as float64, and rounded to their type again when it is filled in.
    kind = getattr(getattr(model, "initial_imputer_", model), "_fill_dtype", values.dtype)
    return build.add(ops.Impute(values.astype(kind).astype(np.float64), _mark(model)), rows)


def _of_texts(model: Any, build: ops.Builder, table: str, values: NDArray[Any]) -> Mapping[str, ops.Output]:
    """Pass marks and replacements on to the encoder that follows, which looks up texts once."""
    mark = _text_mark(model)
    # None is a statistic as any other, where NaN is what is missing.
    empty = np.array([value != value for value in values.tolist()], np.bool_)
    kept = np.flatnonzero(~empty)
    kept_table = build.add(ops.Select(kept), table) if empty.any() and not model.keep_empty_features else table
    if empty.any() and model.keep_empty_features:
        raise refuse(model, "keep_empty_features=True and an empty column of texts")
    fills = [entry_of(values[column]) for column in kept]
    is_nan = isinstance(mark, float) and np.isnan(mark)
    filled = build.add(ops.Filled((mark,) * len(fills), tuple(fills), type(model).__name__, nan=is_nan), kept_table)
    if not model.add_indicator:
        return {"transform": ops.Output(filled)}
    return {
        "transform": ops.Output(build.add(ops.Concatenate(), filled, _marked(model.indicator_, build, table, mark)))
    }


@parser("sklearn.MissingIndicator")
def lower_indicator(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the columns that say what is missing; with ``error_on_new``, others must not miss anything."""
    if isinstance(model.missing_values, str) or model.missing_values is None:
        marked = _marked(model, build, table, _text_mark(model))
    else:
        as_given = build.add(ops.ReadAs(type(model).__name__, "values"), table)
        rows = build.add(ops.Missing(_mark(model)), checked(model, build, as_given))
        marked = _chosen(model, build, rows)
    build.mark_boolean(marked)
    return {"transform": ops.Output(marked, dtype="bool")}


def _with_indicator(model: Any, build: ops.Builder, filled: str, rows: str) -> str:
    if not model.add_indicator:
        return filled
    return build.add(
        ops.Concatenate(), filled, _chosen(model.indicator_, build, build.add(ops.Missing(_mark(model)), rows))
    )


def _marked(model: Any, build: ops.Builder, table: str, mark: ops.Entry) -> str:
    """Look the mark up in texts."""
    read = sources(build, table)
    columns = [source[0] for source in read if source is not None and not source[1]]
    if len(columns) < len(read):
        raise refuse(model, "texts that an earlier step computes")
    codes = build.add(ops.Encode(np.array(columns, np.int64), ((mark,),) * len(columns)))
    values = np.tile(np.array([1.0, 0.0]), len(columns))[:, None]
    return _chosen(model, build, build.add(ops.Recode(values, np.full(len(columns), 2, np.int64)), codes))


def _chosen(model: Any, build: ops.Builder, marked: str) -> str:
    features = np.asarray(model.features_, np.int64)
    width = build.width(marked)
    if model.features == "missing-only" and model.error_on_new and len(features) < width:
        high = np.zeros(width)
        high[features] = 1
        reason = f"a missing value where there was none in training, which {type(model).__name__} refuses"
        marked = build.add(ops.Within(np.zeros(width), high, reason), marked)
    return marked if len(features) == width else build.add(ops.Select(features), marked)


def _mark(model: Any) -> float:
    """Return the number that marks missing values; NaN for None and pandas.NA."""
    value = model.missing_values
    if value is None or type(value).__name__ == "NAType":
        return float("nan")
    if isinstance(value, str):
        raise refuse(model, f"missing_values={value!r} and numbers")
    return float(value)


def _text_mark(model: Any) -> ops.Entry:
    value = model.missing_values
    if type(value).__name__ == "NAType":
        raise refuse(model, "missing_values=pandas.NA and texts")
    return entry_of(value)


@parser("sklearn.IterativeImputer")
def lower_iterative(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the rounds: each regression fills its column from those that are filled already."""
    if model.sample_posterior:
        raise refuse(model, "sample_posterior=True", "it draws random numbers")
    empty = np.asarray(model._is_empty_feature, np.bool_)
    if empty.any() and model.keep_empty_features:
        raise refuse(model, "keep_empty_features=True and an empty column")
    rows = checked(model, build, table)
    mark = _mark(model)
    known = np.asarray(model.initial_imputer_.statistics_, np.float64)
    filled = _filled(model, build, rows, known)
    known = known[~empty]
    marked = build.add(ops.Select(np.flatnonzero(~empty)), rows) if empty.any() else rows
    if model.n_iter_:
        marked = _not_all_missing(build, marked, mark)
    for step in model.imputation_sequence_ if model.n_iter_ else ():
        place, others = int(step.feat_idx), np.asarray(step.neighbor_feat_idx, np.int64)
        neighbours = build.add(ops.Select(others), filled)
        there = build.add(ops.Select(np.array([place])), build.add(ops.Missing(mark), marked))
        outputs = lower(step.estimator, build, _asked(build, neighbours, there, known[others]))
        prediction = outputs.get("predict")
        if prediction is None or prediction.labels is not None or build.width(prediction.node) != 1:
            raise refuse(model, f"estimator={step.estimator!r}")
        low, high = float(model._min_value[place]), float(model._max_value[place])
        filled = build.add(ops.Patch(place, mark, low, high), filled, marked, prediction.node)
    return {"transform": ops.Output(_with_indicator(model, build, filled, rows))}


def _asked(build: ops.Builder, rows: str, missing: str, usual: NDArray[np.float64]) -> str:
    """Replace rows without a missing value by usual numbers, because the library does not predict them."""
    return build.add(ops.Choose(), missing, rows, build.add(ops.Like(), build.add(ops.Constant(usual), rows), rows))


def _not_all_missing(build: ops.Builder, rows: str, mark: float) -> str:
    """Refuse rows of missing values only: the library's result for them depends on the other rows."""
    width = build.width(rows)
    both = build.add(ops.Concatenate(), rows, build.add(ops.Reduce("sum"), build.add(ops.Missing(mark), rows)))
    high = np.append(np.full(width, np.inf), width - 1)
    reason = "nothing but missing values, for which IterativeImputer's answer depends on the other rows"
    return build.add(
        ops.Select(np.arange(width)), build.add(ops.Within(np.full(width + 1, -np.inf), high, reason), both)
    )


@parser("sklearn.KNNImputer")
def lower_nearest(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower means of the nearest rows of the fit. A row where ties of unequal rows decide is bad.

    Which of equally distant rows count is left to the order of numpy's partition.
    """
    if callable(model.weights) or model.metric != "nan_euclidean":
        raise refuse(model, f"weights={model.weights!r}, metric={model.metric!r}")
    fitted, absent = np.asarray(model._fit_X), np.asarray(model._mask_fit_X)
    points = np.where(absent, np.nan, fitted.astype(np.float64))
    empty = absent.all(axis=0)
    sums = np.where(absent, 0.0, points).sum(axis=0)
    means = np.divide(sums, (~absent).sum(axis=0), out=np.full(len(sums), np.nan), where=~empty)
    rows, mark = checked(model, build, table), _mark(model)
    width = build.width(rows)
    marks = np.full(width, mark)
    marked = rows if np.isnan(mark) else build.add(ops.Replace(marks, marks, np.full(width, np.nan)), rows)
    step = float(np.finfo(fitted.dtype).eps)
    fill = ops.NearestFill(points, means, int(model.n_neighbors), model.weights == "distance", step)
    nearest = build.add(fill, marked)
    reason = "rows of the fit at one distance, of which KNNImputer takes those that numpy's partition puts first"
    limit = np.append(0.0, np.full(width, np.inf))
    low = np.full(width + 1, -np.inf)
    filled = build.add(ops.Select(np.flatnonzero(~empty) + 1), build.add(ops.Within(low, limit, reason), nearest))
    if empty.any() and model.keep_empty_features:
        joined = build.add(ops.Concatenate(), filled, build.add(ops.Constant(np.zeros(1, fitted.dtype)), filled))
        places = np.where(empty, build.width(filled), np.cumsum(~empty) - 1)
        filled = build.add(ops.Select(places), joined)
    return {"transform": ops.Output(_with_indicator(model, build, filled, rows))}
