"""The result of one cycle of a campaign."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cerebro_spark.tune import Selection

if TYPE_CHECKING:
    from cerebro_spark.adaptation._materialise import Materialised
    from optimizer.adaptation import AdaptationPlan

__all__ = ["Cycle", "CycleResult"]


@dataclass(frozen=True, slots=True)
class CycleResult:
    """A line of a campaign's history.

    Parameters
    ----------
    run : str
    records : int
        Labelled records.
    best : str
        Id of the best configuration.
    score : float
        Its metric.
    seconds, materialising_seconds : float
        Of training, and of computing the new records' layers before.
    trunk_rows : int
        Records that passed the frozen layers in this cycle.
    """

    run: str
    records: int
    best: str
    score: float
    seconds: float
    materialising_seconds: float
    trunk_rows: int


@dataclass(eq=False)
class Cycle(Selection):
    """The result of :meth:`Adaptation.fit`: a :class:`Selection` over all labels so far.

    Attributes
    ----------
    plan : optimizer.adaptation.AdaptationPlan
        What lay on disk, and who trained together in the first epoch.
    materialised : Materialised
        What was computed for it beforehand.
    history : tuple of CycleResult
        All cycles of the campaign, this one last.
    """

    plan: AdaptationPlan = field(init=False)
    materialised: Materialised = field(init=False)
    history: tuple[CycleResult, ...] = field(init=False, default=())

    def explain(self) -> str:
        """Describe the plan, and what was measured beside what it predicts."""
        done = self.materialised
        rate = f", {done.bytes / done.seconds / 2**20:,.1f} MiB/s" if done.seconds else ""
        return "\n".join(
            [
                self.plan.explain(),
                f"measured: {self.outcome.seconds:,.1f} s of training; {done.trunk_rows:,} records passed the frozen "
                f"layers in {done.seconds:,.1f} s and left {done.bytes:,} bytes{rate}",
            ]
        )
