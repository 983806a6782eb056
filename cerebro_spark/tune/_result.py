"""The result of one configuration of a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizer.procedures import Source

__all__ = ["TrialResult"]


@dataclass(frozen=True, slots=True)
class TrialResult:
    r"""One configuration and how its training went.

    Attributes
    ----------
    trial_id : str
    params : dict
    status : str
        ``"finished"``: the procedure ended it after one of its epochs; ``reason`` says why. ``"stopped"``: before
        its first. Or why it ended early: ``"raised"``, ``"diverged"``, ``"out of memory"``,
        ``"failed"`` (it took its workers with it, or the state that it is a clone of is damaged).
    metric : float
        Value of the search's metric after ``epoch``; NaN where there is none.
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
        Origin of a clone: another trial, and that one's epoch, counted from 1, whose weights it began with.
    log : str
        What its units printed, each after a line that names unit and worker: Python's output, warnings and logging,
        and that of C libraries. All of it, or the first and the last 131,072 characters, and between them a line that
        says how many bytes are left out. ``""`` where nothing was printed.

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
    log: str = field(default="", repr=False)
