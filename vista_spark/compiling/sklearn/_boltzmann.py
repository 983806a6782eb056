"""Restricted Boltzmann machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.compiling import Linear, Output, Sigmoid
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_boltzmann"]


@parser("sklearn.BernoulliRBM")
def lower_boltzmann(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the probabilities of the hidden units; the score of a row draws random numbers, and is left out."""
    linear = Linear(plain(model.components_).T.copy(), plain(model.intercept_hidden_))
    return {"transform": Output(build.add(Sigmoid(), build.add(linear, checked(model, build, table))))}
