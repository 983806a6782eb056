"""``Adaptation``: dozens of ways to adapt a pre-trained network, while the labels still come in."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._arguments import check_arguments
from cerebro_spark.adaptation._candidates import Candidates
from cerebro_spark.adaptation._cycle import Cycle, CycleResult, records_of
from cerebro_spark.adaptation._cycle_run import CycleRun
from cerebro_spark.adaptation._grouping import PlannedGroups
from cerebro_spark.adaptation._labels import check_labels, extremes
from cerebro_spark.adaptation._layers import StoredLayers
from cerebro_spark.adaptation._pictures import cycles_figure
from cerebro_spark.adaptation._planning import Planning
from cerebro_spark.adaptation._ranking import Labelling, by_lot, check_how
from cerebro_spark.adaptation._rates import Rates
from cerebro_spark.adaptation._record import CampaignRecord, CycleRecord
from cerebro_spark.adaptation._searches import check_search, epochs_of, new_search
from cerebro_spark.adaptation._tracked import tracked_settings
from cerebro_spark.adaptation._warm import EarlierCycle, last_over
from cerebro_spark.adaptation._workload import Workload
from cerebro_spark.data import prepare_increment
from cerebro_spark.errors import FeatureSpaceError, NoModelError, RunError, StoreError
from cerebro_spark.hopper import Journal, Lease, probe
from cerebro_spark.tune import check_objectives, grid
from optimizer.procedures import Start
from optimizer.sizes import size
from udfs.adaptation import Augmenter, FeatureStore, column_names, input_specs
from udfs.driver import hint_keywords, interruptible
from udfs.hopper import AdaptationSettings
from udfs.names import check_name
from udfs.node import memory_limit
from udfs.shards import FOLDER, GrowingData, load_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from cerebro_spark.adaptation._labels import Extreme
    from cerebro_spark.adaptation._materialise import Materialised
    from cerebro_spark.adaptation._rates import CycleCosts
    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper import Probed, SparkBackend
    from cerebro_spark.tune import Search
    from optimizer.adaptation import Costs
    from optimizer.space import Space
    from udfs.adaptation import Augmentation
    from udfs.handlers import ModelTrainer
    from udfs.store import Store

__all__ = ["Adaptation"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class Adaptation:
    """Adapt a pre-trained network in many ways, again after each batch of labels (Nautilus, SIGMOD 2022).

    The layers that training never changes give a record the same output in every epoch, for every candidate and in
    every cycle. Here a record passes them once: their outputs are kept on disk, or computed once for all candidates
    that train together. Which, a plan decides. What learns trains on models that hop, as in :class:`GridSearch`.

    Parameters
    ----------
    backend : SparkBackend
    store : Store
        Place of the data, the stored layers and the checkpoints.
    trainer_fn : callable
        Takes a configuration's params (a dict), returns a :class:`ModelTrainer` whose model is partly frozen
        (``requires_grad``, ``trainable``). It runs on the driver, once or twice for each configuration, and on the
        workers.
    search_space : mapping, sequence of mapping, or Space
        As for :class:`GridSearch`, or for the ``search``.
    search : callable, optional
        Makes the search of each cycle, as ``partial(Hyperband, max_epochs=9)``. By default every configuration trains
        for the ``epochs`` of its :class:`ModelTrainer`.
    id_column : str
        Identifies a record. A record keeps its place for ever: its shard, and whether it is for training or validation.
    feature_columns, label_columns, weight_column, image_size
        As for :func:`prepare`.
    test_fraction : float
        Share of the records that is held out for validation. Default 0.25.
    name : str, optional
        Of the campaign in the store, for :meth:`resume`; a new one by default.
    max_records : int
        Records to plan for; it doubles as often as there are more. Default 5000.
    disk_bytes : int
        For stored layers; 0 stores none. Default 25 GiB. What the labelled records leave of it is for the records of
        pools that :meth:`score` has ranked.
    memory_bytes : int, optional
        Of a worker, for what trains together; ``backend.memory_bytes`` by default, or a quarter of this machine's.
    workspace_bytes : int
        What Python and the framework take of it. Default 640 MiB, for torch.
    materialise, fuse, joint : bool
        Switches of the planner: store layers, train candidates together, choose both at once. Default all.
    storage_dtype : {"float32", "bfloat16"}
        Of stored layers. bfloat16 takes half the disk, and :attr:`Cycle.materialised` has its error.
    warm_start : bool
        Begin a cycle with the weights that a configuration had at the end of the last cycle, and not with its initial
        ones. As in scikit-learn it is what was learned that is kept: weights and the buffers that move, such as the
        statistics of batch norm. Frozen weights, the optimizer's moments, schedules and random numbers are those of any
        cycle. A configuration is the same if its params are, so with a search that draws others in each cycle few find
        weights to begin with; :attr:`Cycle.notes` counts them. Those that are new, failed in the last cycle, or have
        another model or other frozen weights now, begin anew; a clone has the state of its source. Default ``False``.
    augmentation : Augmentation, optional
        Copies of each training record, changed at random by the seed, its id and the number of the copy. They pass the
        frozen layers once and are stored in place of the record, so that layers take that many times the disk; epoch
        ``e`` trains on copy ``e % copies``. Default ``None``.
    costs : Costs, optional
        Rates of a worker, for all cycles. By default they are measured before the first one, and refitted after each;
        a plan that was 25 % off is made again with those. The campaign's record has them.
    bytes_per_second : float, optional
        Rate that the reader of stored layers is held to, to see the planner decide. Default none.
    checkpoints : {"visits", "epochs", "end"}, optional
        When what a configuration has learned goes to the store, as for :class:`GridSearch`. By default at the end of
        its epochs, as in current practice, so that little is written; with a ``search``, at the end of each epoch.
    replicas : int, optional
        Workers that read each shard. By default all of them where Spark is local, since they share a disk: then what
        trains together stays where it is, and nobody waits for the worker of a larger shard. Else 1, as a node would
        read every shard's layers from the store.
    metric, mode, errors, callbacks, experiment, tensorboard, progress, unit_timeout_s, schedule, rounds
        As for :class:`GridSearch`; MLflow gets a run for each cycle, within one of the campaign's name.
    seed : int
        Decides splits, shuffles and the initial weights of what learns.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or there is no such parameter.
    """

    backend: SparkBackend
    store: Store
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer]
    search_space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Space
    id_column: str
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]]
    label_columns: Sequence[str]
    search: Callable[..., Search] | None = None
    weight_column: str | None = None
    image_size: int | None = None
    test_fraction: float = 0.25
    name: str = field(default_factory=lambda: f"adaptation-{uuid.uuid4().hex[:12]}")
    max_records: int = 5000
    disk_bytes: int = 25 << 30
    memory_bytes: int | None = None
    workspace_bytes: int = 640 << 20
    materialise: bool = True
    fuse: bool = True
    joint: bool = True
    storage_dtype: str = "float32"
    warm_start: bool = False
    augmentation: Augmentation | None = None
    costs: Costs | None = None
    bytes_per_second: float | None = None
    checkpoints: str | None = None
    replicas: int | None = None
    metric: str | Sequence[str] = "loss"
    mode: str | Sequence[str] | None = None
    errors: str = "drop"
    callbacks: Sequence[Callback] = ()
    experiment: str | None = None
    tensorboard: str | None = None
    progress: bool = True
    unit_timeout_s: float | None = None
    schedule: str = "least-far-along"
    rounds: str = "rolling"
    seed: int = 0

    def __post_init__(self) -> None:
        self._check()
        self._record = CampaignRecord.load(self.store, self.name)
        self._data: GrowingData | None = None
        self._opened: Candidates | None = None
        self._augmenter: Augmenter | None = None
        self._measured: Rates | None = None
        self._cycles: tuple[CycleResult, ...] = ()
        self._labelling: Labelling | None = None

    def _check(self) -> None:
        check_name(self.name, "an adaptation")
        check_arguments(vars(self))
        check_search(self.search)
        # It says what is wrong with the name, storage_dtype and bytes_per_second.
        FeatureStore(self.store, self.name, self.storage_dtype, bytes_per_second=self.bytes_per_second)
        # A search says what is wrong with its settings as it is made: now, not after the first batch is written.
        new_search(vars(self), [1] * len(grid(self.search_space)) if self.search is None else ())

    @property
    def cycles(self) -> tuple[CycleResult, ...]:
        """The cycles of this object, in their order."""
        return self._cycles

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Runs of all cycles in the store, also of those that began and did not end."""
        return tuple(cycle.run for cycle in self._record.cycles)

    def fit(self, batch: DataFrame) -> Cycle:
        """Add a batch of labelled records, and train on all of them.

        Parameters
        ----------
        batch : DataFrame
            New records. A record that was there before, by its id, has its labels corrected; what is stored of it is
            kept if its features are the same, and made anew if they are not.

        Returns
        -------
        Cycle
            A :class:`Selection` over all labels.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            As for :func:`prepare`; also where columns, shapes or types are unlike the first batch's, or a label is a
            class that the models have no output for. A class that they have an output for may come in any batch.
        AugmentationError
            The augmentation raises, gives other columns, shapes or types, or draws from other random numbers than its
            own: it is tried on a few records before anything is computed. The message names the record.
        InvalidArgumentError
            The trunk's weights are drawn at random, or a setting is not allowed.
        InfeasiblePlanError
            A candidate alone does not fit into ``memory_bytes``.
        TrainerError
            A configuration cannot be opened, nothing of it learns, or it does not run on the records.
        RunError
            The run stopped; :meth:`resume` goes on. Or another fit of the campaign goes on, in any process.
        """
        self._check()
        self.backend.admit()
        with self._lease:
            before = self._load_data()
            name = f"{self.name}-{len(self._record.cycles):04d}"
            # Of a cycle that was refused before it began: this batch may be another one.
            self.store.delete(FOLDER, name)
            data = interruptible(self.backend.spark, lambda: self._prepare(batch, name, before))
            ends = partial(extremes, batch, self.label_columns, self.id_column, self.weight_column)
            return self._begin(data, name, interruptible(self.backend.spark, ends))

    def resume(self) -> Cycle:
        """Go on with the last cycle, in this process or another one: with the same settings and the same name.

        Returns
        -------
        Cycle
            Its result, whether it had stopped or was over.

        Raises
        ------
        RunError
            There is no cycle of that name, or its run cannot go on. Or a fit of the campaign goes on, in any process.
        """
        self._check()
        if self._load_data() is None:
            raise RunError(f"{self.store.uri} has no cycle of an adaptation {self.name!r}: begin one with fit(batch)")
        self.backend.admit()
        with self._lease:
            data, last = self._load_data(), self._record.last
            assert data is not None and last is not None  # noqa: PT018 - cycles do not go away
            search, layers = self._searching(data)
            probed = self._probed(search, data)
            planning = self._planning(layers)
            try:
                done = layers.compute(last.stored)
            except FeatureSpaceError:
                last, done = self._choose(layers, planning, last)
            return self._run(search, layers, planning, last, done, probed)

    def score(self, pool: DataFrame, how: str = "least_confidence", *, limit: int | None = None) -> DataFrame:
        """Rank records without labels by how much their labels would teach the best model of the last cycle.

        Parameters
        ----------
        pool : DataFrame
            With the feature columns and the ids. Records that are labelled already are left out. Uncertainty does
            without ids, and then ranks whatever there is.
        how : {"least_confidence", "margin", "entropy", "diversity", "random"}
            How uncertain the model is about a record, as :meth:`TunedModel.uncertainty`; how far it is from all
            labelled records and from those ranked before it; or by lot, which follows from the seed and the id.
        limit : int, optional
            How many records are asked for: no more come back. Default ``None``: all of them, and 100 by diversity.

        Returns
        -------
        DataFrame
            With a column ``score``, the most useful records first: take as many as can be labelled. Those that cannot
            be read have none, and come last; by diversity they do not come.

        Raises
        ------
        NoModelError
            There was no cycle in this process, or none of its configurations finished.
        InvalidArgumentError
            No such way, a limit below 1, or the label is a value and not a class, of which uncertainty is.
        ColumnError
            A column is missing, or ``score`` is there already.
        BusyError
            A run holds the task slots that ranking by diversity needs.

        Notes
        -----
        Diversity is greedy k-centre (Sener and Savarese, ICLR 2018, algorithm 1) on the outputs of the frozen layers
        that the best model reads; on its own outputs where it trains whole. Of a record that has an ``attention_mask``
        the tokens' mean is taken, without padding; more than 128 numbers are projected to 128, at random by the seed.
        Each shard of the pool is reduced on the executors to `limit` records that cover it (a composable core-set:
        Indyk et al., PODS 2014), and these are ranked on the driver, which so holds at most `limit` vectors of each
        shard, and 4,096 of labelled records. The ranking covers the pool within twice the best radius where no shard
        has more than `limit` records, then it is that of the whole pool at once; within four times where none has more
        than 8,192, and six times otherwise. It follows from the seed and the records, not from their order.
        """
        check_how(how, limit)
        if how == "random":
            return by_lot(pool, limit, data=self._load_data(), id_column=self.id_column, seed=self.seed)
        if self._labelling is None:
            raise NoModelError("there is no model to score with: call fit(batch) or resume() first")
        return self._labelling.ranked(pool, how, limit)

    def explain(self, batch: DataFrame | None = None) -> str:
        """Describe the campaign: what is planned for the next batch, and what was done so far.

        Parameters
        ----------
        batch : DataFrame, optional
            A first batch, whose columns say what the networks read. It is written to the store, and deleted in the end.
            Not needed once there was a cycle.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError
            As for :meth:`fit`.
        """
        self._check()
        data = self._load_data()
        head = (
            f"adaptation {self.name!r}: {len(self._record.cycles)} cycles so far, planned for {self._capacity(0):,} "
            f"records, {size(self.disk_bytes)} of disk"
        )
        lines = [head, *(f"  {cycle.told}" for cycle in self._record.cycles)]
        if data is not None:
            return "\n".join([*lines, self._planned(data)])
        if batch is None:
            return "\n".join(
                [*lines, "the networks are opened with the first batch: explain(batch) tells the plan before"]
            )
        sample = f"{self.name}-sample"
        try:
            data = interruptible(self.backend.spark, lambda: self._prepare(batch, sample, None))
            return "\n".join([*lines, self._planned(data)])
        finally:
            self.store.delete(FOLDER, sample)

    def plot(self) -> Figure:
        """Draw the cycles of this object: records through the frozen layers, and the best model, by labels.

        Raises
        ------
        NoModelError
            There was no cycle in this process.
        """
        if not self._cycles:
            raise NoModelError("there is no cycle to draw: call fit(batch) or resume() first")
        return cycles_figure(self._cycles, check_objectives(self.metric, self.mode)["metric"][0])

    @property
    def _lease(self) -> Lease:
        """One driver at a time: two would give the next cycle the same name."""
        return Lease(self.store, self.name, folder=CampaignRecord.FOLDER)

    def _planned(self, data: GrowingData) -> str:
        """Describe the plan of the next cycle."""
        _, layers = self._searching(data)
        plan = self._planning(layers).choose(layers.workload.candidates, self._capacity(records_of(data)))
        return "\n".join([plan.explain(), *layers.candidates.notes])

    def _begin(self, data: GrowingData, run: str, labels: Sequence[Extreme]) -> Cycle:
        search, layers = self._searching(data)
        probed = self._probed(search, data, labels)
        planning = self._planning(layers)
        before, records = self._record, records_of(data)
        earlier = last_over(self.store, before.cycles if self.warm_start else ())
        cycle = CycleRecord(run, data.name, records, self._capacity(records), [], earlier.run)
        try:
            cycle, done = self._choose(layers, planning, cycle)
        except BaseException:
            # This process knows of it: its user may give another batch. One that is killed leaves the cycle to resume.
            with suppress(StoreError):
                self._record = before.written()
            raise
        self._data = data
        return self._run(search, layers, planning, cycle, done, probed)

    def _probed(self, search: Search, data: GrowingData, labels: Sequence[Extreme] = ()) -> Probed:
        """Try a configuration, the metrics that decide and labels on the driver, before anything is computed."""
        opened = partial(check_labels, labels, data)
        epochs = search.plan().epochs_each
        probed = probe(self.trainer_fn, search.sample(), data, self.seed, self.backend, opened, epochs)
        probed.objectives(self.metric, self.mode, validates=data.test_fraction > 0)
        return probed

    def _choose(self, layers: StoredLayers, planning: Planning, cycle: CycleRecord) -> tuple[CycleRecord, Materialised]:
        """Choose the layers of a cycle, write down which, and compute them."""

        def begin(costs: CycleCosts, stored: Sequence[str]) -> None:
            nonlocal cycle
            cycle = replace(cycle, stored=list(stored), costs=replace(costs, given=bool(self.costs)))
            self._record = self._record.noted(cycle)

        done = layers.choose(planning, cycle.capacity, self._rates(layers), begin)
        return cycle, done

    def _prepare(self, batch: DataFrame, name: str, previous: GrowingData | None) -> GrowingData:
        return prepare_increment(
            batch,
            self.store,
            name=name,
            id_column=self.id_column,
            feature_columns=self.feature_columns,
            label_columns=self.label_columns,
            weight_column=self.weight_column,
            num_shards=self.backend.most_workers,
            test_fraction=self.test_fraction,
            seed=self.seed,
            image_size=self.image_size,
            errors=self.errors,
            previous=previous,
        )

    def _load_data(self) -> GrowingData | None:
        """Read the data of the last cycle that began, in this process or another one."""
        self._record = CampaignRecord.load(self.store, self.name)
        last = self._record.last
        if last is not None and (self._data is None or self._data.name != last.data):
            data = load_prepared(self.store, last.data)
            if not isinstance(data, GrowingData):
                raise RunError(f"{last.data!r} in {self.store.uri} is no data of an adaptation")
            self._data = data
        return self._data

    def _capacity(self, records: int) -> int:
        """Count the records to plan for: as many as there are, or a doubled ``max_records``."""
        last = self._record.last
        capacity = self.max_records if last is None else max(last.capacity, self.max_records)
        while capacity < records:
            capacity *= 2
        return capacity

    def _searching(self, data: GrowingData) -> tuple[Search, StoredLayers]:
        """Make the search of a cycle, and open what it starts with."""
        candidates = self._opened
        if candidates is None or not candidates.suits(self.trainer_fn, seed=self.seed, layouts=self.warm_start):
            candidates = Candidates(self.trainer_fn, data, seed=self.seed, layouts=self.warm_start)
            self._opened = candidates
        opened = [candidates.open(params) for params in grid(self.search_space)] if self.search is None else []
        search = new_search(vars(self), [epochs_of(one) for one in opened])
        procedure = search.procedure(**check_objectives(self.metric, self.mode))
        starts = [each for each in procedure.ask(idle=self.backend.num_workers) if isinstance(each, Start)]
        workload = Workload(tuple((candidates.open(each.params), each.epochs) for each in starts))
        features = FeatureStore(
            self.store, self.name, self.storage_dtype, candidates.made_with, bytes_per_second=self.bytes_per_second
        )
        augmenter = self._checked_augmenter(data)
        if augmenter is not None:
            # Nobody reads further copies.
            augmenter = augmenter.within(search.plan().epochs_each)
        return search, StoredLayers(self.backend, data, candidates, workload, features, self.disk_bytes, augmenter)

    def _checked_augmenter(self, data: GrowingData) -> Augmenter | None:
        if self.augmentation is None:
            return None
        known = self._augmenter
        if known is None or (known.augmentation, known.seed) != (self.augmentation, self.seed):
            self._augmenter = known = Augmenter.checked(self.augmentation, data, self.seed)
        return known

    def _rates(self, layers: StoredLayers) -> Rates:
        """Give the rates to plan with: the user's, or those that the campaign has found so far."""
        if self.costs is not None:
            return Rates.of(self.costs)
        known = [cycle.costs.next for cycle in self._record.cycles if cycle.costs is not None]
        if known:
            return known[-1]
        if self._measured is None:
            self._measured = layers.rates()
        return self._measured

    def _planning(self, layers: StoredLayers) -> Planning:
        return Planning(
            disk_bytes=self.disk_bytes,
            memory_bytes=self.memory_bytes or self.backend.memory_bytes or memory_limit()[0] // 4,
            workspace_bytes=self.workspace_bytes,
            workers=self.backend.num_workers,
            costs=self._rates(layers).costs(layers.workload.epochs),
            materialise=self.materialise,
            fuse=self.fuse,
            joint=self.joint,
            float_bytes=2 if self.storage_dtype == "bfloat16" else 4,
            rows_of=None if layers.augmenter is None else partial(layers.augmenter.rows_of, data=layers.data),
        )

    def _run(
        self,
        search: Search,
        layers: StoredLayers,
        planning: Planning,
        cycle: CycleRecord,
        done: Materialised,
        probed: Probed,
    ) -> Cycle:
        candidates, data = layers.candidates, layers.data
        # As the cycle began, whatever warm_start says now.
        warm = EarlierCycle(self.store, cycle.warm).starts(candidates.layouts)
        groups = PlannedGroups(candidates, planning, records=cycle.capacity, stored=cycle.stored, warm=warm)
        settings = AdaptationSettings(
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
                settings=settings,
                layers=layers,
                materialised=done,
                costs=cycle.costs,
                probed=probed,
                campaign=(self.name, len(self._record.cycles) - 1),
                parameters=tracked_settings(vars(self)),
                write_costs=lambda costs: self._write_costs(cycle, costs),
                earlier=tuple(line for line in self._cycles if line.run != cycle.run),
            )
        )
        journal = Journal(self.store, cycle.run)
        if journal.begun:
            # As it began, unless the user changes it: there may be other workers now.
            extended.replicas = self.replicas or journal.spec().replicas
            result = extended.resume(cycle.run)
        else:
            result = extended.fit(data, run_id=cycle.run)
        assert isinstance(result, Cycle)  # the extension makes cycles
        self._cycles = result.cycles
        self._labelling = Labelling(result, layers, tuple(cycle.stored), self.seed)
        return result

    def _write_costs(self, cycle: CycleRecord, costs: CycleCosts) -> None:
        """Write the measured costs of a cycle beside those that were predicted."""
        self._record = self._record.noted(replace(cycle, costs=costs))
