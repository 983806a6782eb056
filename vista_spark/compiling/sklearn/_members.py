"""What meta-estimators read from the models inside them: scores, places of classes, numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Above, ArgMax, Arithmetic, Concatenate, Function, Output, Recode, Select
from vista_spark.compiling._registry import lower
from vista_spark.compiling.sklearn._checks import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optimizer.compiling import Builder

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


def member(owner: Any, model: Any, build: Builder, table: str, method: str) -> Output:
    """Lower a model inside another one, and give one of its results.

    Raises
    ------
    UnsupportedOperatorError
        The result is not compiled.
    """
    outputs = lower(model, build, table)
    if method not in outputs:
        raise refuse(owner, f"{type(model).__name__} inside, whose {method} is not compiled,")
    return outputs[method]


def first_method(owner: Any, model: Any, methods: Iterable[str]) -> str:
    """Name the first of some methods that a model has, as the library finds it."""
    for method in methods:
        if hasattr(model, method):
            return method
    raise refuse(owner, f"{type(model).__name__} inside, which has none of {', '.join(methods)},")


def available(model: Any, outputs: Mapping[str, Output]) -> dict[str, Output]:
    """Keep the results that the model itself gives: those of a model inside it may be more."""
    return {name: output for name, output in outputs.items() if hasattr(model, name)}


def with_logs(build: Builder, outputs: Mapping[str, Output]) -> dict[str, Output]:
    """Add logarithms of the probabilities, for models that compute just this."""
    shares = outputs["predict_proba"]
    logs = Output(build.add(Function("log"), shares.node), split=shares.split)
    return {**outputs, "predict_log_proba": logs}


def joined(build: Builder, parts: Sequence[str]) -> str:
    """Put tables side by side; one alone is itself."""
    return parts[0] if len(parts) == 1 else build.add(Concatenate(), *parts)


def column(build: Builder, table: str, *places: int) -> str:
    """Choose columns; of all of them in order, nothing is to be done."""
    if places == tuple(range(build.width(table))):
        return table
    return build.add(Select(np.array(places, np.int64)), table)


def negated(build: Builder, table: str) -> str:
    """Change the sign."""
    return build.add(Arithmetic("multiply", np.full(build.width(table), -1.0)), table)


def labels_of(output: Output) -> tuple[np.ndarray[Any, Any], ...]:
    """Names of classes, a column each."""
    if output.labels is None:
        return ()
    return output.labels if isinstance(output.labels, tuple) else (output.labels,)


def places(owner: Any, build: Builder, output: Output, classes: np.ndarray[Any, Any]) -> str:
    """Turn predicted classes into places among the classes of the whole; -1 for one that is not there."""
    own = labels_of(output)
    if len(own) != 1 or not output.flat:
        raise refuse(owner, "a member that predicts no classes, or several a row,")
    if own[0].tolist() == np.asarray(classes).tolist():
        return output.node
    where = {label: place for place, label in enumerate(np.asarray(classes).tolist())}
    return recoded(build, output.node, np.array([where.get(label, -1) for label in own[0].tolist()], np.int64))


def numbers(owner: Any, build: Builder, output: Output) -> str:
    """Give a result as a table of numbers, as the library does that puts it beside others."""
    own = labels_of(output)
    if not own:
        return output.node
    if any(labels.dtype.kind not in "biuf" for labels in own):
        raise refuse(owner, f"classes {own[0].tolist()[:3]}", "cannot compute with them: they are no numbers")
    return recoded(build, output.node, *(labels.astype(np.float64) for labels in own))


def recoded(build: Builder, codes: str, *tables: np.ndarray[Any, Any]) -> str:
    """Look codes up in a table for each column, or in one for all of them."""
    own = tables if len(tables) > 1 else tables * build.width(codes)
    sizes = np.array([len(table) for table in own], np.int64)
    return build.add(Recode(np.concatenate(own)[:, None], sizes), codes)


def binary_score(owner: Any, model: Any, build: Builder, table: str) -> str:
    """Give the one score of a classifier of two classes, or of a regressor: above is the second class."""
    if model.__sklearn_tags__().estimator_type == "regressor":
        score = member(owner, model, build, table, "predict").node
    elif hasattr(model, "decision_function"):
        score = member(owner, model, build, table, "decision_function").node
    else:
        score = column(build, member(owner, model, build, table, "predict_proba").node, 1)
    if build.width(score) != 1:
        raise refuse(owner, f"a {type(model).__name__} inside that has {build.width(score)} scores")
    return score


def chosen(build: Builder, scores: str, classes: Any, *, threshold: float | None = None) -> Output:
    """Give the class of the greatest score, or of one score above a threshold."""
    if threshold is not None:
        return Output(build.add(Above(threshold, or_equal=False), scores), flat=True, labels=np.asarray(classes))
    return Output(build.add(ArgMax(), scores), flat=True, labels=np.asarray(classes))
