"""Multilayer perceptrons of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Above, ArgMax, Cast, Compare, Complement, Function, Linear, Output, Sigmoid, Softmax
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, probabilities, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder, Operator

__all__ = ["lower_network_classifier", "lower_network_regressor"]

_ACTIVATIONS: dict[str, Operator | None] = {
    "exp": Function("exp"),
    "identity": None,
    "logistic": Sigmoid(),
    "relu": Function("relu"),
    "softmax": Softmax(),
    "tanh": Function("tanh"),
}


@parser("sklearn.MLPRegressor")
def lower_network_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the network, of several outputs too."""
    values = _network(model, build, table)
    return {"predict": Output(values, flat=build.width(values) == 1)}


@parser("sklearn.MLPClassifier")
def lower_network_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the network: two classes, several, or several labels at once."""
    values, classes = _network(model, build, table), np.asarray(model.classes_)
    binarizer = model._label_binarizer  # it knows what the classes were given as
    half = (binarizer.pos_label + binarizer.neg_label) / 2
    if build.width(values) == 1:
        outputs = probabilities(build, build.add(Complement(), values))
        place = build.add(Above(half, or_equal=False), values)
        return {"predict": Output(place, flat=True, labels=classes), **outputs}
    outputs = probabilities(build, values)
    if binarizer.y_type_ == "multilabel-indicator":
        return {"predict": Output(build.add(Cast("int64"), build.add(Compare(half), values))), **outputs}
    return {"predict": Output(build.add(ArgMax(), values), flat=True, labels=classes), **outputs}


def _network(model: Any, build: Builder, table: str) -> str:
    layers = [*[model.activation] * (model.n_layers_ - 2), model.out_activation_]
    values = checked(model, build, table)
    for weights, bias, name in zip(model.coefs_, model.intercepts_, layers, strict=True):
        if name not in _ACTIVATIONS:
            raise refuse(model, f"activation={name!r}")
        values = build.add(Linear(plain(weights), plain(bias)), values)
        activation = _ACTIVATIONS[name]
        values = values if activation is None else build.add(activation, values)
    return values
