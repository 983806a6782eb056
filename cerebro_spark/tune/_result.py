"""Result of one configuration of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper import UNBROKEN, best_epoch

if TYPE_CHECKING:
    from cerebro_spark.hopper import RunSpec, Trial
    from optimizer.procedures import Source

__all__ = ["TrialResult", "ranked_epoch", "result_of"]


@dataclass(frozen=True, slots=True)
class TrialResult:
    r"""Configuration with the course of its training.

    Attributes
    ----------
    trial_id : str
        Id of the configuration.
    params : dict
        Values of the hyperparameters, by name.
    status : str
        ``"finished"``: the procedure ended it after one of its epochs; ``reason`` says why. ``"stopped"``: before
        its first. While a search goes on: ``"running"``, or ``"paused"`` by the procedure or the user. Or why it
        ended early: ``"raised"``, ``"diverged"``, ``"out of memory"``,
        ``"failed"`` (it took its workers with it, or the state that it is a clone of is damaged).
    metric : float
        Value of the search's metric, of several the first, after ``epoch``; NaN where there is none.
    history : list of dict
        By epoch: the training loss, and loss and metrics of validation with ``val_`` before the name.
    visits : tuple of (int, int)
        Epoch and partition of each unit, in the order of training.
    seconds : float
        Time in training units.
    traceback : str
        Error that ended it early, in its worker's words.
    reason : str
        Reason of the procedure's last decision about it.
    epoch : int
        Own epoch, counted from 1, of ``metric`` and of its model: the last one, or the best one where the search has
        ``keep="best"`` or ``"epochs"``. 0 where it has finished none.
    source : Source or None
        Origin of a clone or a child: another trial, and that one's epoch, counted from 1, whose weights it began with.
    scores : dict of str to float
        Values after ``epoch`` of all metrics that decide, by name; NaN where there is none.
    log : str
        Printed output of its units, each after a line that names unit and worker: Python's output, warnings and
        logging, and that of C libraries. All of it, or the first and the last 131,072 characters, and between them a
        line that says how many bytes are left out. ``""`` where nothing was printed.
    inherited : str
        Weights that a child has from its source, such as ``"5 of 8 tensors, 2 of them in part"``. ``""`` without a
        source, for a clone, which has all of them, and before its first unit.

    Examples
    --------
    >>> result = TrialResult("c000", {"lr": 0.1}, "finished", 0.5, [], (), 1.0, "", log="[train c000 on w0]\na step\n")
    >>> print(result.log, end="")
    [train c000 on w0]
    a step
    """

    trial_id: str
    params: dict[str, Any]
    status: str
    metric: float
    history: list[dict[str, float]]
    visits: tuple[tuple[int, int], ...]
    seconds: float
    traceback: str
    reason: str = ""
    epoch: int = 0
    source: Source | None = None
    scores: dict[str, float] = field(default_factory=dict)
    log: str = field(default="", repr=False)
    inherited: str = ""

    @property
    def failed(self) -> bool:
        """True if an error of its own ended it, such as ``"diverged"``, and not a decision."""
        return self.status not in UNBROKEN


def result_of(trial: Trial, spec: RunSpec) -> TrialResult:
    """Describe a trial as it is now."""
    epoch = ranked_epoch(trial, spec)
    reached = trial.history[epoch - 1] if epoch else {}
    # A number that could not be computed is None in a history.
    values = {each.metric: reached.get(each.metric) for each in spec.objectives}
    scores = {metric: math.nan if value is None else value for metric, value in values.items()}
    return TrialResult(
        trial.trial_id,
        dict(trial.params),
        "paused" if trial.is_paused and trial.running else trial.status,
        scores[spec.metric],
        list(trial.history),
        tuple(trial.visits),
        trial.seconds,
        trial.traceback,
        trial.reason,
        epoch,
        trial.source,
        scores,
        str(trial.log),
        trial.inherited,
    )


def ranked_epoch(trial: Trial, spec: RunSpec) -> int:
    """Return the epoch that a trial is ranked by, counted from 1; 0 if it has finished none.

    The best epoch is that of the first metric, where several decide.
    """
    last = len(trial.history)
    if spec.keep == "last":
        return last
    best = best_epoch(trial.history, spec.metric, larger_is_better=spec.larger_is_better)
    return last if best is None else best
