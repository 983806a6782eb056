"""Pipelines, unions, column transformers and searches of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._members import available
from vista_spark.compiling.sklearn._sparsity import sparsity_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@parser("sklearn.Pipeline")
def lower_pipeline(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the steps in turn; the outputs are the last one's."""
    outputs: Mapping[str, ops.Output] = {"transform": ops.Output(table)}
    for name, step in model.steps:
        if step is None or step == "passthrough":
            continue
        rows = _transformed(model, name, outputs)
        layout = build.sparsity(rows)
        outputs = lower(step, build, rows)
        if "transform" in outputs:
            build.mark(outputs["transform"].node, sparsity_of(step, layout))
    return available(model, outputs)


@parser("sklearn.FeatureUnion")
def lower_union(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower transformers side by side."""
    weights = model.transformer_weights or {}
    parts = []
    for name, step in model.transformer_list:
        if step == "drop":
            continue
        part = table if step == "passthrough" else _transformed(model, name, lower(step, build, table))
        if name in weights:
            part = build.add(ops.Arithmetic("multiply", np.full(build.width(part), float(weights[name]))), part)
        parts.append(part)
    return {"transform": ops.Output(_beside(build, table, parts))}


@parser("sklearn.ColumnTransformer")
def lower_column_transformer(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower transformers of some columns each, in the order of their results."""
    parts = []
    for name, step, _ in model.transformers_:
        columns = np.asarray(model._transformer_to_input_indices[name], np.int64)  # names, slices, masks
        if (isinstance(step, str) and step == "drop") or not len(columns):
            continue
        part = build.add(ops.Select(columns), table)
        if not (isinstance(step, str) and step == "passthrough"):
            part = _transformed(model, name, lower(step, build, part))
        weight = (model.transformer_weights or {}).get(name)
        if weight is not None:
            part = build.add(ops.Arithmetic("multiply", np.full(build.width(part), float(weight))), part)
        parts.append(part)
    return {"transform": ops.Output(_beside(build, table, parts))}


def _beside(build: ops.Builder, table: str, parts: list[str]) -> str:
    """Put the parts side by side; of none, a table without columns."""
    return build.add(ops.Concatenate(), *parts) if parts else build.add(ops.Select(np.zeros(0, np.int64)), table)


def _transformed(model: Any, name: str, outputs: Mapping[str, ops.Output]) -> str:
    if "transform" not in outputs:
        raise refuse(model, f"the step {name!r} before the last one", "the step has no transform")
    return outputs["transform"].node


@parser("sklearn.FrozenEstimator")
def lower_frozen(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the model inside."""
    return lower(model.estimator, build, table)


@parser(
    "sklearn.GridSearchCV", "sklearn.HalvingGridSearchCV", "sklearn.HalvingRandomSearchCV", "sklearn.RandomizedSearchCV"
)
def lower_search(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the best model of a search."""
    return available(model, lower(model.best_estimator_, build, table))


@parser("sklearn.SelfTrainingClassifier")
def lower_self_training(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the model that was fitted last."""
    return available(model, lower(model.estimator_, build, table))
