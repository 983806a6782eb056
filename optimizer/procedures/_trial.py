"""State of a configuration in a procedure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.procedures._decisions import Source

__all__ = ["WORST", "Trial"]

#: Score of a failed configuration, or of a metric that is not finite.
WORST = -math.inf

_WORTHLESS = {"failed", "diverged"}


@dataclass(slots=True, eq=False)
class Trial:
    """Configuration with its granted epochs and the metrics of its finished ones.

    Scores are the metric that decides, negated where smaller is better, so that higher is better; :data:`WORST` stands
    for values that are not finite. With several objectives the first decides, and an epoch in which one of them is not
    finite is :data:`WORST` in all.

    Attributes
    ----------
    number : int
        Place in the order of starts.
    granted : int
        Epochs that the trial may train, without those of its ancestors.
    status : str
        ``"running"``, ``"paused"``, ``"stopped"``, or the status of its :class:`Ended`.
    reason : str
        Reason of the last decision.
    metrics : list of mapping
        Metrics of each finished epoch.
    scores : list of float
        Scores of each finished epoch by the metric that decides.
    points : list of tuple of float
        Scores of each finished epoch by all objectives.
    curve : list of float
        Scores along the lineage, those of its ancestors first.
    sums : list of float
        Sums of ``curve`` up to each epoch.
    last : tuple of float
        Point of the last epoch along the lineage; empty where there is none.
    cut : bool
        True if the limit of epochs has shortened the last grant.
    guest : bool
        True if the user added the configuration, so that the procedure makes no decisions about it.
    owed : int
        Epochs that the user asked for, which begin when the procedure ends the trial.
    extended : bool
        True once the trial trains epochs that the user asked for, so that the procedure decides no more about it.
    """

    trial_id: str
    number: int
    params: dict[str, Any]
    granted: int
    source: Source | None = None
    status: str = "running"
    reason: str = ""
    metrics: list[Mapping[str, float]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    points: list[tuple[float, ...]] = field(default_factory=list)
    curve: list[float] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    last: tuple[float, ...] = ()
    cut: bool = False
    guest: bool = False
    owed: int = 0
    extended: bool = False

    @property
    def finished(self) -> int:
        """Number of finished epochs, without those of its ancestors."""
        return len(self.scores)

    @property
    def running(self) -> bool:
        """True if the trial trains or waits for a decision."""
        return self.status == "running"

    @property
    def live(self) -> bool:
        """True if the trial can be continued."""
        return self.status in {"running", "paused"}

    @property
    def competes(self) -> bool:
        """True if the procedure decides about the trial: it is live, and trains no epochs of the user."""
        return self.live and not self.guest and not self.extended

    @property
    def waiting(self) -> bool:
        """True if the trial has finished its granted epochs and waits for a decision."""
        return self.running and self.finished == self.granted

    @property
    def score(self) -> float:
        """Score of the last epoch; :data:`WORST` without any, or after a failure or divergence."""
        return WORST if self.status in _WORTHLESS or not self.scores else self.scores[-1]

    @property
    def point(self) -> tuple[float, ...]:
        """Point of the last epoch; empty without any, or after a failure or divergence."""
        return () if self.status in _WORTHLESS or not self.points else self.points[-1]

    @property
    def best_score(self) -> float:
        """Score of the best epoch; :data:`WORST` without any, or after a failure or divergence."""
        return WORST if self.status in _WORTHLESS or not self.scores else max(self.scores)

    @property
    def best_epoch(self) -> int | None:
        """Number of the best epoch from 1, the first among equals; None without any."""
        return self.scores.index(max(self.scores)) + 1 if self.scores else None

    def add(self, metrics: Mapping[str, float], point: tuple[float, ...]) -> None:
        """Append a finished epoch."""
        score = point[0]
        self.metrics.append(metrics)
        self.points.append(point)
        self.last = point
        self.scores.append(score)
        self.curve.append(score)
        self.sums.append(score + (self.sums[-1] if self.sums else 0.0))

    def inherit(self, parent: Trial, epoch: int) -> None:
        """Take over the curve of another trial up to one of its own epochs."""
        end = len(parent.curve) - parent.finished + epoch
        self.curve = parent.curve[:end]
        self.sums = parent.sums[:end]
        self.last = parent.points[epoch - 1]
