"""Decision about the task of a session, on its own rows or after another configuration's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from udfs.training._errors import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.training._session import Rows, Session
    from udfs.training._task_sums import TaskDecision

__all__ = ["check_losses", "decide_session_task", "follow_task"]


def check_losses(losses: int, outputs: int, labels: int) -> None:
    """Check that each label column has a loss, and each loss an output; further outputs are allowed.

    Parameters
    ----------
    losses, outputs, labels : int
        Number of losses, of the network's outputs, and of the label columns.

    Raises
    ------
    TrainerError
        A label has no loss, or a loss has no label or output.
    """
    if labels == losses <= outputs:
        return
    raise TrainerError(
        f"label_columns must have one column for each of the {losses} losses, which read the first outputs of the "
        f"network, got {labels} labels and {outputs} outputs. Give loss= a list with one loss for each label and "
        "output, leave labels out, or put the numbers of one output into one array column"
    )


def decide_session_task(session: Session, rows: Rows, columns: Sequence[str]) -> None:
    """Decide the task of a session by rows of the data.

    Parameters
    ----------
    session : Session
        Session of the network, which may be trained or not.
    rows : Rows
        Some rows; more rows make ambiguous labels and outputs rarer.
    columns : sequence of str
        Label columns.

    Raises
    ------
    TrainerError, MetricError
        The task is ambiguous, or a metric does not fit it.
    """
    (first, *_) = session.predict(rows.inputs)
    session.sums.decide(
        first,
        rows.labels[0],
        ending=session.ending(rows.inputs),
        columns=columns,
        loss_of=session.loss_of,
    )


def follow_task(session: Session, decision: TaskDecision, sample: Callable[[], Rows] | None) -> None:
    """Set the task of a session to that of the run's first configuration, or decide it for another loss.

    Parameters
    ----------
    session : Session
        Session of another configuration.
    decision : TaskDecision
        Decision about the run's first configuration.
    sample : callable, optional
        Function that reads some rows, called if the trainer has another loss or states another task. Without it the
        labels of the decision are kept, and the outputs are those that the loss takes.

    Raises
    ------
    TrainerError
        The loss is for another kind of task; or the task is ambiguous.
    MetricError
        A metric does not fit the task.
    """
    sums = session.sums
    if (sums.facts, sums.declared) == (decision.facts, decision.declared):
        sums.settle(decision.task)
    elif sample is not None:
        decide_session_task(session, sample(), decision.task.label_columns)
    else:
        task = decision.task
        if sums.facts.family != decision.facts.family and sums.declared is None:
            raise TrainerError(
                f"loss must be for the task of the first configuration, {task.kind}, got {sums.facts.name}. State the "
                "task of each configuration with ModelTrainer(task=...)"
            )
        if sums.facts.outputs != decision.facts.outputs and sums.facts.outputs is not None:
            task = replace(task, outputs=sums.facts.outputs, reason=f"by the loss {sums.facts.name}")
        if sums.declared is not None:
            task = replace(sums.declared, num_outputs=task.num_outputs, label_columns=task.label_columns)
        sums.settle(task)
