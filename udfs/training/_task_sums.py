"""Sums of a session's loss and metrics, for the task of the session."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.metrics import METRICS, Metric, MetricError, Sums, is_batch_mean, metric, task_metric
from udfs.training._known_losses import LossFacts
from udfs.training._task import Task
from udfs.training._task_decision import decide_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.training._task_decision import Ending

__all__ = ["TaskDecision", "TaskSums"]


@dataclass(frozen=True, slots=True)
class TaskDecision:
    """Task of a run's first configuration, with the statements of its trainer.

    Parameters
    ----------
    task : Task
        The task.
    facts : LossFacts
        Properties of the loss of the first output.
    declared : Task, optional
        Task that the trainer states.
    notes : tuple of str
        Notes for people to read, such as on metrics that are means over batches. Default ``()``.
    """

    task: Task
    facts: LossFacts
    declared: Task | None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskDecision:
        """Make a decision from the dictionary of :meth:`to_dict`."""
        declared = data["declared"]
        facts = LossFacts(**data["facts"])
        stated = None if declared is None else Task.from_dict(declared)
        return cls(Task.from_dict(data["task"]), facts, stated, tuple(data["notes"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as a dictionary for JSON."""
        declared = None if self.declared is None else self.declared.to_dict()
        facts = asdict(self.facts)
        return {"task": self.task.to_dict(), "facts": facts, "declared": declared, "notes": list(self.notes)}

    def explain(self) -> str:
        """Describe the decision for people to read, in a line and one for each note."""
        return "\n".join([f"task: {self.task.describe()}", *(f"  {note}" for note in self.notes)])


class TaskSums(Sums):
    """Sums of a session, whose metrics are those that fit its task.

    Parameters
    ----------
    metrics : sequence of str, Metric or callable
        Metrics of the trainer.
    facts : LossFacts
        Properties of the loss of the first output.
    declared : Task or str, optional
        Task that the trainer states, or its kind. Default ``None``: it is decided.
    """

    def __init__(
        self,
        metrics: Sequence[str | Metric | Callable[..., Any]],
        facts: LossFacts,
        declared: Task | str | None = None,
    ) -> None:
        super().__init__([metric(wanted) for wanted in metrics])
        self.facts = facts
        self.declared = Task(declared) if isinstance(declared, str) else declared  # type: ignore[arg-type]
        self._named = [wanted for wanted in metrics if isinstance(wanted, str)]
        self._others = list(self.metrics)
        self._task: Task | None = None
        self.notes: list[str] = []

    @property
    def task(self) -> Task:
        """Task of the session.

        Raises
        ------
        MetricError
            The task is not decided yet: no rows have been evaluated.
        """
        if self._task is None:
            raise MetricError(
                "the task must be decided before it is read, got none. Evaluate some rows, or call settle"
            )
        return self._task

    @property
    def is_settled(self) -> bool:
        """True if the task is decided."""
        return self._task is not None

    @property
    def decision(self) -> TaskDecision:
        """The task and the statements of the trainer, for the sessions of other configurations."""
        return TaskDecision(self.task, self.facts, self.declared, tuple(self.notes))

    def decide(
        self,
        outputs: NDArray[Any],
        labels: NDArray[Any],
        *,
        ending: Ending = "unknown",
        columns: Sequence[str] = (),
        loss_of: Callable[[float, float], float] | None = None,
    ) -> None:
        """Decide the task by sample rows; see :func:`udfs.training.decide_task`."""
        self.settle(
            decide_task(
                self.facts,
                outputs,
                labels,
                declared=self.declared,
                ending=ending,
                columns=columns,
                loss_of=loss_of,
            )
        )

    def settle(self, task: Task) -> None:
        """Set the task, and choose the metrics that fit it.

        Raises
        ------
        MetricError
            A metric does not fit the task.
        """
        chosen = []
        for wanted in self._others:
            named = wanted.name in self._named and METRICS.get(wanted.name) is wanted
            if not named:
                chosen.append(wanted)
                continue
            fitted = task_metric(wanted.name, task.kind, task.num_outputs or 1, tokens=task.tokens is not None)
            # The metric keeps the name that the user wrote, beside that of the average.
            chosen.append(replace(fitted, name=wanted.name, full_name=fitted.name))
        self._task, self.metrics = task, chosen
        self._by_name = {each.name: each for each in chosen}

    def contributions(
        self, outputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float32] | None = None
    ) -> dict[str, NDArray[np.float64]]:
        """Compute the contributions of a batch to the metrics; the first batch decides the task if it is not set."""
        if self._task is None:
            self.decide(outputs, labels)
        task = self.task
        added = {}
        for each in self.metrics:
            named = each.full_name is not None
            if named:
                kept, known, shares = self._kept(task, outputs, labels, weights)
                part = self._contribution(each, *self._arrays(each, task, kept, known), shares)
            else:
                part = self._contribution(each, self._raw(each, task, outputs), labels, weights)
            note = f"metric {each.name!r}: mean over batches, weighted by their rows"
            if is_batch_mean(each, part) and note not in self.notes:
                self.notes.append(note)
            added[each.name] = part
        return added

    def _kept(
        self, task: Task, outputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float32] | None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32] | None]:
        """Return a batch without the rows that the loss leaves out."""
        if self.facts.ignored is None or task.labels != "class index" or task.tokens is not None:
            return outputs, labels, weights
        rows = labels.reshape(-1) != self.facts.ignored
        return outputs[rows], labels[rows], None if weights is None else weights[rows]

    @staticmethod
    def _raw(each: Metric, task: Task, outputs: NDArray[Any]) -> NDArray[Any]:
        return outputs - task.threshold if each.margins and task.is_single else outputs

    @staticmethod
    def _arrays(
        each: Metric, task: Task, outputs: NDArray[Any], labels: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return scores and truth as metrics of the task take them."""
        if task.tokens is not None:
            return outputs, labels
        if task.kind == "regression":
            return task.decision_scores(outputs), labels
        flat = outputs.reshape(len(outputs), -1)
        truth = task.truth(labels)
        if task.labels in {"0/1", "-1/+1", "multi-hot"}:
            _check_pairs(each.name, task, labels)
        if (each.full_name or "").startswith("auc"):
            # The areas of several classes compare probabilities; otherwise the order of the scores is enough.
            several = task.kind == "multiclass" and task.outputs != "margins"
            return task.probabilities(flat) if several else flat.astype(np.float64), truth
        return task.decision_scores(flat), truth


def _check_pairs(name: str, task: Task, labels: NDArray[Any]) -> None:
    allowed = (-1, 1) if task.labels == "-1/+1" else (0, 1)
    if not np.isin(labels, allowed).all():
        odd = labels[~np.isin(labels, allowed)].reshape(-1)[0]
        raise MetricError(
            f"labels must be {allowed[0]} or {allowed[1]} for metric {name!r} of this task, got {odd:g}. Set "
            "ModelTrainer(task=...) if they mean something else"
        )
