"""State of a campaign between its cycles, and the preparation of a cycle."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cerebro_spark.adaptation._campaign_record import CampaignRecord, CycleRecord
from cerebro_spark.adaptation._candidates import Candidates
from cerebro_spark.adaptation._cycle import Cycle, count_records
from cerebro_spark.adaptation._cycle_run import CycleRun
from cerebro_spark.adaptation._extreme_labels import find_extremes
from cerebro_spark.adaptation._mlflow_settings import tracked_settings
from cerebro_spark.adaptation._planned_groups import PlannedGroups
from cerebro_spark.adaptation._planning import Planning
from cerebro_spark.adaptation._pool_ranking import PoolRanking
from cerebro_spark.adaptation._rates import Rates
from cerebro_spark.adaptation._searches import epochs_of, new_search
from cerebro_spark.adaptation._stored_layers import StoredLayers
from cerebro_spark.adaptation._warm_start import EarlierCycle, last_over
from cerebro_spark.adaptation._workload import Workload
from cerebro_spark.data import prepare_increment
from cerebro_spark.errors import FeatureSpaceError, RunError, StoreError
from cerebro_spark.hopper import Journal, Lease, check_label_samples, probe
from cerebro_spark.tune import check_objectives, grid
from optimizer.procedures import Start
from optimizer.sizes import size
from udfs.adaptation import Augmenter, FeatureStore, column_names, input_specs
from udfs.driver import interruptible
from udfs.hopper import AdaptationSettings
from udfs.node import memory_limit
from udfs.shards import FOLDER, GrowingData, load_prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.adaptation._cycle import CycleResult
    from cerebro_spark.adaptation._materialise import Materialised
    from cerebro_spark.adaptation._rates import CycleCosts
    from cerebro_spark.adaptation._settings import CampaignSettings
    from cerebro_spark.hopper import LabelSample, Probed
    from cerebro_spark.tune import Search

__all__ = ["Campaign"]


class Campaign:
    """Cycles of an :class:`Adaptation`, and what one cycle leaves for the next in this process.

    The user may change ``settings`` between two cycles. ``record`` has the cycles in the store, as they were last read
    or written, ``cycles`` those of this process, and ``ranking`` the pools as the last of them ranked them.
    """

    def __init__(self, settings: CampaignSettings) -> None:
        self._settings = settings
        self.record = CampaignRecord.load(settings.store, settings.name)
        self.cycles: tuple[CycleResult, ...] = ()
        self.ranking: PoolRanking | None = None
        self._data: GrowingData | None = None
        self._candidates: Candidates | None = None
        self._augmenter: Augmenter | None = None
        self._measured_rates: Rates | None = None

    @property
    def lease(self) -> Lease:
        """Lease of the campaign: two drivers at a time would give the next cycle the same name."""
        return Lease(self._settings.store, self._settings.name, folder=CampaignRecord.FOLDER)

    def begin_cycle(self, batch: DataFrame) -> Cycle:
        """Add a batch of labelled records and train on all of them, under the lease."""
        settings = self._settings
        before = self.load_data()
        name = f"{settings.name}-{len(self.record.cycles):04d}"
        # A cycle that was refused before it began has left other data under this name.
        settings.store.delete(FOLDER, name)
        spark = settings.backend.spark
        data = interruptible(spark, lambda: self._prepare(batch, name, before))
        find = partial(find_extremes, batch, settings.label_columns, settings.id_column, settings.weight_column)
        labels = interruptible(spark, find)
        search, layers = self._open(data)
        probed = self._probe(search, layers, labels)
        planning = self._planning(layers)
        records, written = count_records(data), self.record
        earlier = last_over(settings.store, written.cycles if settings.warm_start else ())
        cycle = CycleRecord(name, data.name, records, self._capacity(records), [], earlier.run)
        try:
            materialised = self._choose_layers(layers, planning, cycle)
        except BaseException:
            # The user of this process may give another batch. A process that is killed leaves the cycle to resume.
            with suppress(StoreError):
                self.record = written.write()
            raise
        self._data = data
        return self._train(search, layers, planning, materialised, probed)

    def resume_cycle(self) -> Cycle:
        """Resume the last cycle in the store, under the lease."""
        data, cycle = self.load_data(), self.record.last
        assert data is not None and cycle is not None  # noqa: PT018 - cycles do not go away
        search, layers = self._open(data)
        probed = self._probe(search, layers)
        planning = self._planning(layers)
        try:
            materialised = layers.compute(cycle.stored)
        except FeatureSpaceError:
            materialised = self._choose_layers(layers, planning, cycle)
        return self._train(search, layers, planning, materialised, probed)

    def explain(self, batch: DataFrame | None) -> str:
        """Describe the plan of the next cycle and the cycles so far; see :meth:`Adaptation.explain`."""
        settings = self._settings
        data = self.load_data()
        head = (
            f"adaptation {settings.name!r}: {len(self.record.cycles)} cycles so far, planned for "
            f"{self._capacity(0):,} records, {size(settings.disk_bytes)} of disk"
        )
        lines = [head, *(f"  {cycle.summary}" for cycle in self.record.cycles)]
        if data is not None:
            return "\n".join([*lines, self._explain_plan(data)])
        if batch is None:
            return "\n".join(
                [*lines, "the networks are opened with the first batch: explain(batch) describes the plan before it"]
            )
        sample = f"{settings.name}-sample"
        try:
            data = interruptible(settings.backend.spark, lambda: self._prepare(batch, sample, None))
            return "\n".join([*lines, self._explain_plan(data)])
        finally:
            settings.store.delete(FOLDER, sample)

    def load_data(self) -> GrowingData | None:
        """Read the record, and the data of the last cycle that began in this process or another one."""
        store = self._settings.store
        self.record = CampaignRecord.load(store, self._settings.name)
        last = self.record.last
        if last is not None and (self._data is None or self._data.name != last.data):
            data = load_prepared(store, last.data)
            if not isinstance(data, GrowingData):
                raise RunError(
                    f"data {last.data!r} in {store.uri} must be the data of an adaptation, got data of a search: "
                    "choose another name for the campaign"
                )
            self._data = data
        return self._data

    def _explain_plan(self, data: GrowingData) -> str:
        _, layers = self._open(data)
        plan = self._planning(layers).choose(layers.workload.candidates, self._capacity(count_records(data)))
        return "\n".join([plan.explain(), *layers.candidates.notes])

    def _probe(self, search: Search, layers: StoredLayers, labels: Sequence[LabelSample] = ()) -> Probed:
        """Try a configuration, the metrics that decide and labels on the driver, before anything is computed."""
        settings, data = self._settings, layers.data
        models = "start a campaign with another name and models"
        check = partial(check_label_samples, labels, data, models=models)
        epochs = search.plan().epochs_each
        listed = (layers.candidates.find(params) for params in search.strategy.list_configurations())
        workload = (candidate for candidate, _ in layers.workload.configurations)
        configurations = [candidate.params for candidate in (*listed, *workload) if candidate]
        probed = probe(
            settings.trainer_fn,
            configurations,
            data,
            settings.seed,
            settings.backend,
            check,
            epochs,
            settings.unit_timeout_s,
        )
        probed.objectives(settings.metric, settings.mode, validates=data.test_fraction > 0)
        return probed

    def _choose_layers(self, layers: StoredLayers, planning: Planning, cycle: CycleRecord) -> Materialised:
        """Choose the layers of a cycle, write them into its record, and compute them."""
        self.record, materialised = layers.choose(planning, self._rates(layers), self.record, cycle)
        return materialised

    def _prepare(self, batch: DataFrame, name: str, previous: GrowingData | None) -> GrowingData:
        settings = self._settings
        return prepare_increment(
            batch,
            settings.store,
            name=name,
            id_column=settings.id_column,
            feature_columns=settings.feature_columns,
            label_columns=settings.label_columns,
            weight_column=settings.weight_column,
            num_shards=settings.backend.most_workers,
            test_fraction=settings.test_fraction,
            seed=settings.seed,
            image_size=settings.image_size,
            errors=settings.errors,
            previous=previous,
        )

    def _capacity(self, records: int) -> int:
        """Count the records to plan for: ``max_records``, doubled until there is room for all."""
        last = self.record.last
        capacity = self._settings.max_records if last is None else max(last.capacity, self._settings.max_records)
        while capacity < records:
            capacity *= 2
        return capacity

    def _open(self, data: GrowingData) -> tuple[Search, StoredLayers]:
        """Create the search of a cycle, and open the configurations that it starts with."""
        settings = self._settings
        candidates = self._candidates
        if candidates is None or not candidates.suits(
            settings.trainer_fn, seed=settings.seed, layouts=settings.warm_start
        ):
            candidates = Candidates(settings.trainer_fn, data, seed=settings.seed, layouts=settings.warm_start)
            self._candidates = candidates
        candidates.begin_cycle(settings.unit_timeout_s)
        opened = candidates.open_all(grid(settings.search_space)) if settings.search is None else []
        search = new_search(settings, epochs_of(opened))
        procedure = search.procedure(**check_objectives(settings.metric, settings.mode))
        asked = procedure.ask(idle=settings.backend.num_workers)
        starts = [decision for decision in asked if isinstance(decision, Start)]
        opened = candidates.open_all([start.params for start in starts])
        pairs = zip(opened, starts, strict=True)
        workload = Workload(tuple((candidate, start.epochs) for candidate, start in pairs if candidate))
        features = FeatureStore(
            settings.store,
            settings.name,
            settings.storage_dtype,
            candidates.made_with,
            bytes_per_second=settings.bytes_per_second,
        )
        augmenter = self._check_augmentation(data)
        if augmenter is not None:
            # No epoch reads further copies.
            augmenter = augmenter.within(search.plan().epochs_each)
        layers = StoredLayers(
            settings.backend,
            data,
            candidates,
            workload,
            features,
            settings.disk_bytes,
            augmenter,
            rates_given=settings.costs is not None,
        )
        return search, layers

    def _check_augmentation(self, data: GrowingData) -> Augmenter | None:
        """Try the augmentation on a few records, unless this object has already done so."""
        augmentation, seed = self._settings.augmentation, self._settings.seed
        if augmentation is None:
            return None
        known = self._augmenter
        if known is None or (known.augmentation, known.seed) != (augmentation, seed):
            self._augmenter = known = Augmenter.checked(augmentation, data, seed)
        return known

    def _rates(self, layers: StoredLayers) -> Rates:
        """Return the rates to plan with: the user's, else those of the last cycle, else measured ones."""
        if self._settings.costs is not None:
            return Rates.of(self._settings.costs)
        known = [cycle.costs.next for cycle in self.record.cycles if cycle.costs is not None]
        if known:
            return known[-1]
        if self._measured_rates is None:
            self._measured_rates = layers.rates()
        return self._measured_rates

    def _planning(self, layers: StoredLayers) -> Planning:
        settings = self._settings
        return Planning(
            disk_bytes=settings.disk_bytes,
            memory_bytes=settings.memory_bytes or settings.backend.memory_bytes or memory_limit()[0] // 4,
            workspace_bytes=settings.workspace_bytes,
            workers=settings.backend.num_workers,
            costs=self._rates(layers).costs(layers.workload.epochs),
            materialise=settings.materialise,
            fuse=settings.fuse,
            joint=settings.joint,
            float_bytes=2 if settings.storage_dtype == "bfloat16" else 4,
            rows_of=None if layers.augmenter is None else partial(layers.augmenter.rows_of, data=layers.data),
        )

    def _train(
        self,
        search: Search,
        layers: StoredLayers,
        planning: Planning,
        materialised: Materialised,
        probed: Probed,
    ) -> Cycle:
        """Train the configurations of the record's last cycle, or go on where its run stopped."""
        settings, data, cycle = self._settings, layers.data, self.record.cycles[-1]
        # Warm starts are those of the cycle's record, whatever the setting is now.
        warm = EarlierCycle(settings.store, cycle.warm).find_states(layers.candidates.layouts)
        groups = PlannedGroups(layers.candidates, planning, records=cycle.capacity, stored=cycle.stored, warm=warm)
        adaptation = AdaptationSettings(
            features=layers.features,
            inputs=tuple(input_specs(data)),
            columns=tuple(column_names(data)),
            batch_size=layers.workload.batch_size,
            warm=warm,
            augmenter=layers.augmenter,
        )
        extended = search.extended(
            CycleRun(
                groups=groups,
                settings=adaptation,
                layers=layers,
                materialised=materialised,
                costs=cycle.costs,
                probed=probed,
                campaign=(settings.name, len(self.record.cycles) - 1),
                parameters=tracked_settings(settings),
                write_costs=partial(self._write_costs, cycle),
                earlier=tuple(line for line in self.cycles if line.run != cycle.run),
            )
        )
        journal = Journal(settings.store, cycle.run)
        if journal.begun:
            # The run's own number unless the user sets one: the number of workers may differ now.
            extended.replicas = settings.replicas or journal.spec().replicas
            result = extended.resume(cycle.run)
        else:
            result = extended.fit(data, run_id=cycle.run)
        assert isinstance(result, Cycle)
        self.cycles = result.cycles
        self.ranking = PoolRanking(result, layers, tuple(cycle.stored), settings.seed)
        return result

    def _write_costs(self, cycle: CycleRecord, costs: CycleCosts) -> None:
        """Write the measured costs of a cycle beside those that were predicted."""
        self.record = self.record.write_cycle(replace(cycle, costs=costs))
