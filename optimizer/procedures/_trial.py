"""One configuration of a search: what was decided about it, and what it has measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.procedures._decisions import Source

__all__ = ["WORST", "Trial"]

#: Score of what failed, or measured no number.
WORST = -math.inf

_WORTHLESS = {"failed", "diverged"}


@dataclass(slots=True, eq=False)
class Trial:
    """A configuration, the epochs that it was granted and the metrics of those that it has finished.

    Scores are the metric that decides, negated where smaller is better: higher is better, and what is no finite number
    is :data:`WORST`. With several objectives the first is the metric that decides; an epoch in which one of them is no
    finite number is :data:`WORST` in all.

    Attributes
    ----------
    trial_id : str
    number : int
        Its place in the order of starts.
    params : dict
    granted : int
        Its own epochs that it may train.
    source : Source or None
    status : str
        ``"running"``, ``"paused"``, ``"stopped"``, or the status of its :class:`Ended`.
    reason : str
        That of the last decision about it.
    metrics : list of mapping
        Of each finished epoch of its own.
    scores : list of float
        The same, of the metric that decides.
    points : list of tuple of float
        The same, of all objectives in their order: the first is that of ``scores``.
    curve : list of float
        Scores along its lineage: those of the epochs that it was cloned from come first.
    sums : list of float
        Sums of ``curve`` up to each epoch.
    last : tuple of float
        Point of the last epoch along its lineage; empty where there is none.
    cut : bool
        Whether the limit of epochs cut its last grant short.
    guest : bool
        Whether the user added it: the procedure decides nothing about it.
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

    @property
    def finished(self) -> int:
        """Number of its own epochs that it has finished."""
        return len(self.scores)

    @property
    def running(self) -> bool:
        """Whether it trains, or has finished what it was granted and waits for a decision."""
        return self.status == "running"

    @property
    def live(self) -> bool:
        """Whether it may be continued."""
        return self.status in {"running", "paused"}

    @property
    def waiting(self) -> bool:
        """Whether it has finished what it was granted, and no decision was made since."""
        return self.running and self.finished == self.granted

    @property
    def score(self) -> float:
        """Score of its last epoch; :data:`WORST` where it has none, failed or diverged."""
        return WORST if self.status in _WORTHLESS or not self.scores else self.scores[-1]

    @property
    def point(self) -> tuple[float, ...]:
        """Point of its last epoch; empty where it has none, failed or diverged."""
        return () if self.status in _WORTHLESS or not self.points else self.points[-1]

    @property
    def best_score(self) -> float:
        """Score of its best epoch; :data:`WORST` where it has none, failed or diverged."""
        return WORST if self.status in _WORTHLESS or not self.scores else max(self.scores)

    @property
    def best_epoch(self) -> int | None:
        """Its best epoch, counted from 1, the first of equal ones; None without any."""
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
