"""Element-wise non-linear transforms, bins and polynomials of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import checked, plain

if TYPE_CHECKING:
    from collections.abc import Mapping


@parser("sklearn.FunctionTransformer")
def lower_function(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the identity, and functions of numpy with one argument."""
    if model.kw_args or model.inv_kw_args:
        raise refuse(model, f"kw_args={model.kw_args!r}")
    if model.func is None:
        return {"transform": ops.Output(checked(model, build, table, keep_booleans=True) if model.validate else table)}
    name = getattr(model.func, "__name__", "")
    if type(model.func).__name__ != "ufunc" or name not in ops.UFUNCS:
        raise refuse(
            model, f"func={model.func!r}", "", f"Use one of these functions of numpy: {', '.join(ops.UFUNCS)}."
        )
    if model.validate:
        rows = checked(model, build, table, keep_booleans=True)
    else:
        rows = build.add(ops.ReadAs(f"np.{name}", "dtypes"), table)
    if build.is_boolean(rows):
        raise refuse(model, "a table of booleans", "numpy computes with 16 bits", "Convert it to floats first.")
    kind = "bool" if name in {"isfinite", "isinf", "isnan", "signbit"} else None
    return {"transform": ops.Output(build.add(ops.Ufunc(name), rows), dtype=kind)}


@parser("sklearn.PowerTransformer")
def lower_power(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the power of each column, and the scaler behind it."""
    rows = checked(model, build, table)
    if model.method == "box-cox":
        width = build.width(rows)
        least = np.full(width, np.nextafter(0.0, 1.0))
        reason = "a number that is not positive, which PowerTransformer with method='box-cox' does not take"
        rows = build.add(ops.Within(least, np.full(width, np.inf), reason), rows)
    rows = build.add(ops.PowerTransform(model.method, plain(model.lambdas_)), rows)
    return lower(model._scaler, build, rows) if model.standardize else {"transform": ops.Output(rows)}


@parser("sklearn.QuantileTransformer")
def lower_quantiles(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the interpolation between quantiles."""
    quantiles = plain(model.quantiles_)
    if np.isnan(quantiles).any():
        raise refuse(model, "a column without numbers")
    normal = model.output_distribution == "normal"
    rows = checked(model, build, table)
    shares = build.add(ops.Quantiles(quantiles, plain(model.references_), normal), rows)
    layout = build.sparsity(table)
    if layout == "written":
        raise refuse(model, "a sparse table that may hold explicit zeros")
    if layout == "dense":
        return {"transform": ops.Output(shares)}
    if not model.ignore_implicit_zeros:
        reason = "a number below zero, which QuantileTransformer does not take in a sparse table"
        rows = build.add(ops.Within(np.zeros(build.width(rows)), np.full(build.width(rows), np.inf), reason), rows)
    # Of a sparse table the library transforms what is written: a zero stays one.
    return {"transform": ops.Output(build.add(ops.Choose(), rows, shares, rows))}


@parser("sklearn.KBinsDiscretizer")
def lower_bins(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the bins: their places, or a column each."""
    rows = checked(model, build, table)
    if model.dtype is not None:
        rows = build.add(ops.Cast(np.dtype(model.dtype).name), rows)
    inner = [np.asarray(edges, np.float64)[1:-1] for edges in model.bin_edges_]
    sizes = np.array([len(edges) for edges in inner], np.int64)
    places = build.add(ops.Bins(np.concatenate(inner), sizes), rows)
    kind = "float64" if model.dtype is None else np.dtype(model.dtype).name
    if model.encode == "ordinal":
        return {"transform": ops.Output(build.add(ops.Cast(kind), places))}
    return {"transform": ops.Output(build.add(ops.OneHot(np.asarray(model.n_bins_, np.int64), kind), places))}


@parser("sklearn.PolynomialFeatures")
def lower_polynomial(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower products of columns, each from one of a degree less, in the library's order."""
    rows = checked(model, build, table)
    features = build.width(rows)
    left: list[int] = []
    right: list[int] = []
    rounds: list[int] = []
    # Of each feature, the first term of the last degree that has no feature before it.
    starts, known = [*range(1, features + 1), features + 1], features + 1
    for _ in range(2, model._max_degree + 1):
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
    full = build.add(ops.Monomials(*(np.array(part, np.int64) for part in (left, right, rounds))), rows)
    kept = known - model._n_out_full + (1 if model.include_bias else 0)
    if kept != 1:
        raise refuse(model, f"{model._n_out_full} terms", "this release of scikit-learn orders its terms differently")
    terms = model.n_output_features_ - (1 if model.include_bias else 0)
    chosen = [0] * bool(model.include_bias) + list(range(known - terms, known))
    return {"transform": ops.Output(build.add(ops.Select(np.array(chosen, np.int64)), full))}
