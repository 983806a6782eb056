"""Histogram gradient boosting of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling._vocabularies import as_numbers, with_codes
from vista_spark.compiling.sklearn._checks import classes_of_scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


_IDENTITY = frozenset({"squared_error", "absolute_error", "quantile"})
_EXPONENTIAL = frozenset({"gamma", "poisson"})


@parser("sklearn.HistGradientBoostingRegressor")
def lower_histogram_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the regressor: scores, or their exponential."""
    if model.loss not in _IDENTITY | _EXPONENTIAL:
        raise refuse(model, f"loss={model.loss!r}")
    scores = _trees(model, build, table)
    values = build.add(ops.Link("exp"), scores) if model.loss in _EXPONENTIAL else scores
    return {"predict": ops.Output(values, flat=True)}


@parser("sklearn.HistGradientBoostingClassifier")
def lower_histogram_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the classifier: one column of scores a class, or one of two classes."""
    scores = _trees(model, build, table)
    flat = build.width(scores) == 1
    shares = build.add(ops.Complement(), build.add(ops.Sigmoid(), scores)) if flat else build.add(ops.Softmax(), scores)
    return {
        "predict": classes_of_scores(model, build, scores),
        "predict_proba": ops.Output(shares),
        "decision_function": ops.Output(scores, flat=flat),
    }


def _trees(model: Any, build: ops.Builder, table: str) -> str:
    """Put the trees into one table. They compare float64 with float64, and take NaN and infinities."""
    predictors = [predictor for round_ in model._predictors for predictor in round_]
    grown = [predictor.nodes for predictor in predictors]
    nodes = np.concatenate(grown)
    starts = np.cumsum([0, *(len(tree) for tree in grown)])[:-1]
    shift = np.repeat(starts, [len(tree) for tree in grown])
    leaf = nodes["is_leaf"].astype(bool)
    by_set = nodes["is_categorical"].astype(bool) & ~leaf
    columns = len(model._predictors[0]) if model._predictors else 1
    feature, threshold = nodes["feature_idx"].astype(np.int64), np.array(nodes["num_threshold"], np.float64)
    if model.is_categorical_ is not None:
        sets = [
            predictor.raw_left_cat_bitsets[place]
            for predictor in predictors
            for place in predictor.nodes["bitset_idx"][
                predictor.nodes["is_categorical"].astype(bool) & (predictor.nodes["is_leaf"] == 0)
            ]
        ]
        table, feature = lower_sets(model, build, table, feature, np.flatnonzero(by_set), sets)
        threshold[by_set] = 0.5
    trees = ops.Trees.of_nodes(
        feature=feature,
        threshold=threshold,
        left=np.where(leaf, -1, nodes["left"].astype(np.int64) + shift),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64) + shift),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        value=nodes["value"][:, None],
        root=starts,
        target=np.tile(np.arange(columns), len(grown) // columns),
        base=np.ravel(model._baseline_prediction),
        divisor=1.0,
        features=build.width(table),
        missing=True,
    )
    return build.add(trees, table)


def lower_sets(
    model: Any,
    build: ops.Builder,
    table: str,
    feature: NDArray[np.int64],
    nodes: NDArray[np.int64],
    sets: Sequence[NDArray[np.uint32]],
) -> tuple[str, NDArray[np.int64]]:
    """Add a column for each set of categories: 0 for those on the left, 1 for others, NaN for what is not known.

    ``feature`` is the column of each node, as the library counts: categorical columns come first. ``sets`` are the bits
    of the categories on the left, for each of ``nodes``, which split by categories. Return the table (columns of
    numbers, then one column per set) and the columns of the nodes in it.
    """
    categorical = np.flatnonzero(model.is_categorical_)
    numeric = np.flatnonzero(~np.asarray(model.is_categorical_))
    encoder = model._preprocessor.named_transformers_["encoder"]
    known = [np.asarray(values) for values in encoder.categories_]
    known = [values if (numbers := as_numbers(values)) is None else numbers for values in known]
    texts = {}
    for place, values in enumerate(known):
        if values.dtype.kind not in "biuf":
            # The encoder numbers texts, and what is missing comes behind them.
            named = [value for value in values.tolist() if isinstance(value, str)]
            if named != values.tolist()[: len(named)] or len(values) - len(named) > 1:
                raise refuse(model, f"categories {values.tolist()[:3]}", "categories must be numbers or texts")
            texts[int(categorical[place])] = named
            known[place] = np.arange(len(named))
    table = with_codes(type(model).__name__, build, table, texts, known=False)
    bits, place = model._bin_mapper.make_known_categories_bitsets()
    columns: dict[tuple[int, bytes], int] = {}
    tables: list[dict[float, float]] = []
    numbers = np.array(feature)
    for node, left in zip(nodes.tolist(), sets, strict=True):
        column = int(feature[node])
        key = column, np.asarray(left).tobytes()
        if key not in columns:
            columns[key] = len(tables)
            seen = bits[place[column]]
            tables.append(
                {
                    float(value): 0.0 if _has(left, code) else 1.0
                    for code, value in enumerate(known[column])
                    if not np.isnan(value) and (_has(left, code) or _has(seen, code))
                }
            )
        numbers[node] = len(numeric) + columns[key]
    others = np.setdiff1d(np.arange(len(feature)), nodes)
    numbers[others] = np.maximum(feature[others] - len(categorical), 0)
    # The library's encoder takes NaN, and no infinity.
    codes = build.add(ops.Finite("as given", True, type(model).__name__), build.add(ops.Select(categorical), table))
    if not columns and not len(numeric):
        return codes, numbers
    parts = [build.add(ops.Select(numeric), table)] if len(numeric) else []
    looked_up = ops.CodeLookup.of_tables([column for column, _ in columns], tables, [np.nan] * len(tables))
    return build.add(ops.Concatenate(), *parts, build.add(looked_up, codes)), numbers


def _has(bits: NDArray[np.uint32], code: int) -> bool:
    return bool(int(bits[code // 32]) >> (code % 32) & 1)
