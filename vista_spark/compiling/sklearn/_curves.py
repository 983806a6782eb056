"""Transformers of scikit-learn that bend or multiply columns: powers, quantiles, bins, splines, polynomials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    UFUNCS,
    Bins,
    Cast,
    Choose,
    Constant,
    Finite,
    Monomials,
    OneHot,
    Output,
    PowerTransform,
    Quantiles,
    Select,
    Splines,
    Ufunc,
    Within,
)
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import checked, plain, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = [
    "lower_bins",
    "lower_function",
    "lower_polynomial",
    "lower_power",
    "lower_quantiles",
    "lower_splines",
]


@parser("sklearn.FunctionTransformer")
def lower_function(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the identity, and functions of numpy with one argument."""
    if model.kw_args or model.inv_kw_args:
        raise refuse(model, f"kw_args={model.kw_args!r}")
    if model.func is None:
        return {"transform": Output(checked(model, build, table, keep_booleans=True) if model.validate else table)}
    name = getattr(model.func, "__name__", "")
    if type(model.func).__name__ != "ufunc" or name not in UFUNCS:
        raise refuse(
            model, f"func={model.func!r}", f"has no translation: functions of numpy have one ({', '.join(UFUNCS)})"
        )
    rows = checked(model, build, table, keep_booleans=True) if model.validate else table
    if build.kind(rows) == "bool":
        return {"transform": _of_booleans(model, build, rows)}
    kind = "bool" if name in {"isfinite", "isinf", "isnan", "signbit"} else None
    return {"transform": Output(build.add(Ufunc(name), rows), dtype=kind)}


def _of_booleans(model: Any, build: Builder, rows: str) -> Output:
    """Lower the two numbers that a function gives for booleans: numpy has them of float16, or of 8 bits."""
    with np.errstate(all="ignore"):
        given = model.func(np.array([False, True]))
    width = build.width(rows)
    low, high = (build.add(Constant(np.full(width, one, np.float64)), rows) for one in given)
    kind = {"b": "bool", "i": "int64", "u": "int64"}.get(given.dtype.kind)
    return Output(build.add(Choose(), rows, high, low), dtype=kind)


