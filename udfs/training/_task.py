"""Task of a training: the meaning of its labels and of the network's outputs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from optimizer.arguments import one_of, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["ENCODINGS", "FORMS", "KINDS", "Encoding", "Form", "Kind", "Task"]

Kind = Literal["binary", "multiclass", "multilabel", "regression", "custom"]
"""Kind of prediction that a network makes for a row."""
Encoding = Literal["0/1", "-1/+1", "class index", "one-hot", "multi-hot", "values"]
"""Encoding of the labels: the numbers that stand for classes, or values."""
Form = Literal["logits", "log-probabilities", "probabilities", "margins", "values", "log-values"]
"""Form of the outputs: the scores, probabilities or values that their numbers are."""

KINDS: tuple[str, ...] = get_args(Kind)
ENCODINGS: tuple[str, ...] = get_args(Encoding)
FORMS: tuple[str, ...] = get_args(Form)

# Encodings and forms that fit each kind; the first encoding is the default.
_FITTING: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "binary": (("0/1", "-1/+1", "class index"), FORMS[:4]),
    "multiclass": (("class index", "one-hot"), FORMS[:4]),
    "multilabel": (("multi-hot", "-1/+1"), FORMS[:4]),
    "regression": (("values",), FORMS[4:]),
    "custom": (ENCODINGS, FORMS),
}


@dataclass(frozen=True, slots=True)
class Task:
    """Meaning of the labels and of the network's first output, from which metrics and predictions follow.

    A search decides it before training, from the loss, the end of the network and a few rows, and shows it in
    ``explain()``. ``ModelTrainer(task=...)`` states it instead: the search then decides only the fields that are left
    out.

    Parameters
    ----------
    kind : {"binary", "multiclass", "multilabel", "regression", "custom"}
        Prediction for a row: one of two classes, one of several classes, any number of labels, or values. A
        ``"custom"`` task has no metrics by name.
    labels : {"0/1", "-1/+1", "class index", "one-hot", "multi-hot", "values"}, optional
        Encoding of the labels. A ``"binary"`` task takes the first three, ``"multiclass"`` ``"class index"`` or
        ``"one-hot"``, ``"multilabel"`` ``"multi-hot"`` or ``"-1/+1"``, and ``"regression"`` ``"values"``. Default
        ``None``: it is decided.
    outputs : {"logits", "log-probabilities", "probabilities", "margins", "values", "log-values"}, optional
        Form of the outputs: ``"values"`` or ``"log-values"`` for a ``"regression"`` task, and one of the first four for
        the others. Margins decide between classes and have no probabilities. The exponentials of ``"log-values"`` are
        the values, as in ``torch.nn.PoissonNLLLoss``. Default ``None``: it is decided.
    num_outputs : int, optional
        Number of outputs for a row, or for a token. Default ``None``: the search counts them.
    tokens : int, optional
        Number of tokens of a row, each of which has a class. Default ``None``: a row has one class.
    label_columns : tuple of str
        Label columns, one for each output of the network in its order; metrics and predictions belong to the first.
        A search sets them. Default ``()``.
    reason : str
        Source of the decision, for people to read. A search sets it. Default ``""``.

    Raises
    ------
    InvalidArgumentError
        ``kind``, ``labels`` or ``outputs`` is not one of the words above, or does not fit the kind; or ``num_outputs``
        or ``tokens`` is not a positive integer.

    Examples
    --------
    State the encoding of the labels and the form of the outputs where the loss does not imply them:

    >>> import torch
    >>> from cerebro_spark import ModelTrainer, Task
    >>> def hinge(outputs, labels):
    ...     return (1 - labels * outputs[:, 0]).clamp(min=0).mean()
    >>> net = torch.nn.Linear(4, 1)
    >>> trainer = ModelTrainer(
    ...     model=net,
    ...     optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
    ...     loss=hinge,
    ...     metrics=["accuracy"],
    ...     task=Task("binary", labels="-1/+1", outputs="margins"),
    ... )
    >>> trainer.task.describe()
    'binary, labels -1/+1, unknown number of outputs of margins'
    """

    kind: Kind
    labels: Encoding | None = None
    outputs: Form | None = None
    num_outputs: int | None = None
    tokens: int | None = None
    label_columns: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        one_of("task.kind", self.kind, KINDS)
        encodings, forms = _FITTING[self.kind]
        if self.labels is not None:
            one_of(f"task.labels of a {self.kind} task", self.labels, encodings)
        if self.outputs is not None:
            one_of(f"task.outputs of a {self.kind} task", self.outputs, forms)
        for name in ("num_outputs", "tokens"):
            if getattr(self, name) is not None:
                whole(f"task.{name}", getattr(self, name))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Task:
        """Make a task from the dictionary of :meth:`to_dict`; unknown keys are ignored."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        return cls(**known | {"label_columns": tuple(known.get("label_columns", ()))})

    def to_dict(self) -> dict[str, Any]:
        """Return the task as a dictionary for JSON."""
        return asdict(self) | {"label_columns": list(self.label_columns)}

    def describe(self) -> str:
        """Describe the task in one line.

        Examples
        --------
        >>> Task("binary", "0/1", "logits", 1, label_columns=("churned",)).describe()
        "binary, labels 0/1 of 'churned', 1 output of logits"
        """
        count = f"{self.num_outputs or 'unknown number of'} output{'' if self.num_outputs == 1 else 's'}"
        first, *others = self.label_columns or ("",)
        columns = f" of {first!r}" if first else ""
        if others:
            columns += f" (further outputs learn {', '.join(map(repr, others))}, without metrics and predictions)"
        tokens = f" for each of {self.tokens} tokens" if self.tokens else ""
        form = f" of {self.outputs}" if self.outputs else ""
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.kind}, labels {self.labels or 'as they are'}{columns}, {count}{form}{tokens}{reason}"

    @property
    def has_probabilities(self) -> bool:
        """True if probabilities follow from the outputs of a row: classes or labels have some, except with margins."""
        return self.kind not in {"regression", "custom"} and self.tokens is None and self.outputs != "margins"

    @property
    def is_vector(self) -> bool:
        """True if a row has several predictions: of labels, of values, or of tokens."""
        several = (self.num_outputs or 1) > 1 and self.kind in {"multilabel", "regression"}
        return several or self.tokens is not None

    @property
    def is_single(self) -> bool:
        """True if one output decides between two classes."""
        return self.kind == "binary" and self.num_outputs == 1

    @property
    def threshold(self) -> float:
        """Threshold of an output that decides alone: the second class, or a label, is predicted above it.

        It is 0.5 for probabilities, ``log(0.5)`` for log-probabilities and 0 for other forms.
        """
        return {"probabilities": 0.5, "log-probabilities": math.log(0.5)}.get(self.outputs or "", 0.0)

    def decision_scores(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return outputs as scores from which the decisions follow.

        Parameters
        ----------
        outputs : array, shape (rows, ...)
            Outputs of the network.

        Returns
        -------
        array of float64, shape (rows, ...)
            Scores that are positive for the second class or for a label, or largest for the class. A regression has
            its values instead: exponentials of log-values.
        """
        scores = outputs.astype(np.float64)
        if self.is_single or self.kind == "multilabel":
            return scores - self.threshold
        return np.exp(scores) if self.outputs == "log-values" else scores

    def raw_scores(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return outputs as a score for each class.

        Parameters
        ----------
        outputs : array, shape (rows, outputs)
            Outputs of the network.

        Returns
        -------
        array of float64, shape (rows, classes)
            The outputs; for a single output that decides between two classes, the scores of both.
        """
        scores = outputs.astype(np.float64)
        if not self.is_single:
            return scores
        if self.outputs == "log-probabilities":
            scores = np.exp(scores)
        is_chance = self.outputs in {"probabilities", "log-probabilities"}
        return np.concatenate([1 - scores if is_chance else -scores, scores], axis=1)

    def predictions(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Predict a class or a value for each row.

        Parameters
        ----------
        outputs : array, shape (rows, outputs)
            Outputs of the network.

        Returns
        -------
        array of float64, shape (rows,)
            Class numbers, or -1 and 1 with labels ``"-1/+1"``; for a regression the values of the first output.

        Examples
        --------
        >>> Task("binary", "-1/+1", "margins", 1).predictions(np.array([[0.3], [-2.0]])).tolist()
        [1.0, -1.0]
        """
        if not len(outputs):
            return np.empty(0)
        if self.is_single:
            first = outputs[:, 0].astype(np.float64)
            # NaN is the largest number of Spark, which predicts the second class for it.
            positive = ((first > self.threshold) | np.isnan(first)).astype(np.float64)
            return 2 * positive - 1 if self.labels == "-1/+1" else positive
        if self.kind in {"binary", "multiclass"}:
            return np.asarray(outputs.argmax(axis=1), np.float64)
        return self.decision_scores(outputs)[:, 0]

    def probabilities(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probabilities of classes or labels.

        Parameters
        ----------
        outputs : array, shape (rows, ..., outputs)
            Outputs of the network. Margins are treated as logits, which order rows in the same way.

        Returns
        -------
        array of float64, shape (rows, ..., classes)
            Probabilities; for a single output that decides between two classes, those of both.

        Examples
        --------
        >>> Task("binary", "0/1", "logits", 1).probabilities(np.array([[0.0]])).tolist()
        [[0.5, 0.5]]
        """
        scores = outputs.astype(np.float64)
        pairs = self.is_single or self.kind == "multilabel"
        with np.errstate(over="ignore", invalid="ignore"):
            if self.outputs == "log-probabilities":
                scores = np.exp(scores)
            elif self.outputs != "probabilities":
                if pairs:
                    scores = 1 / (1 + np.exp(-scores))
                else:
                    scores = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
                    scores /= scores.sum(axis=-1, keepdims=True)
        return np.concatenate([1 - scores[:, :1], scores[:, :1]], axis=1) if self.is_single else scores

    def truth(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return labels in the encoding that metrics take.

        Parameters
        ----------
        labels : array, shape (rows, ...)
            Labels in the encoding of the task.

        Returns
        -------
        array, shape (rows,) or (rows, ...)
            Class numbers for one-hot labels, 0 and 1 for labels ``"-1/+1"``, and all other labels as they are.
        """
        if self.labels == "one-hot":
            return np.asarray(labels.reshape(len(labels), -1).argmax(axis=1))
        if self.labels == "-1/+1":
            return np.asarray(labels > 0, np.int64)
        return labels
