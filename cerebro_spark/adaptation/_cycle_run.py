"""Run of a cycle: a search whose trials train together on the outputs of frozen layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._cycle import Cycle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.adaptation._cycle import CycleResult
    from cerebro_spark.adaptation._materialise import Materialised
    from cerebro_spark.adaptation._planned_groups import PlannedGroups
    from cerebro_spark.adaptation._rates import CycleCosts
    from cerebro_spark.adaptation._stored_layers import StoredLayers
    from cerebro_spark.hopper import Probed, RunContext, RunResult
    from udfs.hopper import AdaptationSettings

__all__ = ["CycleRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRun:
    """Extension of a cycle's search; see :class:`cerebro_spark.tune.RunExtension`.

    ``materialised`` are the layers that were computed before the run. ``costs`` are predicted, and measured too if the
    cycle was over before. ``campaign`` is the campaign's name with the number of the cycle; MLflow logs ``parameters``.
    ``write_costs`` writes measured costs to the campaign's record. ``earlier`` are the cycles of this process.
    """

    groups: PlannedGroups
    settings: AdaptationSettings
    layers: StoredLayers
    materialised: Materialised
    costs: CycleCosts | None
    probed: Probed
    campaign: tuple[str, int]
    parameters: Mapping[str, Any]
    write_costs: Callable[[CycleCosts], None]
    earlier: tuple[CycleResult, ...]

    def extend(self, context: RunContext) -> RunContext:
        """See :meth:`cerebro_spark.tune.RunExtension.extend`."""
        return replace(context, grouping=self.groups, adaptation=self.settings)

    def result(self, run: RunResult, trainer_fn: Callable[[dict[str, Any]], Any]) -> Cycle:
        """See :meth:`cerebro_spark.tune.RunExtension.result`."""
        costs = self.costs
        if costs is not None and costs.measured is None:
            costs = self.layers.measure_costs(costs, run, self.materialised, self.groups)
            self.write_costs(costs)
        plan = self.groups.plan
        return Cycle(
            run,
            trainer_fn,
            materialised=self.materialised,
            plan=plan,
            costs=costs,
            notes=(*self.layers.candidates.notes, *self._warm_notes(run)),
            passes=math.nan if plan is None else self.layers.count_passes(run, self.materialised, self.groups),
            earlier=self.earlier,
        )

    def _warm_notes(self, run: RunResult) -> tuple[str, ...]:
        """Describe how many configurations began with the weights of an earlier cycle."""
        warm = self.settings.warm
        if not warm.run:
            return ()
        count = sum(trial.source is None and warm.of(trial.params) is not None for trial in run.trials)
        what = "began with the weights that they had at the end of run"
        return (f"note: {count} of {len(run.trials)} configurations {what} {warm.run}; the others began anew",)
