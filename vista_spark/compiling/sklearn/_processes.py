"""Kernel ridge regression and Gaussian processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Above,
    ArgMax,
    Arithmetic,
    Cast,
    Combine,
    Compare,
    Complement,
    Concatenate,
    Function,
    Linear,
    Output,
    Reduce,
    Shares,
)
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, refuse, widened
from vista_spark.compiling.sklearn._kernels import covariance, diagonal, kernel
from vista_spark.compiling.sklearn._machines import one_against_one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_kernel_ridge", "lower_process_classifier", "lower_process_regressor"]

# The logistic function as a sum of error functions (Williams and Barber 1998), with the library's own five terms.
_RATES = np.array([[0.41, 0.4, 0.37, 0.44, 0.39]])
_SHARES = np.array([[-1854.8214151], [3516.89893646], [221.29346712], [128.12323805], [-2010.49422654]])


@parser("sklearn.KernelRidge")
def lower_kernel_ridge(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower ridge regression with a kernel."""
    if not isinstance(model.kernel, str) or model.kernel == "precomputed" or not isinstance(model.X_fit_, np.ndarray):
        raise refuse(model, f"kernel={model.kernel!r}")
    points, weights = plain(model.X_fit_), plain(model.dual_coef_)
    rows = widened(build, checked(model, build, table), points)
    near = kernel(
        model,
        build,
        rows,
        points,
        name=model.kernel,
        gamma=model.gamma,
        degree=model.degree,
        coef0=model.coef0,
    )
    flat = weights.ndim == 1
    own = weights.reshape(len(points), -1)
    return {"predict": Output(build.add(Linear(own, np.zeros(own.shape[1], own.dtype)), near), flat=flat)}


@parser("sklearn.GaussianProcessRegressor")
def lower_process_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the mean of the process. Its deviation, ``return_std``, is no output of its own."""
    points = np.asarray(model.X_train_)
    if points.dtype.kind not in "fiu" or points.ndim != 2:
        raise refuse(model, f"a kernel of {points.dtype}")
    rows = build.add(Cast("float64"), checked(model, build, table))
    near = covariance(model, build, rows, points.astype(np.float64), model.kernel_)
    weights = plain(model.alpha_)
    own = weights.reshape(len(points), -1)
    mean = build.add(Linear(own, np.zeros(own.shape[1])), near)
    deviation = np.broadcast_to(plain(model._y_train_std), (own.shape[1],)).copy()
    centre = np.broadcast_to(plain(model._y_train_mean), (own.shape[1],)).copy()
    mean = build.add(Arithmetic("add", centre), build.add(Arithmetic("multiply", deviation), mean))
    return {"predict": Output(mean, flat=own.shape[1] == 1)}


@parser("sklearn.GaussianProcessClassifier")
def lower_process_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the classifier: one process for two classes, one a class, or one for each pair."""
    rows = build.add(Cast("float64"), checked(model, build, table))
    classes = np.asarray(model.classes_)
    base = model.base_estimator_
    if len(classes) == 2:
        mean, chance = _process(model, build, rows, base)
        place = build.add(Above(0.0, or_equal=False), mean)
        shares = build.add(Complement(), chance)
        return {"predict": Output(place, flat=True, labels=classes), "predict_proba": Output(shares)}
    members = base.estimators_
    if any(type(member) is not type(members[0]) or not hasattr(member, "X_train_") for member in members):
        raise refuse(model, f"a constant member for one of {len(classes)} classes")
    parts = [_process(model, build, rows, member) for member in members]
    chances = build.add(Concatenate(), *(chance for _, chance in parts))
    if model.multi_class == "one_vs_one":
        means = build.add(Concatenate(), *(mean for mean, _ in parts))
        scores = one_against_one(build, build.add(Compare(0.0), means), chances, len(classes))
        return {"predict": Output(build.add(ArgMax(), scores), flat=True, labels=classes)}
    return {
        "predict": Output(build.add(ArgMax(), chances), flat=True, labels=classes),
        "predict_proba": Output(build.add(Shares(equal=False), chances)),
    }


def _process(model: Any, build: Builder, rows: str, member: Any) -> tuple[str, str]:
    """Lower the latent mean of a process of two classes, and the probability of the second."""
    points = plain(member.X_train_)
    if not 0 < len(member.classes_) <= 2:
        raise refuse(model, f"a member of {len(member.classes_)} classes")
    near = covariance(model, build, rows, points, member.kernel_)
    pull = (plain(member.y_train_) - plain(member.pi_))[:, None]
    mean = build.add(Linear(pull, np.zeros(1)), near)
    # The library solves for each row; the matrix has no eigenvalue below one, so that its inverse is as exact.
    spread = np.linalg.solve(plain(member.L_), np.diag(plain(member.W_sr_))).T
    known = build.add(Linear(spread.copy(), np.zeros(len(points))), near)
    known = build.add(Reduce("sum"), build.add(Function("square"), known))
    variance = build.add(Combine("subtract"), diagonal(model, build, rows, member.kernel_), known)
    wide = build.add(Function("sqrt"), build.add(Linear(2 * _RATES**2, np.ones(5)), variance))
    angle = build.add(Combine("divide"), build.add(Linear(_RATES, np.zeros(5)), mean), wide)
    chance = build.add(Linear(_SHARES / 2, np.full(1, 0.5 * _SHARES.sum())), build.add(Function("erf"), angle))
    # Where the variance comes out as zero or less, the library's own formula gives NaN.
    root = build.add(Function("sqrt"), variance)
    chance = build.add(Combine("multiply"), chance, build.add(Combine("divide"), root, root))
    return mean, chance
