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
"""What a network predicts."""
Encoding = Literal["0/1", "-1/+1", "class index", "one-hot", "multi-hot", "values"]
"""What the numbers of a label mean."""
Form = Literal["logits", "log-probabilities", "probabilities", "margins", "values", "log-values"]
"""What the numbers of an output mean."""

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
    ``explain()``. ``ModelTrainer(task=...)`` states it instead; what is left out is decided.

    Parameters
    ----------
    kind : {"binary", "multiclass", "multilabel", "regression", "custom"}
        What the network predicts; of ``"custom"`` there are no metrics by name.
    labels : {"0/1", "-1/+1", "class index", "one-hot", "multi-hot", "values"}, optional
        Encoding of the labels.
    outputs : {"logits", "log-probabilities", "probabilities", "margins", "values", "log-values"}, optional
        Form of the outputs. Margins decide between classes and have no probabilities; the exponentials of
        ``"log-values"`` are the values, as ``torch.nn.PoissonNLLLoss`` has them.
    num_outputs : int, optional
        Number of outputs of a row, or of a token.
    tokens : int, optional
        Number of tokens of a row, each of which has a class. By default a row has one.
    label_columns : tuple of str
        Label columns, one for each output of the network in its order. Metrics and predictions are of the first.
    reason : str
        What the task was decided by, for people to read.

    Raises
    ------
    InvalidArgumentError
        A word is unknown, or does not fit the kind.

    Examples
    --------
    >>> Task("binary", "-1/+1", "margins", 1).describe()
    'binary, labels -1/+1, 1 output of margins'
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
        """Make a task from the dictionary of :meth:`to_dict`."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        return cls(**known | {"label_columns": tuple(known.get("label_columns", ()))})

    def to_dict(self) -> dict[str, Any]:
        """Return the task as a dictionary for JSON."""
        return asdict(self) | {"label_columns": list(self.label_columns)}

    def describe(self) -> str:
        """Describe the task in one line."""
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
        """True if the outputs of a row give probabilities: those of classes or labels do, unless they are margins."""
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
        """A single output above it means the second class, or the label."""
        return {"probabilities": 0.5, "log-probabilities": math.log(0.5)}.get(self.outputs or "", 0.0)

    def decision_scores(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return outputs as scores that are positive for the second class or a label, or largest for a class.

        Values of a regression are returned as they are meant: exponentials of log-values.
        """
        scores = outputs.astype(np.float64)
        if self.is_single or self.kind == "multilabel":
            return scores - self.threshold
        return np.exp(scores) if self.outputs == "log-values" else scores

    def raw_scores(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return outputs of shape ``(rows, outputs)`` as scores; of a single output those of both classes."""
        scores = outputs.astype(np.float64)
        if not self.is_single:
            return scores
        if self.outputs == "log-probabilities":
            scores = np.exp(scores)
        is_chance = self.outputs in {"probabilities", "log-probabilities"}
        return np.concatenate([1 - scores if is_chance else -scores, scores], axis=1)

    def predictions(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Predict a class, in the encoding of the labels, or a value for each row of ``(rows, outputs)``."""
        if not len(outputs):
            return np.empty(0)
        if self.is_single:
            first = outputs[:, 0].astype(np.float64)
            # NaN is Spark's largest number: the stage has the second class for it.
            positive = ((first > self.threshold) | np.isnan(first)).astype(np.float64)
            return 2 * positive - 1 if self.labels == "-1/+1" else positive
        if self.kind in {"binary", "multiclass"}:
            return np.asarray(outputs.argmax(axis=1), np.float64)
        return self.decision_scores(outputs)[:, 0]

    def probabilities(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probabilities of the classes, ``(rows, ..., classes)``; of a single output those of both.

        Margins are taken for logits: they order rows in the same way.
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
        """Return labels of shape ``(rows, ...)`` as class numbers, or as 0 and 1 of one or several labels."""
        if self.labels == "one-hot":
            return np.asarray(labels.reshape(len(labels), -1).argmax(axis=1))
        if self.labels == "-1/+1":
            return np.asarray(labels > 0, np.int64)
        return labels
