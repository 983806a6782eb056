"""``Adaptation``: model selection over frozen pre-trained networks, repeated for each batch of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.adaptation._campaign import Campaign
from cerebro_spark.adaptation._figures import cycles_figure
from cerebro_spark.adaptation._pool_ranking import check_how, rank_at_random
from cerebro_spark.adaptation._searches import check_search, new_search
from cerebro_spark.adaptation._setting_checks import check_arguments
from cerebro_spark.adaptation._settings import CampaignSettings
from cerebro_spark.errors import NoModelError, RunError
from cerebro_spark.tune import check_objectives, grid
from udfs.adaptation import FeatureStore
from udfs.driver import check_tracking, validate_arguments
from udfs.names import check_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from cerebro_spark.adaptation._cycle import Cycle, CycleResult

__all__ = ["Adaptation"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class Adaptation(CampaignSettings):
    """Model selection over ways to adapt a pre-trained network, repeated for each batch of labels (Nautilus, 2022).

    Layers that training does not change have the same output for a record in every epoch, candidate and cycle. A record
    passes them once: a plan decides whether their outputs are kept on disk, or computed once for all candidates that
    train together. The other layers train on models that hop, as in :class:`GridSearch`.

    Parameters
    ----------
    backend : SparkBackend
        Workers that compute and train.
    store : Store
        Storage of the data, the stored layers and the checkpoints.
    trainer_fn : callable
        Function of a configuration's params (a dict) that returns a :class:`ModelTrainer` whose model is partly frozen
        (``requires_grad``, ``trainable``). It runs on the driver, once or twice for each configuration, and on the
        workers.
    search_space : mapping, sequence of mapping, or Space
        Configurations, as for :class:`GridSearch` or for the ``search``.
    search : callable, optional
        Function that creates the search of each cycle, such as ``partial(Hyperband, max_epochs=9)``. By default every
        configuration trains for the ``epochs`` of its :class:`ModelTrainer`.
    id_column : str
        Column that identifies a record. The id determines the shard of a record, and whether it is for training or
        validation.
    feature_columns, label_columns, weight_column, image_size
        Columns and image size, as for :func:`prepare`.
    test_fraction : float
        Share of the records that are held out for validation. Default 0.25.
    name : str, optional
        Name of the campaign in the store, for :meth:`resume`; a new one by default.
    max_records : int
        Number of records to plan for, which doubles until it covers all records. Default 5000.
    disk_bytes : int
        Disk space for stored layers; 0 stores none. Default 25 GiB. Space that the labelled records do not use serves
        the records of pools that :meth:`score` has ranked.
    memory_bytes : int, optional
        Memory of a worker for a group of candidates; by default ``backend.memory_bytes``, or a quarter of the memory of
        this machine.
    workspace_bytes : int
        Part of the memory that Python and the framework use. Default 640 MiB, for torch.
    materialise, fuse, joint : bool
        Whether to store layers, to train candidates together, and to choose both jointly. Default true.
    storage_dtype : {"float32", "bfloat16"}
        Type of stored layers. bfloat16 takes half the disk space; :attr:`Cycle.materialised` has its error.
    warm_start : bool
        Whether a configuration begins with the weights that it had at the end of the last cycle, instead of its initial
        ones. As in scikit-learn this keeps learned weights and buffers, such as the statistics of batch norm, but not
        the optimizer's moments, schedules or random numbers. Configurations are matched by their params, so a search
        that draws new configurations in each cycle has few matches; :attr:`Cycle.notes` counts them. A configuration
        that is new, failed in the last cycle, or has another model or other frozen weights begins with its initial
        weights; a clone has the state of its source. Default ``False``.
    augmentation : Augmentation, optional
        Random copies of each training record, which follow from the seed, the id and the number of the copy. The copies
        pass the frozen layers once and are stored in place of the record, which multiplies the disk space of layers;
        epoch ``e`` trains on copy ``e % copies``. Default ``None``.
    costs : Costs, optional
        Rates of a worker for all cycles. By default they are measured before the first cycle and fitted again after
        each; after a plan that was more than 25 % off, the next one uses the fitted rates.
    bytes_per_second : float, optional
        Limit of the rate at which stored layers are read, for experiments with the planner. Default none.
    checkpoints : {"visits", "epochs", "end"}, optional
        Times at which the state of a configuration is written to the store, as for :class:`GridSearch`. By default
        ``"end"``, after its last epoch, which writes little; ``"epochs"`` with a ``search``.
    replicas : int, optional
        Number of workers that read each shard. By default all workers if Spark is local, since they share a disk:
        groups then stay on their worker, and no worker waits for that of a larger shard. Otherwise 1, since a node
        would read the layers of every shard from the store.
    metric, mode, errors, callbacks, experiment, tensorboard, progress, unit_timeout_s, schedule, rounds
        Settings of the search, as for :class:`GridSearch`. MLflow gets a run for each cycle within a run with the
        campaign's name.
    seed : int
        Seed of splits, shuffles and the initial weights. Default 0.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or a parameter is unknown.
    """

    def __post_init__(self) -> None:
        self._check()
        self._campaign = Campaign(self)

    def _check(self) -> None:
        check_name(self.name, "an adaptation")
        check_arguments(self)
        check_search(self.search)
        # The store of features validates name, storage_dtype and bytes_per_second.
        FeatureStore(self.store, self.name, self.storage_dtype, bytes_per_second=self.bytes_per_second)
        # A search validates its settings when it is created: do so now and not after the first batch is written.
        new_search(self, [1] * len(grid(self.search_space)) if self.search is None else ())

    @property
    def cycles(self) -> tuple[CycleResult, ...]:
        """Cycles of this object, in order."""
        return self._campaign.cycles

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Ids of the runs of all cycles in the store, finished or not."""
        return tuple(cycle.run for cycle in self._campaign.record.cycles)

    @validate_arguments
    def fit(self, batch: DataFrame) -> Cycle:
        """Add a batch of labelled records, and train on all labelled records.

        Parameters
        ----------
        batch : DataFrame
            New records. The labels of a record with a known id are corrected; its stored layers are computed again if
            its features have changed.

        Returns
        -------
        Cycle
            Result, a :class:`Selection` over all labels.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            See :func:`prepare`; also if columns, shapes or types differ from those of the first batch, or the models
            have no output for a label.
        AugmentationError
            The augmentation raises, returns other columns, shapes or types, or uses other random numbers than its
            generator's. It is tried on a few records before anything is computed. The message names the record.
        InvalidArgumentError
            The frozen weights of a configuration are random, or a setting is not allowed.
        InfeasiblePlanError
            A candidate alone does not fit into ``memory_bytes``.
        TrainerError
            No configuration can be opened, has a trainable layer and runs on the records. Where one can, the others end
            with their reasons.
        RunError
            The run stopped, and :meth:`resume` goes on; or another process trains the campaign.
        """
        self._check()
        if self.experiment is not None:
            check_tracking(self.experiment)
        self.backend.admit()
        with self._campaign.lease:
            return self._campaign.begin_cycle(batch)

    def resume(self) -> Cycle:
        """Resume the last cycle, in any process with the same settings and name.

        Returns
        -------
        Cycle
            Result of the cycle, which had stopped or was over.

        Raises
        ------
        RunError
            There is no cycle with this name, its run cannot go on, or another process trains the campaign.
        """
        self._check()
        if self._campaign.load_data() is None:
            raise RunError(
                f"name must be that of an adaptation with a cycle in {self.store.uri}, got {self.name!r}: begin one "
                "with "
                "fit(batch)"
            )
        self.backend.admit()
        with self._campaign.lease:
            return self._campaign.resume_cycle()

    @validate_arguments
    def score(self, pool: DataFrame, how: str = "least_confidence", *, limit: int | None = None) -> DataFrame:
        """Rank records without labels by their value for training the best model of the last cycle.

        Parameters
        ----------
        pool : DataFrame
            Records with the feature columns and the ids. Labelled records are left out. Uncertainty does not need ids,
            and then ranks all records.
        how : {"least_confidence", "margin", "entropy", "diversity", "random"}
            Criterion: an uncertainty of the model, as in :meth:`TunedModel.uncertainty`; the distance from the labelled
            records and from those ranked before; or a random order that follows from the seed and the id.
        limit : int, optional
            Number of records to return. By default all, and 100 by diversity.

        Returns
        -------
        DataFrame
            Records with a column ``score``, the most useful ones first. Records that cannot be read have no score and
            come last; diversity leaves them out.

        Raises
        ------
        NoModelError
            There was no cycle in this process, or none of its configurations finished.
        InvalidArgumentError
            ``how`` or ``limit`` is not allowed, or an uncertainty is asked for with a label that is not a class.
        ColumnError
            A column is missing, or ``score`` exists already.
        BusyError
            A run uses the task slots that ranking by diversity needs.

        Notes
        -----
        Diversity is greedy k-centre (Sener and Savarese, ICLR 2018, algorithm 1) on the outputs of the frozen layers
        that the best model reads, or on its outputs if it trains whole. Records with an ``attention_mask`` are averaged
        over their tokens without padding; more than 128 numbers are projected at random to 128. The executors reduce
        each shard of the pool to `limit` records that cover it (a composable core-set: Indyk et al., PODS 2014), and
        the driver ranks these, so it holds at most `limit` vectors per shard and 4,096 of labelled records. The ranking
        covers the pool within twice the best radius if no shard has more than `limit` records, as for the whole pool at
        once; within four times if none has more than 8,192, and within six times otherwise. The ranking follows from
        the seed and the records, not from their order.
        """
        check_how(how, limit)
        if how == "random":
            data = self._campaign.load_data()
            return rank_at_random(pool, limit, data=data, id_column=self.id_column, seed=self.seed)
        if self._campaign.ranking is None:
            raise NoModelError(
                "score needs the best model of a cycle in this process: call fit(batch) or resume() first"
            )
        return self._campaign.ranking.rank(pool, how, limit)

    @validate_arguments
    def explain(self, batch: DataFrame | None = None) -> str:
        """Describe the campaign: the plan for the next batch, and the cycles so far.

        Parameters
        ----------
        batch : DataFrame, optional
            First batch, whose columns are the networks' inputs; not needed after the first cycle. It is written to the
            store and deleted at the end.

        Returns
        -------
        str
            Lines of text.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError
            See :meth:`fit`.
        """
        self._check()
        return self._campaign.explain(batch)

    def plot(self) -> Figure:
        """Plot the records through the frozen layers and the best metric of each cycle by labels.

        Returns
        -------
        Figure
            Figure of Matplotlib.

        Raises
        ------
        NoModelError
            There was no cycle in this process.
        """
        if not self.cycles:
            raise NoModelError("plot needs a cycle in this process: call fit(batch) or resume() first")
        return cycles_figure(self.cycles, check_objectives(self.metric, self.mode)["metric"][0])
