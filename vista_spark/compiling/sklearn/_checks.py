"""What the parsers of scikit-learn share: the check of rows, and results of classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Above,
    ArgMax,
    Cast,
    Finite,
    Function,
    Output,
    UnsupportedOperatorError,
)

if TYPE_CHECKING:
    from optimizer.compiling import Builder

__all__ = [
    "checked",
    "classes_of_scores",
    "knot_side",
    "of_dtype",
    "outliers",
    "plain",
    "probabilities",
    "refuse",
    "widened",
]

# Those that take NaN, but not in a sparse table.
_TREES = frozenset(
    f"{kind}{task}"
    for kind in ("DecisionTree", "ExtraTree", "ExtraTrees", "RandomForest")
    for task in ("Classifier", "Regressor")
)


def checked(model: Any, build: Builder, table: str, dtype: str = "as given", *, keep_booleans: bool = False) -> str:
    """Hold the rows to what the model takes, as its ``validate_data`` does; booleans become float64, unless kept."""
    kind, nan = type(model).__name__, bool(model.__sklearn_tags__().input_tags.allow_nan)
    if nan and kind in _TREES and build.sparsity(table) != "dense":
        # A step before them may have made a sparse table of a dense one.
        kind, nan = f"{kind} of a sparse table", False
    rows = build.add(Finite(dtype, nan, kind), table)
    widens = dtype == "as given" and not keep_booleans and build.kind(table) == "bool"
    return build.add(Cast("float64"), rows) if widens else rows


def of_dtype(model: Any, build: Builder, table: str) -> str:
    """Note that a result is of whole numbers, where the model's ``dtype=`` says so."""
    if np.dtype(model.dtype).kind in "iu":
        build.mark_kind(table, "int")
    return table


def refuse(model: Any, option: str, why: str = "has no translation") -> UnsupportedOperatorError:
    """Make the error that names a model and its option."""
    return UnsupportedOperatorError(f"{type(model).__name__} with {option} {why}")


def classes_of_scores(model: Any, build: Builder, scores: str, *, or_equal: bool = False) -> Output:
    """Give the class with the greatest score; of one score, the second class above zero."""
    classes = np.asarray(model.classes_)
    single = build.width(scores) == 1
    if (2 if single else build.width(scores)) != len(classes):
        raise refuse(model, f"{len(classes)} classes and {build.width(scores)} columns of scores")
    place = build.add(Above(0.0, or_equal) if single else ArgMax(), scores)
    return Output(place, flat=True, labels=classes)


def plain(array: Any) -> np.ndarray[Any, Any]:
    """Copy an array of the model's into one of ours, of float32 or float64."""
    own = np.array(array.toarray() if hasattr(array, "toarray") else array)
    return own if own.dtype == np.float32 else own.astype(np.float64)


def widened(build: Builder, rows: str, *arrays: np.ndarray[Any, Any]) -> str:
    """Give the rows in the type in which numpy would compute with these arrays: float32 only if all are."""
    return rows if all(array.dtype == np.float32 for array in arrays) else build.add(Cast("float64"), rows)


def probabilities(build: Builder, shares: str) -> dict[str, Output]:
    """Give probabilities and their logarithms, where the library takes the one of the other."""
    return {"predict_proba": Output(shares), "predict_log_proba": Output(build.add(Function("log"), shares))}


def outliers(build: Builder, scores: str, *, labels: np.ndarray[Any, Any] | None = None) -> dict[str, Output]:
    """Give the results of an outlier detector: its scores, and -1 for a row below zero, else 1."""
    names = np.array([-1, 1]) if labels is None else labels
    return {
        "predict": Output(build.add(Above(0.0, or_equal=True), scores), flat=True, labels=names),
        "decision_function": Output(scores, flat=True),
    }


def knot_side(knots: np.ndarray[Any, Any]) -> str:
    """Tell whose line gives the value at a knot: scipy leaves float64 to numpy, and takes the left one of float32."""
    return "right" if knots.dtype == np.float64 else "left"
