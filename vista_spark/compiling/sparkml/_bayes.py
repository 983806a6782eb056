"""Naive Bayes of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Combine, Concatenate, Function, Linear, Reduce, Softmax
from vista_spark.compiling.sparkml._classes import features_of, give_classes
from vista_spark.compiling.sparkml._stages import refuse, stage

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_bayes"]


@stage("NaiveBayesModel")
def lower_bayes(model: Any, columns: Columns) -> None:
    """Lower the four kinds: logarithms of likelihoods, and their softmax."""
    kind = model.getOrDefault("modelType")
    table, prior, theta = features_of(model, columns), model.pi.toArray(), model.theta.toArray()
    if kind == "gaussian":
        raw = _gaussian(columns, table, prior, theta, model.sigma.toArray())
    elif kind == "bernoulli":
        table = _held(columns, table, "bernoulli")
        none = np.log1p(-np.exp(theta))
        raw = columns.add(Linear((theta - none).T.copy(), prior + none.sum(axis=1)), table)
    elif kind == "multinomial":
        raw = columns.add(Linear(theta.T.copy(), prior.copy()), _held(columns, table, kind))
    elif kind == "complement":
        scores = columns.add(Linear(theta.T.copy(), np.zeros(len(theta))), _held(columns, table, kind))
        raw = columns.add(Combine("subtract"), scores, columns.add(Reduce("logsumexp"), scores))
    else:
        raise refuse(model, f"modelType={kind!r}")
    give_classes(model, columns, raw, columns.add(Softmax(), raw))


def _held(columns: Columns, table: str, kind: str) -> str:
    """Hold the rows to numbers from 0, or to zeros and ones."""
    if kind == "bernoulli":
        product = columns.add(Combine("multiply"), table, columns.scaled(table, 1.0, -1.0))
        zero = columns.add(Combine("equal"), product, columns.scaled(product, 0.0))
        flags, what = columns.add(Function("not"), zero), "a number that is neither 0 nor 1"
    else:
        from_zero = columns.add(Combine("greater_equal"), table, columns.add(Function("abs"), table))
        flags, what = columns.add(Function("not"), from_zero), "a number below zero, or NaN"
    return columns.reject(table, flags, f"{what}, which NaiveBayesModel ({kind}) does not take", "raise")


def _gaussian(columns: Columns, table: str, prior: Any, theta: Any, sigma: Any) -> str:
    scores = []
    for means, variances in zip(theta, sigma, strict=True):
        square = columns.add(Function("square"), columns.add(Arithmetic("subtract", means.copy()), table))
        scores.append(columns.add(Reduce("sum"), columns.add(Arithmetic("divide", variances.copy()), square)))
    far = columns.add(Arithmetic("add", np.log(sigma).sum(axis=1)), columns.add(Concatenate(), *scores))
    return columns.add(Arithmetic("add", prior.copy()), columns.scaled(far, -0.5))
