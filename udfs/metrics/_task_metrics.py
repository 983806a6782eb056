"""Metrics that fit a task, by the name that the user gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.metrics._averages import AVERAGED, averaged_metric
from udfs.metrics._metric import Metric, MetricError
from udfs.metrics._metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["fitting_metrics", "task_metric"]

_TWO_CLASSES = ("precision", "recall", "f1", "auc")
_TOKENS = ("token_accuracy", "entity_f1")
_VALUES = ("mse", "rmse", "mae")
_TOP = 5


def fitting_metrics(kind: str, outputs: int, *, tokens: bool = False) -> tuple[str, ...]:
    """List the names of the metrics that fit a task; empty for a ``"custom"`` task.

    Parameters
    ----------
    kind : str
        Kind of the task, such as ``"binary"``.
    outputs : int
        Number of outputs of a row, or of a token.
    tokens : bool
        Whether each token of a row has a class. Default false.

    Examples
    --------
    >>> fitting_metrics("regression", 1)
    ('mse', 'rmse', 'mae')
    """
    if tokens:
        return _TOKENS
    of_kind = {
        "binary": ("accuracy", *_TWO_CLASSES, *AVERAGED),
        "multiclass": ("accuracy", *(("top_5_accuracy",) if outputs > _TOP else ()), *_TWO_CLASSES, *AVERAGED),
        "multilabel": ("accuracy", *_TWO_CLASSES, *AVERAGED),
        "regression": _VALUES,
    }
    return of_kind.get(kind, ())


def task_metric(name: str, kind: str, outputs: int, *, tokens: bool = False) -> Metric:
    """Find the metric that a name means for a task.

    With several classes or labels, ``"f1"``, ``"precision"``, ``"recall"`` and ``"auc"`` are the macro averages.

    Parameters
    ----------
    name : str
        Name of the metric.
    kind : str
        Kind of the task, such as ``"binary"``.
    outputs : int
        Number of outputs of a row, or of a token.
    tokens : bool
        Whether each token of a row has a class. Default false.

    Returns
    -------
    Metric
        Metric of scores: of shape ``(rows, 1)``, positive for the second class; ``(rows, classes)``, largest for the
        class; or ``(rows, labels)``, positive for a label.

    Raises
    ------
    MetricError
        The metric does not fit the task; the message names those that do.

    Examples
    --------
    >>> task_metric("f1", "multiclass", 3).name
    'f1_macro'
    """
    fitting = fitting_metrics(kind, outputs, tokens=tokens)
    if name not in fitting:
        what = f"{kind} task of tokens" if tokens else f"{kind} task with {outputs} output{'' if outputs == 1 else 's'}"
        raise MetricError(
            f"metric must fit the {what}, got {name!r}. Metrics by name that fit: {', '.join(fitting) or 'none'}; a "
            "function of outputs and labels always does. If the task is another one, set ModelTrainer(task=...)"
        )
    if kind in {"multiclass", "multilabel"} and not tokens:
        if name in _TWO_CLASSES:
            name = f"{name}_macro"
        if name in AVERAGED:
            return averaged_metric(*AVERAGED[name], labels=kind == "multilabel")
        if kind == "multilabel":
            return replace(METRICS[name], part=_all_right, weighted=_all_right)
    if kind == "binary" and name in AVERAGED:
        return _of_both_classes(averaged_metric(*AVERAGED[name], labels=False))
    return METRICS[name]


def _of_both_classes(metric: Metric) -> Metric:
    """Average over two classes, where one output decides between them."""

    def part(scores: NDArray[Any], truth: NDArray[Any], *weights: NDArray[np.float64]) -> NDArray[np.float64]:
        both = np.concatenate([-scores, scores], axis=1) if scores.shape[1] == 1 else scores
        made: Callable[..., NDArray[np.float64]] = metric.part
        return made(both, truth, *weights)

    return replace(metric, part=part, weighted=part)


def _all_right(
    scores: NDArray[Any], truth: NDArray[Any], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Count the rows all of whose labels are right."""
    right = ((scores > 0) == (truth.reshape(scores.shape) > 0)).reshape(len(scores), -1).all(axis=1)
    share = np.ones(len(scores)) if weights is None else weights
    return np.array([share @ right, share.sum()], np.float64)
