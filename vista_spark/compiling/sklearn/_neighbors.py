"""Nearest-neighbour models of scikit-learn."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


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


@parser("sklearn.KNeighborsRegressor")
def lower_neighbors_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the mean of the neighbours."""
    target = np.asarray(model._y)
    values = target.reshape(len(target), -1)
    if values.dtype.kind not in "biuf":
        raise refuse(model, f"values of type {values.dtype}")
    mean = _mean_of_neighbors(model, build, table, values.astype(np.float64), np.empty(0, np.int64))
    return {"predict": ops.Output(mean, flat=target.ndim == 1)}


@parser("sklearn.KNeighborsClassifier")
def lower_neighbors_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the votes of the neighbours, of several outputs too."""
    several = bool(model.outputs_2d_)
    classes = [np.asarray(labels) for labels in (model.classes_ if several else [model.classes_])]
    codes = np.asarray(model._y).reshape(-1, len(classes))
    votes = np.concatenate([np.eye(len(labels))[codes[:, place]] for place, labels in enumerate(classes)], axis=1)
    sizes = tuple(len(labels) for labels in classes)
    starts = np.cumsum([0, *sizes]).astype(np.int64)
    shares = _mean_of_neighbors(model, build, table, votes, starts[:-1])
    places = [
        build.add(ops.ArgMax(), build.add(ops.Select(np.arange(*ends)), shares)) for ends in pairwise(starts.tolist())
    ]
    if not several:
        return {"predict": ops.Output(places[0], flat=True, labels=classes[0]), "predict_proba": ops.Output(shares)}
    return {
        "predict": ops.Output(build.add(ops.Concatenate(), *places), labels=tuple(classes)),
        "predict_proba": ops.Output(shares, split=sizes),
    }


def _mean_of_neighbors(
    model: Any, build: ops.Builder, table: str, values: NDArray[np.float64], groups: NDArray[np.int64]
) -> str:
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
    # Distances of Euclid are computed in float64, whatever the table is.
    single = brute and points.dtype == np.float32 and metric != "euclidean"
    by_distance = model.weights == "distance"
    if single and by_distance and metric == "cosine":
        reason = "float32 rounds the distances of near points away"
        raise refuse(model, "metric='cosine', weights='distance' and a table of float32", reason, "Fit on float64.")
    p = float(parameters.get("p", 2.0))
    if metric == "minkowski" and p < 1:
        raise refuse(model, f"p={p}")
    if model.n_neighbors is None:
        raise refuse(model, "n_neighbors=None", "it predicts nothing")
    operator = ops.Neighbors(
        points=points.astype(np.float64),
        values=values,
        metric=metric,
        p=p,
        count=int(model.n_neighbors),
        radius=0.0,
        by_distance=by_distance,
        rounding="single" if single else "expanded" if brute and metric == "euclidean" else "exact",
        groups=groups,
    )
    neighbors = build.add(operator, checked(model, build, table))
    reason = "neighbours at one distance, whose choice depends on how the library searches"
    limit = np.full(values.shape[1] + 2, np.inf)
    certain = build.add(ops.Within(-limit, np.concatenate([[0.0], limit[1:]]), reason), neighbors)
    return build.add(ops.Select(np.arange(2, values.shape[1] + 2)), certain)
