"""Result of one cycle of a campaign."""

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

__all__ = ["Cycle", "CycleResult", "count_records"]


@dataclass(frozen=True, slots=True)
class CycleResult:
    """Summary of a cycle in a campaign.

    Parameters
    ----------
    run : str
        Id of the run.
    records : int
        Number of labelled records.
    best : str
        Id of the best configuration; ``""`` if none finished.
    score : float
        Metric of the best configuration; NaN if none finished.
    seconds, materialising_seconds : float
        Seconds of training, and of computing the layers of new records before.
    trunk_rows : int
        Number of records that passed the frozen layers to be stored in this cycle.
    passes : float
        Number of these records and of those that passed frozen layers during training and evaluation. A pass counts
        once for all configurations of a group, and in part if only some layers run. NaN if the run was over before.
    passes_alone : int
        Number of records that would have passed the frozen layers if each configuration had trained alone.
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
        """Cycles of the campaign in this process, in order; the last is this cycle."""
        return (*self.earlier, self.line)

    @property
    def remade(self) -> int:
        """Number of damaged or missing files of stored layers that were computed again."""
        return self.materialised.remade + round(sum(event.remade for event in self.outcome.events))

    @property
    def line(self) -> CycleResult:
        """Summary of this cycle."""
        try:
            best, score = self.best.trial_id, self.best.metric
        except NoModelError:
            # A cycle without a finished trial is a result too; its trials have the reasons.
            best, score = "", math.nan
        records = count_records(self.prepared)
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
        """Numbers of the cycle by name, for MLflow."""
        done = self.materialised
        planned = {} if self.plan is None else {"planned_bytes": self.plan.materialised_bytes}
        return {
            **super().facts,
            **planned,
            "records": count_records(self.prepared),
            "trunk_rows": done.trunk_rows,
            "materialised_bytes": done.bytes,
            "materialising_seconds": done.seconds,
            "remade_files": self.remade,
        }

    def explain(self) -> str:
        """Describe the plan, with predicted and measured costs."""
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
            f"a replay must repeat a run of a search, got cycle {self.run_id!r} of an adaptation: fit a new "
            "adaptation to "
            'its batches with the same seed and schedule="fixed", which trains the same models'
        )

    def best_for_workers(self, opener: Callable[..., Adapted]) -> BestModel:
        """Return the best configuration, for workers to open above its frozen layers.

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
        # Open the whole model, with the trained weights of the restored session.
        return trainer_framework(adapted.trainer).open_training(adapted.trainer, "cpu")


def count_records(data: PreparedData) -> int:
    """Count labelled records, for training and validation."""
    return sum(shard.rows for shard in data.shards)
