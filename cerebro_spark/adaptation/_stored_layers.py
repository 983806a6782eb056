"""Stored layers of a cycle: their choice, their computation, and the costs of both."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from cerebro_spark.adaptation._materialise import Materialised, materialise
from cerebro_spark.adaptation._measure import measure_workers
from cerebro_spark.adaptation._rates import CycleCosts, Rates, Seconds, predicted_training, work_of
from cerebro_spark.adaptation._trunk_passes import frozen_flops_of, passes_of
from cerebro_spark.errors import FeatureSpaceError
from optimizer.adaptation import Costs
from optimizer.sizes import size
from udfs.adaptation import PoolFeatures, segments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cerebro_spark.adaptation._campaign_record import CampaignRecord, CycleRecord
    from cerebro_spark.adaptation._candidates import Candidates
    from cerebro_spark.adaptation._planned_groups import PlannedGroups
    from cerebro_spark.adaptation._planning import Planning
    from cerebro_spark.adaptation._workload import Workload
    from cerebro_spark.hopper import RunResult, SparkBackend
    from optimizer.adaptation import AdaptationPlan
    from udfs.adaptation import Augmenter, FeatureStore, Segment
    from udfs.shards import GrowingData

__all__ = ["StoredLayers"]

_LOG = logging.getLogger(__name__)

# Plans for smaller disks are never better, so skip them.
_LEAST_DISK = 1 << 20

# Rates do not matter if nothing is frozen.
_ANY_COSTS = Costs(flops_per_second=1e10, bytes_per_second=1e9)

# Seconds to measure for each layer.
_MEASURED_S = 0.3


@dataclass(frozen=True, slots=True)
class StoredLayers:
    """Outputs of frozen layers for the data of a cycle.

    ``augmenter`` makes the copies to store in place of training records; with ``rates_given`` the user sets the rates.
    """

    backend: SparkBackend
    data: GrowingData
    candidates: Candidates
    workload: Workload
    features: FeatureStore
    disk_bytes: int
    augmenter: Augmenter | None = None
    rates_given: bool = False

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments of rows whose layers are stored."""
        return segments_of(self.data) if self.augmenter is None else self.augmenter.segments(self.data)

    def rates(self) -> Rates:
        """Measure the rates of the workers; return arbitrary rates if nothing is frozen."""
        deepest = self.workload.deepest
        if deepest is None:
            return Rates.of(_ANY_COSTS)
        params, stops = deepest
        rates = measure_workers(
            self.backend,
            self.data,
            self.features,
            params,
            self.candidates.opener,
            stops,
            batch_size=self.workload.batch_size,
            seconds=_MEASURED_S,
        )
        flops = rates.trunk.flops_per_second
        # The first cycle measures trained layers.
        return Rates(frozen=flops, learning=flops, cold=rates.reader.cold, warm=rates.reader.warm)

    def choose(
        self,
        planning: Planning,
        rates: Rates,
        campaign: CampaignRecord,
        cycle: CycleRecord,
    ) -> tuple[CampaignRecord, Materialised]:
        """Choose layers for a cycle and compute them; with less disk where they do not fit.

        The campaign's record gets the choice, and the costs that it predicts, before anything is computed.
        """
        disk = self.disk_bytes
        while True:
            plan = planning.within(disk).choose(self.workload.candidates, cycle.capacity)
            stored = tuple(plan.trunk.expression(name) for name in plan.materialised)
            costs = CycleCosts(rates, self._predicted(plan, rates), given=self.rates_given)
            campaign = campaign.write_cycle(replace(cycle, stored=list(stored), costs=costs))
            try:
                return campaign, self.compute(stored)
            except FeatureSpaceError as error:
                # Halve what was planned: what was allowed may be far more than the disk has.
                half = min(disk, plan.materialised_bytes) // 2
                disk = half if half >= _LEAST_DISK else 0
                _LOG.warning("%s; planning with %s", error, size(disk))

    def _predicted(self, plan: AdaptationPlan, rates: Rates) -> Seconds:
        """Predict the seconds of a cycle."""
        materialising = self._missing_flops(plan) / rates.frozen / self.backend.num_workers
        return Seconds(materialising, predicted_training(plan, rates, self.data.rows("train")))

    def measure_costs(
        self, costs: CycleCosts, run: RunResult, materialised: Materialised, groups: PlannedGroups
    ) -> CycleCosts:
        """Return the costs of a cycle with those that its run measured."""
        trials = {trial.trial_id: trial for trial in run.trials}
        rows = {shard.partition: shard.rows for shard in self.data.shards if shard.split == "train"}
        work = work_of(
            run.outcome.events,
            materialised,
            self.backend.num_workers,
            rows=rows.__getitem__,
            learning_flops=lambda trial_id, epoch: (
                candidate.learning_flops(epoch) if (candidate := self.candidates.find(trials[trial_id].params)) else 0
            ),
            frozen_flops=lambda members, epoch: groups.frozen_flops([trials[trial_id] for trial_id in members], epoch),
            copies=1 if self.augmenter is None else self.augmenter.copies,
        )
        return costs.over(costs.rates.refitted(work), work.measured)

    def count_passes(self, run: RunResult, materialised: Materialised, groups: PlannedGroups) -> float:
        """Count the records that passed frozen layers, to be stored and while the run trained."""
        trials = {trial.trial_id: trial for trial in run.trials}
        events = run.outcome.events
        opened = [self.candidates.find(trials[trial_id].params) for trial_id in {event.trial_id for event in events}]
        rows = {(shard.split, shard.partition): shard.rows for shard in self.data.shards}
        return materialised.trunk_rows + passes_of(
            events,
            rows=lambda split, partition: rows.get((split, partition), 0),
            frozen_flops=lambda members, epoch: groups.frozen_flops([trials[trial_id] for trial_id in members], epoch),
            whole_flops=frozen_flops_of(graph for each in opened if each for graph in each.graphs),
        )

    def _missing_flops(self, plan: AdaptationPlan) -> int:
        """Count the FLOPs that compute the missing layers of a plan from the stored ones."""
        graph = plan.trunk
        segments = self.segments
        kept = set(self.features.expressions())
        missing = {
            name: set(self.features.missing(key, segments)) if key in kept else set(segments)
            for name in graph.names
            if (key := graph.expression(name)) and name not in graph.inputs
        }
        flops = 0
        for segment in segments:
            have = [name for name in graph.names if segment not in missing.get(name, ())]
            want = [name for name in plan.materialised if segment in missing[name]]
            flops += graph.part(have=have, want=want).flops * segment.rows if want else 0
        return flops

    def compute(self, stored: Sequence[str]) -> Materialised:
        """Compute the missing outputs of some layers from the nearest stored ones; then delete other layers.

        Layers of pools are used where they save work, and deleted if the layers need their space.

        Raises
        ------
        FeatureSpaceError
            The layers do not fit.
        """
        # The campaign's last job is over or lost, so no task writes.
        self.features.sweep()
        run = partial(
            materialise,
            self.backend,
            self.data,
            self.features,
            self.workload.params_with(stored),
            self.candidates.opener,
            batch_size=self.workload.batch_size,
            disk_bytes=self.disk_bytes,
            augmenter=self.augmenter,
        )
        pool = PoolFeatures(self.features)
        # Free the space of other layers first, then that of pools.
        ways: list[Callable[[], None]] = [partial(self.features.retain, stored, self.segments)]
        for make_room in ways if pool.is_empty else [*ways, pool.drop]:
            try:
                done = run()
                break
            except FeatureSpaceError:
                make_room()
        else:
            done = run()
        self.features.retain(stored, self.segments)
        pool.prune()
        return done

    def room(self) -> int:
        """Return the bytes that remain for layers of pools."""
        return max(0, self.disk_bytes - self.features.used_bytes())
