"""Regressors with transformed targets of scikit-learn."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import plain
from vista_spark.compiling.sklearn._members import member

if TYPE_CHECKING:
    from collections.abc import Mapping


@parser("sklearn.TransformedTargetRegressor")
def lower_transformed_target(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the regressor, then the inverse of what was done to its target."""
    inner = member(model, model.regressor_, build, table, "predict")
    values = _inverse(model, model.transformer_, build, inner.node)
    single = build.width(values) == 1 and model._training_dim == 1
    return {"predict": ops.Output(values, flat=single)}


def _inverse(model: Any, transformer: Any, build: ops.Builder, values: str) -> str:
    """Lower ``transformer.inverse_transform``."""
    kind = type(transformer).__name__
    if kind == "Pipeline":
        for _, step in reversed(transformer.steps):
            if step is not None and step != "passthrough":
                values = _inverse(model, step, build, values)
        return values
    if kind == "FunctionTransformer":
        return _function(transformer, build, values)
    if kind not in _INVERSES:
        raise refuse(model, f"transformer={kind}()", "its inverse is not compiled")
    values = build.add(ops.Finite("as given", nan=True, who=kind), values)
    for operation, name, wanted in _INVERSES[kind]:
        operand = getattr(transformer, name)
        if operand is not None and (wanted is None or getattr(transformer, wanted)):
            values = build.add(ops.Arithmetic(operation, np.atleast_1d(plain(operand))), values)
    return values


# Operation, its number, and the option without which it is left out.
_INVERSES = {
    "MaxAbsScaler": (("multiply", "scale_", None),),
    "MinMaxScaler": (("subtract", "min_", None), ("divide", "scale_", None)),
    "RobustScaler": (("multiply", "scale_", "with_scaling"), ("add", "center_", "with_centering")),
    "StandardScaler": (("multiply", "scale_", "with_std"), ("add", "mean_", "with_mean")),
}


def _function(transformer: Any, build: ops.Builder, values: str) -> str:
    """Lower the inverse as a function of its own."""
    if transformer.validate:
        values = build.add(ops.Finite("as given", nan=False, who=type(transformer).__name__), values)
    if transformer.inverse_func is None:
        return values
    inverse = copy(transformer)
    inverse.func, inverse.kw_args = transformer.inverse_func, transformer.inv_kw_args
    inverse.n_features_in_ = build.width(values)
    return lower(inverse, build, values)["transform"].node
