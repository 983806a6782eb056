"""Helpers of the scikit-learn parsers: validation of rows, and outputs of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse

__all__ = [
    "checked",
    "classes_of_scores",
    "outliers",
    "plain",
    "probabilities",
    "widened",
]

# Trees take NaN in dense tables only.
_TREES = frozenset(
    f"{kind}{task}"
    for kind in ("DecisionTree", "ExtraTree", "ExtraTrees", "RandomForest")
    for task in ("Classifier", "Regressor")
)


def checked(model: Any, build: ops.Builder, table: str, dtype: str = "as given", *, keep_booleans: bool = False) -> str:
    """Validate rows as the model's ``validate_data`` does; booleans become float64 unless `keep_booleans`."""
    kind, nan = type(model).__name__, bool(model.__sklearn_tags__().input_tags.allow_nan)
    if nan and kind in _TREES and build.sparsity(table) != "dense":
        # An earlier step may give a sparse table.
        kind, nan = f"{kind} of a sparse table", False
    rows = build.add(ops.Finite(dtype, nan, kind), table)
    widens = dtype == "as given" and not keep_booleans and build.is_boolean(table)
    return build.add(ops.Cast("float64"), rows) if widens else rows


def classes_of_scores(model: Any, build: ops.Builder, scores: str, *, or_equal: bool = False) -> ops.Output:
    """Return the class with the greatest score, or for one score the second class above zero."""
    classes = np.asarray(model.classes_)
    single = build.width(scores) == 1
    if (2 if single else build.width(scores)) != len(classes):
        raise refuse(model, f"{len(classes)} classes and {build.width(scores)} columns of scores")
    place = build.add(ops.Above(0.0, or_equal) if single else ops.ArgMax(), scores)
    return ops.Output(place, flat=True, labels=classes)


def plain(array: Any) -> np.ndarray[Any, Any]:
    """Copy an array of the model, dense and of float32 or float64."""
    copied = np.array(array.toarray() if hasattr(array, "toarray") else array)
    return copied if copied.dtype == np.float32 else copied.astype(np.float64)


def widened(build: ops.Builder, rows: str, *arrays: np.ndarray[Any, Any]) -> str:
    """Cast rows to the type in which numpy computes with these arrays: float32 only if all are float32."""
    return rows if all(array.dtype == np.float32 for array in arrays) else build.add(ops.Cast("float64"), rows)


def probabilities(build: ops.Builder, shares: str) -> dict[str, ops.Output]:
    """Return probabilities and their logarithms."""
    return {
        "predict_proba": ops.Output(shares),
        "predict_log_proba": ops.Output(build.add(ops.Function("log"), shares)),
    }


def outliers(build: ops.Builder, scores: str, *, labels: np.ndarray[Any, Any] | None = None) -> dict[str, ops.Output]:
    """Return the outputs of an outlier detector: scores, and -1 for a row below zero, else 1."""
    names = np.array([-1, 1]) if labels is None else labels
    return {
        "predict": ops.Output(build.add(ops.Above(0.0, or_equal=True), scores), flat=True, labels=names),
        "decision_function": ops.Output(scores, flat=True),
    }
