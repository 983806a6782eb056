"""Pipelines of scikit-learn: steps one after the other, and side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Concatenate, Output, Select
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_column_transformer", "lower_function", "lower_pipeline", "lower_search", "lower_union"]


@parser("sklearn.Pipeline")
def lower_pipeline(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the steps in turn; the outputs are the last one's."""
    outputs: Mapping[str, Output] = {"transform": Output(table)}
    for name, step in model.steps:
        if step is None or step == "passthrough":
            continue
        outputs = lower(step, build, _transformed(model, name, outputs))
    return _without_leaves(outputs)


@parser("sklearn.FeatureUnion")
def lower_union(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower transformers side by side."""
    weights = model.transformer_weights or {}
    parts = []
    for name, step in model.transformer_list:
        if step == "drop":
            continue
        part = table if step == "passthrough" else _transformed(model, name, lower(step, build, table))
        if name in weights:
            part = build.add(Arithmetic("multiply", np.full(build.width(part), float(weights[name]))), part)
        parts.append(part)
    return {"transform": Output(build.add(Concatenate(), *parts))}


@parser("sklearn.ColumnTransformer")
def lower_column_transformer(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower transformers of some columns each, in the order of their results."""
    parts = []
    for name, step, _ in model.transformers_:
        columns = np.asarray(model._transformer_to_input_indices[name], np.int64)  # noqa: SLF001 - names, slices, masks
        if (isinstance(step, str) and step == "drop") or not len(columns):
            continue
        part = build.add(Select(columns), table)
        if not (isinstance(step, str) and step == "passthrough"):
            part = _transformed(model, name, lower(step, build, part))
        weight = (model.transformer_weights or {}).get(name)
        if weight is not None:
            part = build.add(Arithmetic("multiply", np.full(build.width(part), float(weight))), part)
        parts.append(part)
    return {"transform": Output(build.add(Concatenate(), *parts))}


@parser("sklearn.FunctionTransformer")
def lower_function(model: Any, build: Builder, table: str) -> Mapping[str, Output]:  # noqa: ARG001 - nothing is added
    """Lower the identity, which the library puts in the place of "passthrough"; another function is refused."""
    if model.func is not None:
        raise refuse(model, f"func={model.func!r}")
    return {"transform": Output(table)}


@parser(
    "sklearn.GridSearchCV", "sklearn.HalvingGridSearchCV", "sklearn.HalvingRandomSearchCV", "sklearn.RandomizedSearchCV"
)
def lower_search(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the best model of a search."""
    if not model.refit:
        raise refuse(model, "refit=False", "has no fitted model: search again with refit=True")
    return _without_leaves(lower(model.best_estimator_, build, table))


def _without_leaves(outputs: Mapping[str, Output]) -> Mapping[str, Output]:
    """Leave out ``apply``, which pipelines and searches do not have."""
    return {name: output for name, output in outputs.items() if name != "apply"}


def _transformed(model: Any, name: str, outputs: Mapping[str, Output]) -> str:
    if "transform" not in outputs:
        raise refuse(model, f"the step {name!r}, which transforms nothing,", "cannot be followed by another step")
    return outputs["transform"].node