@parser("sklearn.PowerTransformer")
def lower_power(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the power of each column, and the scaler behind it."""
    rows = checked(model, build, table)
    if model.method == "box-cox":
        width = build.width(rows)
        least = np.full(width, np.nextafter(0.0, 1.0))
        reason = "a number that is not positive, which PowerTransformer with method='box-cox' does not take"
        rows = build.add(Within(least, np.full(width, np.inf), reason), rows)
    rows = build.add(PowerTransform(model.method, plain(model.lambdas_)), rows)
    return lower(model._scaler, build, rows) if model.standardize else {"transform": Output(rows)}


@parser("sklearn.QuantileTransformer")
def lower_quantiles(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the interpolation between quantiles."""
    quantiles = plain(model.quantiles_)
    if np.isnan(quantiles).any():
        raise refuse(model, "a column without any number")
    normal = model.output_distribution == "normal"
    rows = checked(model, build, table)
    shares = build.add(Quantiles(quantiles, plain(model.references_), normal), rows)
    held = build.sparsity(table)
    if held == "written":
        raise refuse(model, "a sparse table that may have zeros in it")
    if held == "dense":
        return {"transform": Output(shares)}
    if not model.ignore_implicit_zeros:
        reason = "a number below zero, which QuantileTransformer does not take in a sparse table"
        rows = build.add(Within(np.zeros(build.width(rows)), np.full(build.width(rows), np.inf), reason), rows)
    # Of a sparse table the library transforms what is written: a zero stays one.
    return {"transform": Output(build.add(Choose(), rows, shares, rows))}


@parser("sklearn.KBinsDiscretizer")
def lower_bins(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the bins: their places, or a column each."""
    rows = checked(model, build, table)
    if model.dtype is not None:
        rows = build.add(Cast(np.dtype(model.dtype).name), rows)
    inner = [np.asarray(edges, np.float64)[1:-1] for edges in model.bin_edges_]
    sizes = np.array([len(edges) for edges in inner], np.int64)
    places = build.add(Bins(np.concatenate(inner), sizes), rows)
    kind = "float64" if model.dtype is None else np.dtype(model.dtype).name
    if model.encode == "ordinal":
        return {"transform": Output(build.add(Cast(kind), places))}
    return {"transform": Output(build.add(OneHot(np.asarray(model.n_bins_, np.int64), kind), places))}


@parser("sklearn.PolynomialFeatures")
def lower_polynomial(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower products of columns, each from one of a degree less, in the library's order."""
    rows = checked(model, build, table)
    features = build.width(rows)
    left: list[int] = []
    right: list[int] = []
    rounds: list[int] = []
    # Of each feature, the first term of the last degree that has no feature before it.
    starts, known = [*range(1, features + 1), features + 1], features + 1
    for _ in range(2, model._max_degree + 1):  # there is no public way
        end, begun, before = starts[-1], [], known
        for feature in range(features):
            start = starts[feature + 1] if model.interaction_only else starts[feature]
            begun.append(known)
            if end <= start:
                break
            left += range(start, end)
            right += [feature] * (end - start)
            known += end - start
        # A feature without terms begins where the degree ends.
        starts = begun + [known] * (features + 1 - len(begun))
        rounds.append(known - before)
    if model._max_degree == 0:
        known = 1
    full = build.add(Monomials(*(np.array(part, np.int64) for part in (left, right, rounds))), rows)
    kept = known - model._n_out_full + (1 if model.include_bias else 0)
    if kept != 1:
        raise refuse(model, f"{model._n_out_full} terms", "has another order of terms than known: report it")
    terms = model.n_output_features_ - (1 if model.include_bias else 0)
    chosen = [0] * bool(model.include_bias) + list(range(known - terms, known))
    return {"transform": Output(build.add(Select(np.array(chosen, np.int64)), full))}


@parser("sklearn.SplineTransformer")
def lower_splines(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the B-splines of each column."""
    if model.handle_missing == "zeros" and model.sparse_output:
        raise refuse(model, "handle_missing='zeros' and sparse_output=True")
    splines = model.bsplines_
    degree, count = int(model.degree), int(splines[0].c.shape[1])
    if degree == 0 and model.extrapolation == "constant":
        raise refuse(model, "degree=0 and extrapolation='constant'", "fails in the library beyond the knots")
    ends = np.zeros((4, len(splines), count))
    low, high = np.zeros(len(splines)), np.zeros(len(splines))
    terms = degree
    for column, spline in enumerate(splines):
        low[column], high[column] = spline.t[terms], spline.t[-terms - 1]
        if model.extrapolation in {"constant", "linear"}:
            # The library counts up here, and so takes other knots for the columns that follow.
            terms += 1 if model.extrapolation == "linear" and terms <= 1 else 0
            ends[0, column, :terms] = spline(low[column])[:terms]
            ends[2, column, count - terms :] = spline(high[column])[count - terms :]
        if model.extrapolation == "linear":
            ends[1, column, :terms] = spline(low[column], nu=1)[:terms]
            ends[3, column, count - terms :] = spline(high[column], nu=1)[count - terms :]
    knots = np.stack([np.asarray(spline.t, np.float64) for spline in splines], axis=1)
    rows = table if model.handle_missing == "zeros" else checked(model, build, table)  # the library looks for nothing
    sparse = bool(model.sparse_output)
    rows = build.add(Splines(knots, degree, count, model.extrapolation, low, high, ends, sparse), rows)
    if model.extrapolation == "error":
        rows = build.add(Finite("as given", nan=False, who="SplineTransformer beyond its knots"), rows)
    if not model.include_bias:
        rows = build.add(Select(np.flatnonzero((np.arange(build.width(rows)) + 1) % count != 0)), rows)
    return {"transform": Output(rows)}
