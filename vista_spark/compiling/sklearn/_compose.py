"""Pipelines of scikit-learn: steps one after the other, and side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Concatenate, Finite, Output, Select
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import refuse
from vista_spark.compiling.sklearn._members import available

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_column_transformer", "lower_pipeline", "lower_union"]

_TREES = frozenset(
    f"{kind}{task}"
    for kind in ("DecisionTree", "ExtraTree", "ExtraTrees", "RandomForest")
    for task in ("Classifier", "Regressor")
)

_TEXTS = frozenset({"CountVectorizer", "FeatureHasher", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"})

# Those that give a sparse table for a sparse one, beside those that select columns.
_AS_GIVEN = frozenset(
    {"Binarizer", "MaxAbsScaler", "Normalizer", "PolynomialFeatures", "RobustScaler", "StandardScaler"}
)


@parser("sklearn.Pipeline")
def lower_pipeline(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the steps in turn; the outputs are the last one's."""
    outputs: Mapping[str, Output] = {"transform": Output(table)}
    sparse = False
    for name, step in model.steps:
        if step is None or step == "passthrough":
            continue
        rows = _transformed(model, name, outputs)
        if sparse and type(step).__name__ in _TREES:
            # Trees take NaN, but not in a sparse table, which a step before them may make of a dense one.
            rows = build.add(Finite("as given", nan=False, who=f"{type(step).__name__} of a sparse table"), rows)
        outputs = lower(step, build, rows)
        sparse = _gives_sparse(step, sparse)
    return available(model, outputs)


def _gives_sparse(step: Any, taken: bool) -> bool:
    """Whether a transformer gives a sparse table: as it says of itself, or as the table that it was given is one."""
    kind = type(step).__name__
    if kind == "FeatureUnion":
        return any(_gives_sparse(one, taken) for _, one in step.transformer_list if not isinstance(one, str))
    if kind == "Pipeline":
        for _, one in step.steps:
            taken = taken if one is None or isinstance(one, str) else _gives_sparse(one, taken)
        return taken
    if kind == "KBinsDiscretizer":
        return bool(step.encode == "onehot")
    for name in ("sparse_output_", "sparse_output", "sparse"):
        if isinstance(found := getattr(step, name, None), bool):
            return found
    return kind in _TEXTS or (taken and (kind in _AS_GIVEN or hasattr(step, "get_support")))


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
    return {"transform": Output(_beside(build, table, parts))}


def _beside(build: Builder, table: str, parts: list[str]) -> str:
    """Put the parts side by side; of none, a table without columns."""
    return build.add(Concatenate(), *parts) if parts else build.add(Select(np.zeros(0, np.int64)), table)


def _transformed(model: Any, name: str, outputs: Mapping[str, Output]) -> str:
    if "transform" not in outputs:
        raise refuse(model, f"the step {name!r}, which transforms nothing,", "cannot be followed by another step")
    return outputs["transform"].node
