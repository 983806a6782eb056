"""Several outputs: a model each, side by side or in a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Cast, Concatenate, Finite, Output
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import refuse
from vista_spark.compiling.sklearn._members import column, joined, labels_of, member, numbers, with_logs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_chain", "lower_multi_output"]

_BINARY = 2


@parser("sklearn.MultiOutputClassifier", "sklearn.MultiOutputRegressor")
def lower_multi_output(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a model for each output; probabilities are a list."""
    members = [lower(one, build, table) for one in model.estimators_]
    values = [outputs["predict"] for outputs in members]
    if not all(value.flat for value in values):
        raise refuse(model, "members of several outputs")
    node = joined(build, [value.node for value in values])
    named = [labels_of(value) for value in values]
    if any(named) and not all(named):
        raise refuse(model, "members of which some predict classes, and some numbers")
    labels = tuple(own[0] for own in named) if all(named) else None
    outputs = {"predict": Output(node, labels=labels)}
    if hasattr(model, "predict_proba") and all("predict_proba" in own for own in members):
        shares = [own["predict_proba"].node for own in members]
        outputs["predict_proba"] = Output(joined(build, shares), split=tuple(build.width(share) for share in shares))
    return outputs


@parser("sklearn.ClassifierChain", "sklearn.RegressorChain")
def lower_chain(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower models of which each reads what those before it gave."""
    rows = build.add(Cast("float64"), build.add(Finite("as given", nan=False, who=type(model).__name__), table))
    method = getattr(model, "chain_method_", "predict")
    before: list[str] = []
    results: dict[str, list[str]] = {}
    for one in model.estimators_:
        own = build.add(Concatenate(), rows, *before) if before else rows
        for name in ("predict", "predict_proba", "decision_function"):
            if hasattr(model, name) and hasattr(one, name):
                results.setdefault(name, []).append(_response(model, one, build, own, name))
        before.append(build.add(Cast("float64"), _response(model, one, build, own, method)))
    order = np.argsort(np.asarray(model.order_)).tolist()
    outputs = {
        name: Output(build.add(Cast("float64"), column(build, joined(build, parts), *order)))
        for name, parts in results.items()
        if len(parts) == len(order)
    }
    return with_logs(build, outputs) if "predict_proba" in outputs and hasattr(model, "predict_log_proba") else outputs


def _response(model: Any, one: Any, build: Builder, table: str, method: str) -> str:
    """One number a row: of two classes, that of the second."""
    output = member(model, one, build, table, method)
    node = numbers(model, build, output)
    if method in {"predict_proba", "predict_log_proba"} and build.width(node) == _BINARY:
        node = column(build, node, 1)
    if build.width(node) != 1:
        raise refuse(model, f"{build.width(node)} columns of {method} of one member")
    return node
