"""Helpers of meta-estimators: scores, class indices and numbers of the models inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import lower

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


__all__ = [
    "available",
    "binary_score",
    "chosen",
    "column",
    "first_method",
    "joined",
    "labels_of",
    "member",
    "negated",
    "numbers",
    "places",
    "with_logs",
]


def member(owner: Any, model: Any, build: ops.Builder, table: str, method: str) -> ops.Output:
    """Lower a model inside another one, and return one of its outputs.

    Raises
    ------
    UnsupportedOperatorError
        The result is not compiled.
    """
    outputs = lower(model, build, table)
    if method not in outputs:
        raise refuse(owner, f"a {type(model).__name__} inside", f"its {method} is not compiled")
    return outputs[method]


def first_method(owner: Any, model: Any, methods: Iterable[str]) -> str:
    """Return the first of some methods that a model has."""
    for method in methods:
        if hasattr(model, method):
            return method
    raise refuse(owner, f"a {type(model).__name__} inside", f"it has none of {', '.join(methods)}")


def available(model: Any, outputs: Mapping[str, ops.Output]) -> dict[str, ops.Output]:
    """Return the outputs whose methods the model has: a model inside may have more."""
    return {name: output for name, output in outputs.items() if hasattr(model, name)}


def with_logs(build: ops.Builder, outputs: Mapping[str, ops.Output]) -> dict[str, ops.Output]:
    """Add the logarithms of the probabilities."""
    shares = outputs["predict_proba"]
    logs = ops.Output(build.add(ops.Function("log"), shares.node), split=shares.split)
    return {**outputs, "predict_log_proba": logs}


def joined(build: ops.Builder, parts: Sequence[str]) -> str:
    """Concatenate tables."""
    return parts[0] if len(parts) == 1 else build.add(ops.Concatenate(), *parts)


def column(build: ops.Builder, table: str, *places: int) -> str:
    """Select columns."""
    if places == tuple(range(build.width(table))):
        return table
    return build.add(ops.Select(np.array(places, np.int64)), table)


def negated(build: ops.Builder, table: str) -> str:
    """Change the sign."""
    return build.add(ops.Arithmetic("multiply", np.full(build.width(table), -1.0)), table)


def labels_of(output: ops.Output) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the names of the classes per column."""
    if output.labels is None:
        return ()
    return output.labels if isinstance(output.labels, tuple) else (output.labels,)


def places(owner: Any, build: ops.Builder, output: ops.Output, classes: np.ndarray[Any, Any]) -> str:
    """Convert predicted classes to indices into all classes; -1 for an unknown class."""
    known = labels_of(output)
    if len(known) != 1 or not output.flat:
        raise refuse(owner, "a member that predicts no classes, or several per row")
    if known[0].tolist() == np.asarray(classes).tolist():
        return output.node
    where = {label: place for place, label in enumerate(np.asarray(classes).tolist())}
    return recoded(build, output.node, np.array([where.get(label, -1) for label in known[0].tolist()], np.int64))


def numbers(owner: Any, build: ops.Builder, output: ops.Output) -> str:
    """Return the node of an output as numbers."""
    known = labels_of(output)
    if not known:
        return output.node
    if any(labels.dtype.kind not in "biuf" for labels in known):
        raise refuse(owner, f"classes {known[0].tolist()[:3]}", "the classes must be numbers")
    return recoded(build, output.node, *(labels.astype(np.float64) for labels in known))


def recoded(build: ops.Builder, codes: str, *tables: np.ndarray[Any, Any]) -> str:
    """Look codes up in a table per column, or in one table for all columns."""
    lookups = tables if len(tables) > 1 else tables * build.width(codes)
    sizes = np.array([len(table) for table in lookups], np.int64)
    return build.add(ops.Recode(np.concatenate(lookups)[:, None], sizes), codes)


def binary_score(owner: Any, model: Any, build: ops.Builder, table: str) -> str:
    """Return the score of a binary classifier, or of a regressor; the second class lies above."""
    if model.__sklearn_tags__().estimator_type == "regressor":
        score = member(owner, model, build, table, "predict").node
    elif hasattr(model, "decision_function"):
        score = member(owner, model, build, table, "decision_function").node
    else:
        score = column(build, member(owner, model, build, table, "predict_proba").node, 1)
    if build.width(score) != 1:
        raise refuse(owner, f"a {type(model).__name__} inside that has {build.width(score)} scores")
    return score


def chosen(build: ops.Builder, scores: str, classes: Any, *, threshold: float | None = None) -> ops.Output:
    """Return the class of the greatest score, or for one score the second class above a threshold."""
    if threshold is not None:
        return ops.Output(
            build.add(ops.Above(threshold, or_equal=False), scores), flat=True, labels=np.asarray(classes)
        )
    return ops.Output(build.add(ops.ArgMax(), scores), flat=True, labels=np.asarray(classes))
