"""Scalers of scikit-learn."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain

if TYPE_CHECKING:
    from collections.abc import Mapping


@parser("sklearn.StandardScaler")
def lower_standard(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the scaler: minus the mean, over the deviation."""
    rows, rounded = checked(model, build, table), _rounds_first()
    if model.with_mean:
        rows = build.add(ops.Arithmetic("subtract", plain(model.mean_), rounded), rows)
    if model.scale_ is not None:
        rows = build.add(ops.Arithmetic("divide", plain(model.scale_), rounded), rows)
    return {"transform": ops.Output(rows)}


@cache
def _rounds_first() -> bool:
    """Find out whether this release rounds the mean to float32 before it is subtracted from a table of float32."""
    from sklearn.preprocessing import StandardScaler

    # The mean is 3.5 steps of float32 below 1: rounded first, the difference is a whole number of steps.
    step = float(np.finfo(np.float32).epsneg)
    fitted = StandardScaler(with_std=False).fit(np.array([[1 - 3 * step], [1 - 4 * step]]))
    return float(fitted.transform(np.ones((1, 1), np.float32))[0, 0]) != 3.5 * step


@parser("sklearn.MinMaxScaler")
def lower_min_max(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the scaler: times a scale, plus a shift, clipped on demand."""
    rows = checked(model, build, table)
    rows = build.add(ops.Arithmetic("multiply", plain(model.scale_)), rows)
    rows = build.add(ops.Arithmetic("add", plain(model.min_)), rows)
    if model.clip:
        rows = build.add(ops.Clip(*(float(bound) for bound in model.feature_range)), rows)
    return {"transform": ops.Output(rows)}


@parser("sklearn.MaxAbsScaler")
def lower_max_abs(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the scaler: over the greatest magnitude, clipped on demand."""
    rows = build.add(ops.Arithmetic("divide", plain(model.scale_)), checked(model, build, table))
    # An option since release 1.9.
    if getattr(model, "clip", False):
        rows = build.add(ops.Clip(-1.0, 1.0), rows)
    return {"transform": ops.Output(rows)}


@parser("sklearn.RobustScaler")
def lower_robust(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the scaler: minus the median, over the range between quantiles."""
    rows = checked(model, build, table)
    if model.with_centering:
        rows = build.add(ops.Arithmetic("subtract", plain(model.center_)), rows)
    if model.with_scaling:
        rows = build.add(ops.Arithmetic("divide", plain(model.scale_)), rows)
    return {"transform": ops.Output(rows)}


@parser("sklearn.Normalizer")
def lower_normalizer(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the scaler of rows."""
    return {"transform": ops.Output(build.add(ops.Normalise(model.norm), checked(model, build, table)))}


@parser("sklearn.Binarizer")
def lower_binarizer(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the threshold."""
    return {"transform": ops.Output(build.add(ops.Compare(float(model.threshold)), checked(model, build, table)))}
