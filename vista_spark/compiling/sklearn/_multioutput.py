"""Models of several outputs of scikit-learn: one model per output, side by side or in a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._members import column, joined, labels_of, member, numbers, with_logs

if TYPE_CHECKING:
    from collections.abc import Mapping


_BINARY = 2


@parser("sklearn.MultiOutputClassifier", "sklearn.MultiOutputRegressor")
def lower_multi_output(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a model for each output; probabilities are a list."""
    members = [lower(estimator, build, table) for estimator in model.estimators_]
    values = [outputs["predict"] for outputs in members]
    if not all(value.flat for value in values):
        raise refuse(model, "members of several outputs")
    node = joined(build, [value.node for value in values])
    named = [labels_of(value) for value in values]
    if any(named) and not all(named):
        raise refuse(model, "members of which some predict classes, and some numbers")
    labels = tuple(names[0] for names in named) if all(named) else None
    outputs = {"predict": ops.Output(node, labels=labels)}
    if hasattr(model, "predict_proba") and all("predict_proba" in inner for inner in members):
        shares = [inner["predict_proba"].node for inner in members]
        outputs["predict_proba"] = ops.Output(
            joined(build, shares), split=tuple(build.width(share) for share in shares)
        )
    return outputs


@parser("sklearn.ClassifierChain", "sklearn.RegressorChain")
def lower_chain(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower models of which each reads what those before it gave."""
    rows = build.add(ops.Cast("float64"), build.add(ops.Finite("as given", nan=False, who=type(model).__name__), table))
    method = getattr(model, "chain_method_", "predict")
    before: list[str] = []
    results: dict[str, list[str]] = {}
    for estimator in model.estimators_:
        inputs = build.add(ops.Concatenate(), rows, *before) if before else rows
        for name in ("predict", "predict_proba", "decision_function"):
            if hasattr(model, name) and hasattr(estimator, name):
                results.setdefault(name, []).append(_response(model, estimator, build, inputs, name))
        before.append(build.add(ops.Cast("float64"), _response(model, estimator, build, inputs, method)))
    order = np.argsort(np.asarray(model.order_)).tolist()
    outputs = {
        name: ops.Output(build.add(ops.Cast("float64"), column(build, joined(build, parts), *order)))
        for name, parts in results.items()
        if len(parts) == len(order)
    }
    return with_logs(build, outputs) if "predict_proba" in outputs and hasattr(model, "predict_log_proba") else outputs


def _response(model: Any, estimator: Any, build: ops.Builder, table: str, method: str) -> str:
    """Return one column of a member; for two classes, that of the second."""
    output = member(model, estimator, build, table, method)
    node = numbers(model, build, output)
    if method in {"predict_proba", "predict_log_proba"} and build.width(node) == _BINARY:
        node = column(build, node, 1)
    if build.width(node) != 1:
        raise refuse(model, f"{build.width(node)} columns of {method} of one member")
    return node
