"""Pipelines of scikit-learn: steps one after the other, and side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Concatenate, Output, Select
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import refuse
from vista_spark.compiling.sklearn._members import available
from vista_spark.compiling.sklearn._sparsity import sparsity_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_column_transformer", "lower_pipeline", "lower_union"]


@parser("sklearn.Pipeline")
def lower_pipeline(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the steps in turn; the outputs are the last one's."""
    outputs: Mapping[str, Output] = {"transform": Output(table)}
    for name, step in model.steps:
        if step is None or step == "passthrough":
            continue
        rows = _transformed(model, name, outputs)
        given = build.sparsity(rows)
        outputs = lower(step, build, rows)
        if "transform" in outputs:
            build.mark(outputs["transform"].node, sparsity_of(step, given))
    return available(model, outputs)


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
    return {"transform": Output(_beside(build, table, parts))}


@parser("sklearn.ColumnTransformer")
def lower_column_transformer(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower transformers of some columns each, in the order of their results."""
    parts = []
    for name, step, _ in model.transformers_:
        columns = np.asarray(model._transformer_to_input_indices[name], np.int64)  # names, slices, masks
        if (isinstance(step, str) and step == "drop") or not len(columns):
            continue
        part = build.add(Select(columns), table)
        if not (isinstance(step, str) and step == "passthrough"):
            part = _transformed(model, name, lower(step, build, part))
        weight = (model.transformer_weights or {}).get(name)
        if weight is not None:
            part = build.add(Arithmetic("multiply", np.full(build.width(part), float(weight))), part)
        parts.append(part)
    return {"transform": Output(_beside(build, table, parts))}


def _beside(build: Builder, table: str, parts: list[str]) -> str:
    """Put the parts side by side; of none, a table without columns."""
    return build.add(Concatenate(), *parts) if parts else build.add(Select(np.zeros(0, np.int64)), table)


def _transformed(model: Any, name: str, outputs: Mapping[str, Output]) -> str:
    if "transform" not in outputs:
        raise refuse(model, f"the step {name!r}, which transforms nothing,", "cannot be followed by another step")
    return outputs["transform"].node
