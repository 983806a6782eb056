"""Decision about the task of a training, from the loss, the end of the network and a few rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from udfs.training._errors import TrainerError
from udfs.training._task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from udfs.training._known_losses import LossFacts
    from udfs.training._task import Encoding, Form, Kind

__all__ = ["Ending", "decide_task"]

Ending = Literal["sigmoid", "softmax", "log-sigmoid", "log-softmax", "linear", "unknown"]
"""Last operation of a network."""

_FORM_OF_ENDING: dict[str, Form] = {
    "sigmoid": "probabilities",
    "softmax": "probabilities",
    "log-sigmoid": "log-probabilities",
    "log-softmax": "log-probabilities",
    "linear": "logits",
}
_TOLERANCE = 1e-3
# Number of distinct outputs between 0 and 1 that are taken for probabilities; fewer may be logits too.
_FEWEST = 8
_TOKEN_AXES = 2
_TWO = 2


@dataclass(frozen=True, slots=True)
class _Sample:
    """Outputs and labels of a few rows, with the loss and the end of the network."""

    facts: LossFacts
    outputs: NDArray[Any]
    labels: NDArray[Any]
    ending: Ending
    loss_of: Callable[[float, float], float] | None

    @property
    def width(self) -> int:
        """Number of outputs of a row."""
        return math.prod(self.outputs.shape[1:])

    @property
    def size(self) -> int:
        """Number of labels of a row."""
        return math.prod(self.labels.shape[1:])

    @property
    def is_whole(self) -> bool:
        """True if the labels have a type of integers."""
        return self.labels.dtype.kind in "iub"

    @property
    def is_of_tokens(self) -> bool:
        """True if each token of a row has a class."""
        shape = self.outputs.shape[1:]
        # Labels of shape (classes,) may be probabilities of the classes, but classes of tokens have an axis less than
        # their scores.
        return self.is_whole and len(shape) == _TOKEN_AXES and shape[:1] == self.labels.shape[1:] and shape[1] > 1

    @property
    def signs(self) -> Encoding:
        """Encoding of two classes, by the labels."""
        return "-1/+1" if self.labels.min() < 0 else "0/1"


def decide_task(
    facts: LossFacts,
    outputs: NDArray[Any],
    labels: NDArray[Any],
    *,
    declared: Task | None = None,
    ending: Ending = "unknown",
    columns: Sequence[str] = (),
    loss_of: Callable[[float, float], float] | None = None,
) -> Task:
    """Decide the meaning of labels and outputs.

    Parameters
    ----------
    facts : LossFacts
        Properties of the loss of the first output.
    outputs, labels : array, shape (rows, ...)
        First output of the network and first label, for the same rows.
    declared : Task, optional
        Task that the user states; only the fields that it leaves out are decided.
    ending : str
        Last operation of the network. Default ``"unknown"``.
    columns : sequence of str
        Label columns, in the order of the outputs.
    loss_of : callable, optional
        Function that returns the loss of a single output and a label, to test a loss that the user wrote.

    Returns
    -------
    Task
        Task with the decided fields.

    Raises
    ------
    TrainerError
        The outputs or labels do not have the form that the loss takes, or their meaning is ambiguous.

    Examples
    --------
    >>> from udfs.training import TORCH_LOSSES
    >>> decide_task(TORCH_LOSSES["SoftMarginLoss"], np.zeros((2, 1)), np.array([-1.0, 1.0])).describe()
    'binary, labels -1/+1, 1 output of logits (by the loss SoftMarginLoss)'
    """
    sample = _Sample(facts, outputs, labels, ending, loss_of)
    if declared is None:
        kind, encoding = _kind(sample)
        tokens = int(labels.shape[1]) if kind == "multiclass" and sample.is_of_tokens else None
        reason = f"by the loss {facts.name}" if facts.family != "unknown" else "by sample rows"
    else:
        kind, tokens, reason = declared.kind, declared.tokens, "task="
        encoding = declared.labels or _default_encoding(kind, sample)
    task = Task(kind, encoding, None, sample.width // (tokens or 1), tokens, tuple(columns), reason)
    if declared is not None and declared.outputs is not None:
        return replace(task, outputs=declared.outputs)
    form, why = _form(sample, task)
    _check_encoding(facts, task, labels)
    return replace(task, outputs=form, reason=f"{task.reason}{'; ' if why else ''}{why}")


def _default_encoding(kind: Kind, sample: _Sample) -> Encoding | None:
    if kind == "binary":
        return sample.signs if sample.width == 1 else "class index"
    if kind == "multiclass":
        return "one-hot" if sample.width > 1 and sample.size == sample.width else "class index"
    encodings: dict[str, Encoding] = {"multilabel": "multi-hot", "regression": "values"}
    return encodings.get(kind)


def _kind(sample: _Sample) -> tuple[Kind, Encoding | None]:
    """Return the kind of the task, and the encoding of the labels."""
    family = sample.facts.family
    if family == "values":
        return "regression", "values"
    if family == "custom":
        return "custom", None
    if sample.is_of_tokens:
        return "multiclass", "class index"
    return {"classes": _kind_of_classes, "pairs": _kind_of_pairs}.get(family, _kind_of_rows)(sample)


def _kind_of_classes(sample: _Sample) -> tuple[Kind, Encoding | None]:
    if sample.size == 1 and sample.width == _TWO:
        return "binary", "class index"
    if sample.size == 1:
        return ("multiclass", "class index") if sample.width > 1 else ("binary", "0/1")
    return ("multiclass", "one-hot") if sample.size == sample.width else ("custom", None)


def _kind_of_pairs(sample: _Sample) -> tuple[Kind, Encoding | None]:
    if sample.width == 1:
        return "binary", sample.facts.labels or sample.signs
    return "multilabel", "-1/+1" if sample.facts.labels == "-1/+1" else "multi-hot"


def _kind_of_rows(sample: _Sample) -> tuple[Kind, Encoding | None]:
    """Decide the kind by sample rows, for a loss that the user wrote."""
    labels, width = sample.labels, sample.width
    if sample.size == 1:
        if width == 1:
            return _kind_of_one_output(sample)
        if (labels == np.floor(labels)).all() and labels.min() >= 0 and labels.max() < width:
            return ("binary" if width == _TWO else "multiclass"), "class index"
    elif sample.size == width:
        return _kind_of_several(labels)
    return "custom", None


def _kind_of_several(labels: NDArray[Any]) -> tuple[Kind, Encoding | None]:
    if not _of_two(labels):
        return "regression", "values"
    if labels.min() >= 0 and (labels.reshape(len(labels), -1).sum(axis=1) == 1).all():
        return "multiclass", "one-hot"
    return "multilabel", "multi-hot" if labels.min() >= 0 else "-1/+1"


def _kind_of_one_output(sample: _Sample) -> tuple[Kind, Encoding | None]:
    labels = sample.labels
    if not _of_two(labels) or not (sample.is_whole or len(np.unique(labels)) > 1):
        return "regression", "values"
    shape = "classes"
    if sample.ending not in {"sigmoid", "log-sigmoid"}:
        shape = _loss_shape(sample.loss_of, float(labels.max()))
    if shape == "values":
        return "regression", "values"
    if shape == "unknown" and not sample.is_whole:
        raise TrainerError(
            f"task must be given for the loss {sample.facts.name}, because its labels are two numbers and may be "
            "classes or values, got task=None. Set ModelTrainer(task='binary') or ModelTrainer(task='regression')"
        )
    return "binary", sample.signs


def _loss_shape(loss_of: Callable[[float, float], float] | None, upper: float) -> str:
    """Distinguish losses of classes and of values: the loss of values grows above the label, that of classes does not.

    Return ``"classes"``, ``"values"`` or ``"unknown"``.
    """
    if loss_of is None:
        return "unknown"
    try:
        below, near, far = (loss_of(output, upper) for output in (-20.0, 1.0, 20.0))
    except Exception:  # noqa: BLE001 - the user's loss may take probabilities only
        return "unknown"
    if not all(map(math.isfinite, (below, near, far))):
        return "unknown"
    return "values" if far > near and below > near else "classes" if below > near >= far else "unknown"


def _form(sample: _Sample, task: Task) -> tuple[Form | None, str]:
    """Return the form of the outputs, and the reason for it beyond the loss."""
    wanted = sample.facts.outputs
    if task.kind in {"custom", "regression"}:
        values: Form = "log-values" if wanted == "log-values" else "values"
        return (values if task.kind == "regression" else None), ""
    if wanted in {None, "values", "log-values"}:
        return _form_of_own(sample, task)
    if wanted == "probabilities":
        _check_range(sample.facts, sample.outputs)
    if wanted == "log-probabilities":
        return _checked_logs(sample.facts, task, sample.outputs, _FORM_OF_ENDING.get(sample.ending))
    actual = _FORM_OF_ENDING.get(sample.ending)
    if wanted == "logits" and actual in {"probabilities", "log-probabilities"}:
        twice = "" if sample.ending == "log-softmax" else f", which {sample.facts.name} takes for logits"
        return actual, f"{sample.ending} at the end of the network{twice}"
    return wanted, ""


def _form_of_own(sample: _Sample, task: Task) -> tuple[Form, str]:
    """Return the form of the outputs for a loss that the user wrote."""
    actual = _FORM_OF_ENDING.get(sample.ending)
    if task.labels == "-1/+1" and actual in {None, "logits"}:
        return "margins", ""
    if actual is None:
        return _form_of_rows(sample.facts, task, sample.outputs), "form by sample rows"
    return actual, f"{sample.ending} at the end of the network"


def _form_of_rows(facts: LossFacts, task: Task, outputs: NDArray[Any]) -> Form:
    low, high = float(outputs.min()), float(outputs.max())
    several = task.kind in {"binary", "multiclass"} and (task.num_outputs or 1) > 1
    if several:
        if low >= -_TOLERANCE and _sums_to_one(outputs):
            return "probabilities"
        return "log-probabilities" if high <= _TOLERANCE and _sums_to_one(np.exp(outputs)) else "logits"
    if low < 0 or high > 1:
        return "logits"
    if len(np.unique(outputs)) < _FEWEST:
        raise TrainerError(
            f"task must be given for the loss {facts.name}, because outputs from {low:.3g} to {high:.3g} may be "
            f"probabilities or logits, got task=None. Set ModelTrainer(task=Task({task.kind!r}, "
            "outputs='probabilities')), or outputs='logits'"
        )
    return "probabilities"


def _checked_logs(facts: LossFacts, task: Task, outputs: NDArray[Any], actual: Form | None) -> tuple[Form | None, str]:
    last = outputs.reshape(-1, task.num_outputs or 1)
    if actual == "log-probabilities" or _sums_to_one(np.exp(last)):
        return "log-probabilities", ""
    if actual == "probabilities" or (last.min() >= 0 and _sums_to_one(last)):
        return "probabilities", f"which {facts.name} takes for log-probabilities"
    raise TrainerError(
        f"outputs must be log-probabilities for the loss {facts.name}, got numbers from {last.min():.3g} to "
        f"{last.max():.3g} whose exponentials do not sum to one. End the network with log_softmax, or use a loss of "
        "logits such as CrossEntropyLoss"
    )


def _check_range(facts: LossFacts, outputs: NDArray[Any]) -> None:
    low, high = float(outputs.min(initial=0.0)), float(outputs.max(initial=1.0))
    if low < -_TOLERANCE or high > 1 + _TOLERANCE:
        raise TrainerError(
            f"outputs must be probabilities from 0 to 1 for the loss {facts.name}, got numbers from {low:.3g} to "
            f"{high:.3g}. End the network with a sigmoid or a softmax, or use a loss of logits (from_logits=True)"
        )


def _check_encoding(facts: LossFacts, task: Task, labels: NDArray[Any]) -> None:
    """Raise TrainerError for labels in another encoding than that of the loss."""
    pairs = {"0/1": (0, 1), "-1/+1": (-1, 1), "multi-hot": (0, 1)}.get(task.labels or "")
    if pairs is None or _only(labels, pairs) or (pairs[0] == 0 and labels.min() >= 0 and labels.max() <= 1):
        return
    odd = labels[~np.isin(labels, pairs)].reshape(-1)[0]
    column = f" of {task.label_columns[0]!r}" if task.label_columns else ""
    raise TrainerError(
        f"labels{column} must be {pairs[0]} or {pairs[1]} for the loss {facts.name}, got {odd:g}. Change the column, "
        "or use a loss that takes these labels"
    )


def _of_two(labels: NDArray[Any]) -> bool:
    """Return whether the labels are two numbers that may stand for classes."""
    return _only(labels, (0, 1)) or _only(labels, (-1, 1))


def _only(labels: NDArray[Any], allowed: tuple[int, int]) -> bool:
    return bool(np.isin(labels, allowed).all())


def _sums_to_one(outputs: NDArray[Any]) -> bool:
    sums = outputs.astype(np.float64).sum(axis=-1)
    return bool((np.abs(sums - 1) < _TOLERANCE).all())
