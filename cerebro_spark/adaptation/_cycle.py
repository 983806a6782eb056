"""The result of one cycle of a campaign."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cerebro_spark.errors import NoModelError, RunError
from cerebro_spark.tune import Selection
from udfs.adaptation import BestModel, column_names, input_specs
from udfs.handlers import open_adapted, trainer_framework
from udfs.training import initial_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from cerebro_spark.adaptation._materialise import Materialised
    from cerebro_spark.adaptation._rates import CycleCosts
    from cerebro_spark.hopper import Trial
    from optimizer.adaptation import AdaptationPlan
    from udfs.handlers import Adapted
    from udfs.shards import PreparedData
    from udfs.training import Session

__all__ = ["Cycle", "CycleResult", "records_of"]


@dataclass(frozen=True, slots=True)
class CycleResult:
    """One cycle in a campaign's course.

    Parameters
    ----------
    run : str
    records : int
        Labelled records.
    best : str
        Id of the best configuration; ``""`` where none finished.
    score : float
        Its metric; NaN where none finished.
    seconds, materialising_seconds : float
        Of training, and of computing the new records' layers before.
    trunk_rows : int
        Records that passed the frozen layers in this cycle, to be stored.
    passes : float
        These, and those that passed frozen layers while it trained and evaluated: once for all configurations that did
        so together, a pass through a part of the layers by its share of the FLOPs. NaN where the run was over before.
    passes_alone : int
        Records that would have passed them if each configuration had trained by itself: once an epoch.
    """

    run: str
    records: int
    best: str
    score: float
    seconds: float
    materialising_seconds: float
    trunk_rows: int
    passes: float
    passes_alone: int


@dataclass(eq=False)
class Cycle(Selection):
    """Result of :meth:`Adaptation.fit`: a :class:`Selection` over all labels so far.

    Parameters
    ----------
    run : RunResult
        Result of the cycle's run.
    trainer_fn : callable
        User's function that the run trained with.
    materialised : Materialised
        Layers that were computed before the run.
    plan : AdaptationPlan, optional
        Layers on disk, and the groups of the first epoch; ``None`` if the run was over before.
    costs : CycleCosts, optional
        Seconds predicted and measured, and the rates behind them.
    notes : tuple of str
        Numbers of configurations that train whole, with the reasons, and of those with the weights of an earlier cycle.
    passes : float
        Records that passed frozen layers, as in :class:`CycleResult`; NaN if the run was over before.
    earlier : tuple of CycleResult
        Earlier cycles of the campaign in this process.
    """

    materialised: Materialised = field(kw_only=True)
    plan: AdaptationPlan | None = field(default=None, kw_only=True)
    costs: CycleCosts | None = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    passes: float = field(default=math.nan, kw_only=True)
    earlier: tuple[CycleResult, ...] = field(default=(), kw_only=True)

    @property
    def cycles(self) -> tuple[CycleResult, ...]:
        """All cycles of the campaign in this process, this one last."""
        return (*self.earlier, self.line)

    @property
    def remade(self) -> int:
        """Files of stored layers that were damaged or gone, found as they were read, and made again."""
        return self.materialised.remade + round(sum(event.remade for event in self.outcome.events))

    @property
    def line(self) -> CycleResult:
        """The line of this cycle in the campaign's course."""
        try:
            best, score = self.best.trial_id, self.best.metric
        except NoModelError:
            # The trials say why: a cycle that came to nothing is a result too.
            best, score = "", math.nan
        records = records_of(self.prepared)
        return CycleResult(
            run=self.run_id,
            records=records,
            best=best,
            score=score,
            seconds=self.outcome.seconds,
            materialising_seconds=self.materialised.seconds,
            trunk_rows=self.materialised.trunk_rows,
            passes=self.passes,
            passes_alone=records * sum(len(trial.history) for trial in self.trials),
        )

    @property
    def facts(self) -> dict[str, float]:
        """Numbers of the whole cycle, by name, as MLflow gets them."""
        done = self.materialised
        planned = {} if self.plan is None else {"planned_bytes": self.plan.materialised_bytes}
        return {
            **super().facts,
            **planned,
            "records": records_of(self.prepared),
            "trunk_rows": done.trunk_rows,
            "materialised_bytes": done.bytes,
            "materialising_seconds": done.seconds,
            "remade_files": self.remade,
        }

    def explain(self) -> str:
        """Describe the plan, and what was measured beside what it predicts."""
        done = self.materialised
        clock = (
            f"by the clock, with opening the models, hops and evaluation: {self.outcome.seconds:,.1f} s of training; "
            f"{done.trunk_rows:,} records passed the frozen layers in {done.seconds:,.1f} s and left "
            f"{done.bytes:,} bytes"
        )
        plan = [] if self.plan is None else [self.plan.explain()]
        costs = () if self.costs is None else self.costs.lines
        remade = [f"note: {self.remade} damaged files were made again"] if self.remade else []
        return "\n".join([*plan, *self.notes, *remade, *costs, clock])

    def _check_replayable(self) -> None:
        raise RunError(
            f"run {self.run_id!r} is a cycle of an adaptation, which no replay repeats: give its batches to a new one "
            'with the same seed and schedule="fixed", which makes the same models'
        )

    def best_opened(self, opener: Callable[..., Adapted]) -> BestModel:
        """Give the best configuration, for workers to open it where its frozen layers end.

        Raises
        ------
        NoModelError
            No configuration finished.
        """
        trial, state = self._checkpoint(self.best.trial_id)
        return BestModel(opener, dict(trial.params), state)

    def _restored(self, trial: Trial, state: bytes) -> Session:
        adapted = open_adapted(
            self.trainer_fn,
            trial.params,
            initial_seed(self.spec.seed, trial.trial_id),
            inputs=input_specs(self.prepared),
            columns=column_names(self.prepared),
        )
        adapted.session.restore(state)
        # A session of the whole model, which has the weights that the other one has trained.
        return trainer_framework(adapted.trainer).open_training(adapted.trainer, "cpu")


def records_of(data: PreparedData) -> int:
    """Count labelled records: those to train on, and those held out."""
    return sum(shard.rows for shard in data.shards)
