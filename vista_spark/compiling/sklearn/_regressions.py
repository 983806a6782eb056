"""Isotonic regression, and regressions on projections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Cast, Clip, Finite, Interpolate, Linear, Output, Within
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, knot_side, plain, widened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_components", "lower_isotonic", "lower_latent", "lower_singular"]


@parser("sklearn.IsotonicRegression")
def lower_isotonic(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the line through the thresholds, of one column."""
    x, y = plain(model.X_thresholds_), plain(model.y_thresholds_)
    rows = build.add(Finite(x.dtype.name, nan=False, who="IsotonicRegression"), table)
    rows = build.add(Cast(x.dtype.name), rows)
    if model.out_of_bounds == "clip":
        rows = build.add(Clip(float(model.X_min_), float(model.X_max_)), rows)
    if len(x) == 1:
        values = build.add(Linear(np.zeros((1, 1), x.dtype), y), rows)
    else:
        if model.out_of_bounds == "raise":
            reason = f"a number outside of {float(x[0])} to {float(x[-1])}, which IsotonicRegression refuses"
            rows = build.add(Within(x[:1].astype(np.float64), x[-1:].astype(np.float64), reason), rows)
        values = build.add(Interpolate(x, y, knot_side(x)), rows)
    return {"predict": Output(values, flat=True), "transform": Output(values, flat=True)}


@parser("sklearn.CCA", "sklearn.PLSCanonical", "sklearn.PLSRegression")
def lower_latent(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the regression, and the projection of the rows."""
    rows = build.add(Arithmetic("subtract", plain(model._x_mean)), checked(model, build, table))
    weights, bias = plain(model.coef_).T.copy(), plain(model.intercept_)
    values = build.add(Linear(weights, np.broadcast_to(bias, weights.shape[1:]).copy()), rows)
    rotations = plain(model.x_rotations_)
    scored = build.add(Arithmetic("divide", plain(model._x_std)), rows)
    scores = build.add(Linear(rotations, np.zeros(rotations.shape[1], rotations.dtype)), scored)
    return {"predict": Output(values, flat=bool(model._predict_1d)), "transform": Output(scores)}


@parser("sklearn.PLSSVD")
def lower_singular(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the projection of the rows."""
    weights = plain(model.x_weights_)
    rows = build.add(Cast("float64"), checked(model, build, table))
    rows = build.add(Arithmetic("subtract", plain(model._x_mean)), rows)
    rows = build.add(Arithmetic("divide", plain(model._x_std)), rows)
    return {"transform": Output(build.add(Linear(weights, np.zeros(weights.shape[1])), rows))}


@parser("sklearn.NeighborhoodComponentsAnalysis")
def lower_components(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the projection."""
    weights = plain(model.components_).T.copy()
    rows = widened(build, checked(model, build, table), weights)
    return {"transform": Output(build.add(Linear(weights, np.zeros(weights.shape[1], weights.dtype)), rows))}
