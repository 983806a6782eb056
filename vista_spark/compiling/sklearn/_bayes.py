"""Naive Bayes classifiers of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, widened
from vista_spark.compiling.sklearn._kernels import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping


@parser("sklearn.GaussianNB")
def lower_gaussian(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower normal distributions, one a class and feature."""
    means, variances, priors = plain(model.theta_), plain(model.var_), plain(model.class_prior_)
    rows = widened(build, checked(model, build, table), means, variances)
    parts = []
    for mean, variance in zip(means, variances, strict=True):
        square = build.add(ops.Function("square"), build.add(ops.Arithmetic("subtract", mean), rows))
        parts.append(build.add(ops.Reduce("sum"), build.add(ops.Arithmetic("divide", variance), square)))
    with np.errstate(divide="ignore"):
        start = np.log(priors) - 0.5 * np.log(2 * np.pi * variances).sum(axis=1)
    joint = build.add(ops.Arithmetic("add", start), scaled(build, build.add(ops.Concatenate(), *parts), -0.5))
    return _posterior(model, build, joint)


@parser("sklearn.ComplementNB", "sklearn.MultinomialNB")
def lower_counts(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the models of counts, which are linear."""
    weights = plain(model.feature_log_prob_).T
    start = plain(model.class_log_prior_)
    if type(model).__name__ == "ComplementNB" and len(start) > 1:
        start = np.zeros_like(start)
    return _posterior(model, build, build.add(ops.Linear(weights.copy(), start), checked(model, build, table)))


@parser("sklearn.BernoulliNB")
def lower_bernoulli(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the model of features that are there or not."""
    rows = checked(model, build, table)
    if model.binarize is not None:
        rows = build.add(ops.Compare(float(model.binarize)), rows)
    present = plain(model.feature_log_prob_)
    absent = np.log(1 - np.exp(present))
    start = plain(model.class_log_prior_) + absent.sum(axis=1)
    return _posterior(model, build, build.add(ops.Linear((present - absent).T.copy(), start), rows))


@parser("sklearn.CategoricalNB")
def lower_categorical(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the model of categories by number; a row with another category is bad, as the library raises."""
    tables = [plain(logs).T for logs in model.feature_log_prob_]
    counts = np.array([len(logs) for logs in tables], np.int64)
    # Numbers are cut to whole ones: what is above -1 counts as 0.
    below, above = np.nextafter(np.full(len(counts), -1.0), 0), np.nextafter(counts.astype(np.float64), 0)
    rows = checked(model, build, table)
    rows = build.add(
        ops.Within(below, above, "a category that was not seen in training, which CategoricalNB refuses"), rows
    )
    prior = plain(model.class_log_prior_)
    width, classes = len(tables), len(prior)
    # A column for each class and feature; a class adds its features and the prior.
    terms = ops.CodeLookup.of_tables(
        np.tile(np.arange(width), classes),
        [dict(enumerate(logs[:, place].tolist())) for place in range(classes) for logs in tables],
        np.zeros(width * classes),
        rounding="toward zero",
    )
    total = ops.Linear(np.repeat(np.eye(classes), width, axis=0), prior)
    return _posterior(model, build, build.add(total, build.add(terms, build.add(ops.Cast("float64"), rows))))


def _posterior(model: Any, build: ops.Builder, joint: str) -> dict[str, ops.Output]:
    # The library's own form: beside an infinite score others are 0, and not NaN.
    logarithms = build.add(ops.Combine("subtract"), joint, build.add(ops.Reduce("logsumexp"), joint))
    return {
        "predict": ops.Output(build.add(ops.ArgMax(), joint), flat=True, labels=np.asarray(model.classes_)),
        "predict_proba": ops.Output(build.add(ops.Function("exp"), logarithms)),
        "predict_log_proba": ops.Output(logarithms),
    }
