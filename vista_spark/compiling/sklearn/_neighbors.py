"""Models that look up the nearest rows of their training data."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import ArgMax, Concatenate, Impute, Linear, Neighbors, Output, Select, Within
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = ["lower_neighbors_classifier", "lower_neighbors_regressor"]

# Below any share of a vote.
_LEAST = float(np.finfo(np.float64).tiny)

_METRICS = {
    "chebyshev": "chebyshev",
    "cityblock": "manhattan",
    "cosine": "cosine",
    "euclidean": "euclidean",
    "infinity": "chebyshev",
    "l1": "manhattan",
    "l2": "euclidean",
    "manhattan": "manhattan",
    "minkowski": "minkowski",
}


@parser("sklearn.KNeighborsRegressor", "sklearn.RadiusNeighborsRegressor")
def lower_neighbors_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the mean of the neighbours; without any in the radius, NaN."""
    target = np.asarray(model._y)
    values = target.reshape(len(target), -1)
    if values.dtype.kind not in "biuf":
        raise refuse(model, f"values of type {values.dtype}")
    mean, number = _neighbors(model, build, table, values.astype(np.float64), np.empty(0, np.int64))
    if values.dtype.kind != "f":
        # The library has NaN as a whole number there, which is the least of all.
        mean = _with_neighbor(model, build, mean, number, "values that are whole numbers")
    return {"predict": Output(mean, flat=target.ndim == 1)}


@parser("sklearn.KNeighborsClassifier", "sklearn.RadiusNeighborsClassifier")
def lower_neighbors_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the votes of the neighbours, of several outputs too."""
    several = bool(model.outputs_2d_)
    classes = [np.asarray(one) for one in (model.classes_ if several else [model.classes_])]
    codes = np.asarray(model._y).reshape(-1, len(classes))
    votes = np.concatenate([np.eye(len(one))[codes[:, place]] for place, one in enumerate(classes)], axis=1)
    starts = np.cumsum([0, *(len(one) for one in classes)]).astype(np.int64)
    shares, number = _neighbors(model, build, table, votes, starts[:-1])
    if type(model).__name__ == "RadiusNeighborsClassifier":
        shares, best, names = _outliers(model, build, shares, number, classes, starts)
    else:
        best, names = [build.add(Select(np.arange(*ends)), shares) for ends in _ends(starts)], classes
    places = [build.add(ArgMax(), one) for one in best]
    if not several:
        return {"predict": Output(places[0], flat=True, labels=names[0]), "predict_proba": Output(shares)}
    return {
        "predict": Output(build.add(Concatenate(), *places), labels=tuple(names)),
        "predict_proba": Output(shares, split=tuple(len(one) for one in classes)),
    }


def _outliers(
    model: Any, build: Builder, shares: str, number: str, classes: list[NDArray[Any]], starts: NDArray[np.int64]
) -> tuple[str, list[str], list[NDArray[Any]]]:
    """Give rows without neighbours the label for them, or hold rows to having some."""
    if model.outlier_label_ is None:
        shares = _with_neighbor(model, build, shares, number, "no outlier_label")
        return shares, [build.add(Select(np.arange(*ends)), shares) for ends in _ends(starts)], classes
    uniform = model.weights in {None, "uniform"}
    if model._fit_method == "brute" and uniform and model.effective_metric_ != "euclidean":
        raise refuse(model, "outlier_label and brute force in this metric", "takes the label for a number of a class")
    filled, names = np.zeros(starts[-1]), []
    for place, (label, own) in enumerate(zip(model.outlier_label_, classes, strict=True)):
        found = np.flatnonzero(own == label)
        if len(found) == 1:
            filled[starts[place] + found[0]] = 1
        names.append(np.append(own, label).astype(own.dtype))
    shares = build.add(Impute(filled, float("nan")), shares)
    best = []
    for place, ends in enumerate(_ends(starts)):
        rivals = build.add(Select(np.arange(*ends)), shares)
        # One more class: it wins where all the others have nothing.
        spare = build.add(Linear(np.zeros((len(classes[place]), 1)), np.full(1, _LEAST)), rivals)
        best.append(build.add(Concatenate(), rivals, spare))
    return shares, best, names


def _with_neighbor(model: Any, build: Builder, values: str, number: str, why: str) -> str:
    """Hold rows to having a neighbour."""
    reason = f"no neighbour within the radius, which {type(model).__name__} with {why} does not take"
    held = build.add(Within(np.ones(1), np.full(1, np.inf), reason), number)
    return build.add(Select(np.arange(1, build.width(values) + 1)), build.add(Concatenate(), held, values))


def _ends(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in pairwise(starts)]


def _neighbors(
    model: Any, build: Builder, table: str, values: NDArray[np.float64], groups: NDArray[np.int64]
) -> tuple[str, str]:
    """Add the operator: the mean of the values, and the number of neighbours."""
    metric = _METRICS.get(model.effective_metric_) if isinstance(model.effective_metric_, str) else None
    if metric is None:
        raise refuse(model, f"metric={model.effective_metric_!r}")
    parameters = {name: value for name, value in model.effective_metric_params_.items() if value is not None}
    if set(parameters) - {"p"}:
        raise refuse(model, f"metric_params={parameters}")
    if model.weights not in {None, "uniform", "distance"}:
        raise refuse(model, f"weights={model.weights!r}")
    points = np.asarray(model._fit_X)
    if points.ndim != 2 or points.dtype.kind not in "biuf":
        raise refuse(model, f"training data of type {type(model._fit_X).__name__}")
    brute = model._fit_method == "brute"
    if brute and points.dtype == np.float32:
        raise refuse(model, "brute force over float32", "rounds distances so that ties fall by chance: fit on float64")
    rounding = "exact"
    if brute and metric == "euclidean":
        rounding = "expanded"
    elif brute and points.dtype == np.float32:
        rounding = "float32"
    elif model._fit_method == "ball_tree":
        rounding = "ball"
    radius = type(model).__name__.startswith("Radius")
    p = float(parameters.get("p", 2.0))
    if metric == "minkowski" and p < 1:
        raise refuse(model, f"p={p}")
    operator = Neighbors(
        points=points.astype(np.float64),
        values=values,
        metric=metric,
        p=p,
        count=0 if radius else _count_of(model),
        radius=_radius_of(model) if radius else 0.0,
        by_distance=model.weights == "distance",
        rounding=rounding,
        groups=groups,
    )
    found = build.add(operator, checked(model, build, table))
    reason = "neighbours at one distance or at the edge, whose choice depends on how the library searches"
    limit = np.full(values.shape[1] + 2, np.inf)
    held = build.add(Within(-limit, np.concatenate([[0.0], limit[1:]]), reason), found)
    mean = build.add(Select(np.arange(2, values.shape[1] + 2)), held)
    return mean, build.add(Select(np.array([1], np.int64)), found)


def _count_of(model: Any) -> int:
    if model.n_neighbors is None:
        raise refuse(model, "n_neighbors=None", "predicts nothing")
    return int(model.n_neighbors)


def _radius_of(model: Any) -> float:
    if model.radius is None:
        raise refuse(model, "radius=None", "predicts nothing")
    return float(model.radius)
