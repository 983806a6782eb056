"""Multilayer perceptrons of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, probabilities

if TYPE_CHECKING:
    from collections.abc import Mapping


_ACTIVATIONS: dict[str, ops.Operator | None] = {
    "exp": ops.Function("exp"),
    "identity": None,
    "logistic": ops.Sigmoid(),
    "relu": ops.Function("relu"),
    "softmax": ops.Softmax(),
    "tanh": ops.Function("tanh"),
}


@parser("sklearn.MLPRegressor")
def lower_network_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the network, of several outputs too."""
    values = _network(model, build, table)
    return {"predict": ops.Output(values, flat=build.width(values) == 1)}


@parser("sklearn.MLPClassifier")
def lower_network_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the network: two classes, several, or several labels at once."""
    values, classes = _network(model, build, table), np.asarray(model.classes_)
    binarizer = model._label_binarizer  # it knows what the classes were given as
    half = (binarizer.pos_label + binarizer.neg_label) / 2
    if build.width(values) == 1:
        outputs = probabilities(build, build.add(ops.Complement(), values))
        place = build.add(ops.Above(half, or_equal=False), values)
        return {"predict": ops.Output(place, flat=True, labels=classes), **outputs}
    outputs = probabilities(build, values)
    if binarizer.y_type_ == "multilabel-indicator":
        return {"predict": ops.Output(build.add(ops.Cast("int64"), build.add(ops.Compare(half), values))), **outputs}
    return {"predict": ops.Output(build.add(ops.ArgMax(), values), flat=True, labels=classes), **outputs}


def _network(model: Any, build: ops.Builder, table: str) -> str:
    layers = [*[model.activation] * (model.n_layers_ - 2), model.out_activation_]
    values = checked(model, build, table)
    for weights, bias, name in zip(model.coefs_, model.intercepts_, layers, strict=True):
        if name not in _ACTIVATIONS:
            raise refuse(model, f"activation={name!r}")
        values = build.add(ops.Linear(plain(weights), plain(bias)), values)
        activation = _ACTIVATIONS[name]
        values = values if activation is None else build.add(activation, values)
    return values
