"""Naive Bayes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    ArgMax,
    Arithmetic,
    Cast,
    CodeLookup,
    Combine,
    Compare,
    Concatenate,
    Function,
    Linear,
    OrderedSum,
    Output,
    Reduce,
    Within,
)
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, widened
from vista_spark.compiling.sklearn._kernels import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_bernoulli", "lower_categorical", "lower_counts", "lower_gaussian"]


@parser("sklearn.GaussianNB")
def lower_gaussian(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower normal distributions, one a class and feature."""
    means, variances, priors = plain(model.theta_), plain(model.var_), plain(model.class_prior_)
    rows = widened(build, checked(model, build, table), means, variances)
    parts = []
    for mean, variance in zip(means, variances, strict=True):
        square = build.add(Function("square"), build.add(Arithmetic("subtract", mean), rows))
        parts.append(build.add(Reduce("sum"), build.add(Arithmetic("divide", variance), square)))
    with np.errstate(divide="ignore"):
        start = np.log(priors) - 0.5 * np.log(2 * np.pi * variances).sum(axis=1)
    joint = build.add(Arithmetic("add", start), scaled(build, build.add(Concatenate(), *parts), -0.5))
    return _posterior(model, build, joint)


@parser("sklearn.ComplementNB", "sklearn.MultinomialNB")
def lower_counts(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the models of counts, which are linear."""
    weights = plain(model.feature_log_prob_).T
    start = plain(model.class_log_prior_)
    if type(model).__name__ == "ComplementNB" and len(start) > 1:
        start = np.zeros_like(start)
    return _posterior(model, build, build.add(Linear(weights.copy(), start), checked(model, build, table)))


@parser("sklearn.BernoulliNB")
def lower_bernoulli(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the model of features that are there or not."""
    rows = checked(model, build, table)
    if model.binarize is not None:
        rows = build.add(Compare(float(model.binarize)), rows)
    present = plain(model.feature_log_prob_)
    absent = np.log(1 - np.exp(present))
    start = plain(model.class_log_prior_) + absent.sum(axis=1)
    return _posterior(model, build, build.add(Linear((present - absent).T.copy(), start), rows))


@parser("sklearn.CategoricalNB")
def lower_categorical(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the model of categories by number; a row with another category is bad, as the library raises."""
    tables = [plain(one).T for one in model.feature_log_prob_]
    counts = np.array([len(one) for one in tables], np.int64)
    # Numbers are cut to whole ones: what is above -1 counts as 0.
    below, above = np.nextafter(np.full(len(counts), -1.0), 0), np.nextafter(counts.astype(np.float64), 0)
    rows = checked(model, build, table)
    rows = build.add(
        Within(below, above, "a category that was not seen in training, which CategoricalNB refuses"), rows
    )
    prior = plain(model.class_log_prior_)
    width, classes = len(tables), len(prior)
    # A column for each class and feature; a class adds its features up in their order, and the prior at last.
    found = CodeLookup.of_tables(
        np.tile(np.arange(width), classes),
        [dict(enumerate(own[:, place].tolist())) for place in range(classes) for own in tables],
        np.zeros(width * classes),
        rounding="toward zero",
    )
    terms = np.arange(width * classes)
    total = OrderedSum(terms, np.arange(classes + 1) * width, np.ones(len(terms)), prior)
    return _posterior(model, build, build.add(total, build.add(found, build.add(Cast("float64"), rows))))


def _posterior(model: Any, build: Builder, joint: str) -> dict[str, Output]:
    # The library's own form: beside an infinite score others are 0, and not NaN.
    logarithms = build.add(Combine("subtract"), joint, build.add(Reduce("logsumexp"), joint))
    return {
        "predict": Output(build.add(ArgMax(), joint), flat=True, labels=np.asarray(model.classes_)),
        "predict_proba": Output(build.add(Function("exp"), logarithms)),
        "predict_log_proba": Output(logarithms),
    }
