"""Linear models of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import checked, classes_of_scores, outliers, plain, probabilities

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["lower_linear_classifier"]


@parser(
    "sklearn.ARDRegression",
    "sklearn.BayesianRidge",
    "sklearn.ElasticNet",
    "sklearn.ElasticNetCV",
    "sklearn.HuberRegressor",
    "sklearn.Lars",
    "sklearn.LarsCV",
    "sklearn.Lasso",
    "sklearn.LassoCV",
    "sklearn.LassoLars",
    "sklearn.LassoLarsCV",
    "sklearn.LassoLarsIC",
    "sklearn.LinearRegression",
    "sklearn.LinearSVR",
    "sklearn.MultiTaskElasticNet",
    "sklearn.MultiTaskElasticNetCV",
    "sklearn.MultiTaskLasso",
    "sklearn.MultiTaskLassoCV",
    "sklearn.OrthogonalMatchingPursuit",
    "sklearn.OrthogonalMatchingPursuitCV",
    "sklearn.PassiveAggressiveRegressor",
    "sklearn.QuantileRegressor",
    "sklearn.Ridge",
    "sklearn.RidgeCV",
    "sklearn.SGDRegressor",
    "sklearn.TheilSenRegressor",
)
def lower_linear_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower models that predict by ``x @ coef + intercept``."""
    coefficients = np.asarray(model.coef_)
    flat = (coefficients.ndim == 1 and np.ndim(model.intercept_) == 0) or type(model).__name__ in _FLAT
    return {"predict": ops.Output(_scores(model, build, table), flat=flat)}


# Their intercept is an array of one number, and their predictions are flat.
_FLAT = frozenset({"LinearSVR", "PassiveAggressiveRegressor", "SGDRegressor"})
# Coordinate descent looks at no number of a sparse table before it predicts.
_TRUST_SPARSE = frozenset({"ElasticNet", "Lasso", "MultiTaskElasticNet", "MultiTaskLasso"})


@parser(
    "sklearn.LinearSVC",
    "sklearn.Perceptron",
    "sklearn.PassiveAggressiveClassifier",
    "sklearn.RidgeClassifier",
    "sklearn.RidgeClassifierCV",
)
def lower_linear_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower models that take the class of the greatest score."""
    scores = _scores(model, build, table)
    # Ridge takes several labels too: then a column is zero or one.
    if getattr(getattr(model, "_label_binarizer", None), "y_type_", "").startswith("multilabel"):
        places = build.add(ops.Compare(0.0), scores)
        return {"predict": ops.Output(places, dtype="int64"), "decision_function": ops.Output(scores)}
    return {
        "predict": classes_of_scores(model, build, scores),
        "decision_function": ops.Output(scores, flat=build.width(scores) == 1),
    }


@parser("sklearn.LogisticRegression", "sklearn.LogisticRegressionCV")
def lower_logistic(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower logistic regression: softmax of the scores, or the logistic function of one."""
    # Releases before 1.8 also normalise a model for each class, or take the softmax of two.
    if getattr(model, "multi_class", "deprecated") not in {"auto", "deprecated"}:
        raise refuse(model, f"multi_class={model.multi_class!r}")
    outputs = lower_linear_classifier(model, build, table)
    scores = outputs["decision_function"].node
    if build.width(scores) == 1:
        shares = build.add(ops.Complement(), build.add(ops.Sigmoid(), scores))
    elif model.solver == "liblinear":
        # Releases before 1.8, which have the parameter, normalise one model a class; later ones take the softmax of it.
        if "multi_class" not in model.get_params():
            raise refuse(model, f"solver='liblinear' and {build.width(scores)} classes, from a release before 1.8")
        shares = build.add(ops.Shares(equal=False), build.add(ops.Sigmoid(), scores))
    else:
        shares = build.add(ops.Softmax(), scores)
    return {**outputs, **probabilities(build, shares)}


@parser("sklearn.SGDClassifier")
def lower_sgd_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the classifier: probabilities of the logistic loss, one model a class, and of the modified Huber loss."""
    outputs = lower_linear_classifier(model, build, table)
    scores = outputs["decision_function"].node
    if model.loss == "log_loss":
        shares = build.add(ops.Sigmoid(), scores)
    elif model.loss == "modified_huber":
        clipped = build.add(ops.Clip(-1.0, 1.0), scores)
        width = build.width(scores)
        shares = build.add(
            ops.Arithmetic("divide", np.full(width, 2.0)), build.add(ops.Arithmetic("add", np.ones(width)), clipped)
        )
    else:
        return outputs
    shares = build.add(ops.Complement() if build.width(scores) == 1 else ops.Shares(equal=True), shares)
    return {**outputs, **probabilities(build, shares)}


@parser("sklearn.SGDOneClassSVM")
def lower_sgd_one_class(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the outlier detector: -1 below zero, else 1."""
    weights = np.atleast_2d(plain(model.coef_)).T
    shift = -np.atleast_1d(plain(model.offset_))
    scores = build.add(ops.Linear(weights.copy(), shift), checked(model, build, table))
    samples = build.add(ops.Arithmetic("add", -shift), scores)
    return {
        **outliers(build, scores, labels=np.array([-1, 1], np.int32)),
        "score_samples": ops.Output(samples, flat=True),
    }


@parser("sklearn.GammaRegressor", "sklearn.PoissonRegressor", "sklearn.TweedieRegressor")
def lower_generalized(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower generalised linear models: the score, or its exponential."""
    link = type(model._base_loss.link).__name__  # the parameter link="auto" does not say which
    scores = _scores(model, build, table)
    if link not in {"IdentityLink", "LogLink"}:
        raise refuse(model, f"the link {link}")
    return {"predict": ops.Output(build.add(ops.Function("exp"), scores) if link == "LogLink" else scores, flat=True)}


@parser("sklearn.RANSACRegressor")
def lower_ransac(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the model of the inliers."""
    return {"predict": lower(model.estimator_, build, table)["predict"]}


def _scores(model: Any, build: ops.Builder, table: str) -> str:
    trusts = type(model).__name__ in _TRUST_SPARSE and build.sparsity(table) != "dense"
    rows = table if trusts else checked(model, build, table)
    weights = np.atleast_2d(plain(model.coef_)).T
    bias = np.broadcast_to(np.atleast_1d(plain(model.intercept_)), weights.shape[1:])
    return build.add(ops.Linear(weights.copy(), bias.copy()), rows)
