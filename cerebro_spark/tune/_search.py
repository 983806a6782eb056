"""Search: an Estimator that runs a procedure of model selection over one DataFrame."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.ml import Estimator

from cerebro_spark.data import prepare
from cerebro_spark.errors import InvalidArgumentError, RunError
from cerebro_spark.hopper import (
    IF_BEGUN,
    Budget,
    Interrupts,
    Journal,
    Lease,
    RunContext,
    RunSpec,
    Singles,
    StackedGroups,
    check_modules,
    check_trainer,
    probe,
    uses_slots,
)
from cerebro_spark.steering.runner import connect
from cerebro_spark.tune._experiment import Experiment
from cerebro_spark.tune._extension import WholeModels
from cerebro_spark.tune._ranking import check_objectives
from cerebro_spark.tune._resume_checks import check_resumable, check_same, check_weights
from cerebro_spark.tune._selection import Selection
from cerebro_spark.tune._setting_checks import check_hybrid, check_settings
from cerebro_spark.tune._shared_parameters import with_parameters
from cerebro_spark.tune._tracking import Followers
from cerebro_spark.tune._train import metric_and_mode, train, trainer_name
from optimizer.arguments import one_of
from optimizer.hybrids import HybridSettings
from optimizer.procedures import Limits
from udfs.driver import interruptible, validate_arguments
from udfs.names import check_name
from udfs.shards import PreparedData, load_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from pyspark.sql import DataFrame

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper import Probed, SparkBackend
    from cerebro_spark.tune._experiment import Begun
    from cerebro_spark.tune._extension import RunExtension
    from cerebro_spark.tune._strategy import Strategy
    from optimizer.procedures import Plan, Procedure, Spot, Stopper
    from udfs.handlers import ModelTrainer
    from udfs.shards import Series
    from udfs.store import Store
    from udfs.training import TrainingFunctions

__all__ = ["Search"]

# Settings that are not logged as parameters: objects, and those of the trackers.
_NOT_LOGGED = {
    "backend",
    "store",
    "trainer_fn",
    "callbacks",
    "experiment",
    "tensorboard",
    "progress",
    "unit_timeout_s",
    "study",
}


@dataclass(kw_only=True, eq=False)
class Search(Estimator[Selection]):
    """Settings that all searches have in common, and the methods to run them.

    :class:`GridSearch`, :class:`Hyperband` and the other searches add the settings of their procedure, which decides
    what trains. Each worker keeps its shards of the data; a configuration trains on one shard at a time and hops to the
    next worker with its optimizer, its schedule and its random numbers (Cerebro, section 3.3). So each configuration is
    trained by sequential SGD, all of them in parallel, with one copy of the data.

    A search is a Spark ML ``Estimator``: a ``Pipeline`` may have it as its last stage, or followed by stages that read
    the prediction. The configurations to compare are in ``search_space``; a search has no Params.

    Parameters
    ----------
    backend : SparkBackend
        Workers that train.
    store : Store
        Place of the prepared data and the checkpoints.
    trainer_fn : callable
        Function that takes a configuration's params (a dict) and returns a :class:`ModelTrainer` or
        :class:`TrainingFunctions`. It runs on the workers, and before on the driver, which checks it.
    feature_columns : sequence of str, or mapping of str to sequence of str
        Columns that the model reads; a mapping has one entry for each input of the model. As for :func:`prepare`.
    label_columns : sequence of str
        Columns that the model predicts.
    weight_column : str, optional
        Column with the weights of the rows. By default all rows count alike.
    image_size : int, optional
        Side of the images, in pixels, where a feature column has images. As for :func:`prepare`.
    series : Series, optional
        Columns that make series of the rows, so that configurations can read :class:`Windows`. As for :func:`prepare`.
    test_fraction : float
        Share of the rows that is held out for validation, sharded like the rest. Default 0.25; with 0 the training
        loss decides.
    metric : str or sequence of str
        Metric that decides: ``"loss"`` (default) or one of the trainer's, on the validation rows. With several metrics
        the procedure ranks by all of them, and :attr:`Selection.front` has the configurations that no other beats in
        all. The first metric decides about :attr:`Selection.best`, about stoppers, and about a configuration's best
        epoch.
    mode : {"min", "max"}, or sequence of them, optional
        Direction in which the metric is better, one for each metric. By default the metric defines it.
    num_shards : int, optional
        Number of shards of the data. By default one per worker, including workers that may join later.
    replicas : int
        Number of workers that keep each shard: with more than one, no trial waits for a lost worker. Default 1.
    schedule : str
        Scheduling policy, one of :data:`optimizer.hopper.POLICIES`. ``"least-far-along"`` (default) and the other
        online policies follow measured times, and :meth:`Selection.replay` repeats such a run exactly. ``"fixed"``
        takes the order from the seed alone.
    rounds : {"rolling", "together"}
        Time at which a configuration begins its next epoch: as soon as the results of its last epoch are written
        (``"rolling"``, the default), or once all configurations have finished the epoch (``"together"``), as in the
        paper, where workers idle at the end of each epoch. With ``schedule="fixed"`` both train the same models.
    stack : {"off", "auto"}
        Whether small models of one architecture train as one batched model. With ``"auto"`` configurations of torch
        that have equal layers, losses, batch sizes and optimizers (SGD, Adam or AdamW) form units together, and each
        worker measures whether it trains them as a stack or one by one. Each visits the shards in the order of its
        unit. Its model is, within the tolerance of single precision, that of training it alone, so a run with stacks
        cannot be replayed bit for bit. Default ``"off"``.
    hybrid : {"off", "auto", "all_reduce", "averaging"}
        Way to train an epoch that begins while fewer configurations train than workers. ``"off"`` (default): a
        configuration trains on one worker at a time, and the others are idle. ``"all_reduce"``: all workers take each
        step together, on their rows of the batch, with the mean of their gradients. ``"averaging"``: from
        ``averaging_from`` on, each worker trains a copy of the configuration on its shards, and the weights are
        averaged at the end of the epoch. ``"auto"``: workers measure steps and network, and the fastest way is taken;
        weights are averaged only with ``averaging_from``. For models of torch. The rows come in another order than in
        hopping, so the models differ, and such a run cannot be replayed.
    averaging_from : int, optional
        First epoch, from 0, in which weights may be averaged. By default the middle of the epochs for
        ``hybrid="averaging"``, and never for the others.
    unit_timeout_s : float, optional
        Seconds after which a unit counts as hung, and its worker is ended. By default 20 times the configuration's
        longest unit so far, plus a minute. It also limits the trial of each configuration on the driver before the
        workers start, to 10 seconds at least; by default a trial has no limit, and is logged after 30 seconds.
    stoppers : sequence of Stopper
        Rules that end configurations early: :class:`Patience`, :class:`Threshold`, :class:`MedianRule`. Default none.
    max_configurations : int, optional
        Largest number of configurations of the search. Default unlimited.
    max_total_epochs : int, optional
        Largest number of epochs of all configurations together. Default unlimited.
    max_seconds : float, optional
        Seconds after which the search ends: every configuration keeps the epochs that it has finished. Default
        unlimited.
    keep : {"last", "best", "epochs"}
        States of a configuration that stay in the store: the last one (``"last"``, the default), also that of its best
        epoch (``"best"``), or those of all epochs (``"epochs"``). With ``"best"`` and ``"epochs"`` the configurations
        are ranked by their best epochs, and a configuration's model is that of its best epoch; with ``"last"`` it is
        that of the last epoch.
    checkpoints : {"visits", "epochs", "end"}
        Time at which a configuration's state is written to the store: after each visit of a shard (``"visits"``, the
        default), at the end of each epoch (``"epochs"``), or at the end of all epochs that its procedure has granted so
        far (``"end"``). Training since then is repeated if the worker with the state is lost, or the driver. ``"end"``
        is not for searches that may end a configuration earlier or clone it.
    price : float, optional
        Cost per worker-hour, in any currency. :meth:`plan` includes costs then.
    max_cost : float, optional
        Cost after which the search ends, as with ``max_seconds``: the seconds of all workers times their price. Default
        unlimited.
    errors : {"drop", "raise"}
        Treatment of rows that cannot be learned from: leave them out, with a warning in the log that counts them
        (``"drop"``, the default), or raise an error. As for :func:`prepare`.
    callbacks : sequence of Callback
        Receivers of the run's events; see :mod:`cerebro_spark.callbacks`. Default none.
    experiment : str, optional
        MLflow experiment to log to. By default nothing is logged.
    tensorboard : str, optional
        Folder for TensorBoard's event files. By default none are written.
    progress : bool
        Whether to show a live table. Default ``True``.
    seed : int
        Seed of shuffles, splits, initial weights and visits. Default 0.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or the search has no such parameter.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.
    """

    backend: SparkBackend
    store: Store
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer | TrainingFunctions]
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]]
    label_columns: Sequence[str]
    weight_column: str | None = None
    image_size: int | None = None
    series: Series | None = None
    test_fraction: float = 0.25
    metric: str | Sequence[str] = "loss"
    mode: str | Sequence[str] | None = None
    num_shards: int | None = None
    replicas: int = 1
    schedule: str = "least-far-along"
    rounds: str = "rolling"
    stack: str = "off"
    hybrid: str = "off"
    averaging_from: int | None = None
    unit_timeout_s: float | None = None
    stoppers: Sequence[Stopper] = ()
    max_configurations: int | None = None
    max_total_epochs: int | None = None
    max_seconds: float | None = None
    keep: str = "last"
    checkpoints: str = "visits"
    price: float | None = None
    max_cost: float | None = None
    errors: str = "drop"
    callbacks: Sequence[Callback] = ()
    experiment: str | None = None
    tensorboard: str | None = None
    progress: bool = True
    seed: int = 0

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Describe the common settings in the documentation of each search, so that ``help`` shows all of them."""
        super().__init_subclass__(**keywords)
        cls.__doc__ = with_parameters(cls.__doc__, Search.__doc__)

    def __post_init__(self) -> None:
        super().__init__()
        self._extension: RunExtension = WholeModels()
        self._check()

    def _check(self) -> None:
        """Validate the settings; they may change between the creation of a search and its run."""
        self._provisional()
        _ = self._budget, self._followers
        check_settings(self)

    @property
    def _budget(self) -> Budget:
        return Budget(self.max_seconds, self.price, self.max_cost)

    @property
    def _stacked_groups(self) -> StackedGroups:
        return StackedGroups(self.trainer_fn, self.backend.num_workers)

    def _hybrids(self, epochs: int) -> HybridSettings:
        return HybridSettings(self.hybrid, self.averaging_from).resolved(epochs)

    @property
    def _followers(self) -> Followers:
        settings = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _NOT_LOGGED}
        return Followers(
            callbacks=self.callbacks,
            experiment=self.experiment,
            tensorboard=self.tensorboard,
            progress=self.progress,
            parameters={**settings, **self._extension.parameters},
            campaign=self._extension.campaign,
        )

    @validate_arguments
    def prepare(self, df: DataFrame) -> PreparedData:
        """Shuffle, split and write the shards. A later search over the same data uses them again.

        A warning counts the rows that cannot be learned from.

        Parameters
        ----------
        df : DataFrame
            Rows with the feature, label and weight columns.

        Returns
        -------
        PreparedData
            Shards in the store.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            The data, the store or the cluster is not suitable; nothing was trained.
        """
        self.backend.admit()
        return prepare(
            df,
            self.store,
            feature_columns=self.feature_columns,
            label_columns=self.label_columns,
            weight_column=self.weight_column,
            num_shards=self.num_shards or self.backend.most_workers,
            test_fraction=self.test_fraction,
            seed=self.seed,
            image_size=self.image_size,
            series=self.series,
            errors=self.errors,
        )

    @validate_arguments
    def fit(  # type: ignore[override]
        self,
        data: DataFrame | PreparedData,
        params: Mapping[Any, Any] | None = None,
        *,
        run_id: str | None = None,
        if_begun: str = "error",
        server: str | None = None,
    ) -> Selection:
        """Train the configurations that the procedure starts.

        Parameters
        ----------
        data : DataFrame or PreparedData
            Rows to train on, or the shards that :meth:`prepare` has written.
        params : mapping, optional
            Spark ML's param map, which has to be empty: the configurations are in ``search_space``.
        run_id : str, optional
            Name of the run in the store. By default a new name.
        if_begun : {"error", "resume", "take_over"}
            What to do if the store has a run of that name: raise RunError, :meth:`resume` the run, or resume it after
            its driver, if one is still alive, has stopped. With ``"resume"`` or ``"take_over"`` a scheduler can repeat
            the call until it succeeds. A resumed run trains on the rows that it began with. Default ``"error"``.
        server : str, optional
            Address of a server of ``cerebro serve``, whose users follow and steer the search. Training goes on while
            the server is away. By default none.

        Returns
        -------
        Selection
            Spark ML ``Model`` that predicts with the best configuration's network.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            See :meth:`prepare`.
        TrainerError, MetricError
            No configuration can be built and trained on the data, or the first one that can has no such metric. Nothing
            was trained.
        InvalidArgumentError
            ``params`` has entries, ``if_begun`` is given without ``run_id`` or has another value, a setting was changed
            to one that is not allowed, the prepared data have other weights than ``weight_column``, or ``server`` is no
            address.
        TrackingError
            MLflow's server does not answer within 10 seconds.
        RunError
            The run stopped, and :meth:`resume` continues it; or there is a run of that name.
        KeyboardInterrupt
            The user interrupted the search. Its jobs and processes are ended first; jobs of other sessions continue. If
            the run had begun, the message says how to resume it.
        """
        if params:
            raise InvalidArgumentError(
                f"params must be empty, got {params!r}. A {type(self).__name__} has no Params: list the configurations "
                "in search_space"
            )
        self._check()
        name = _named(run_id, if_begun)
        if if_begun != "error" and Journal(self.store, name).begun:
            return self.resume(name, take_over=if_begun == "take_over", server=server)
        self._followers.check_server()

        def search(begun: Begun | None) -> Selection:
            with Interrupts() as interrupts:
                return self._search(data, name, interrupts, begun, take_over=if_begun == "take_over")

        return self._steered(name, search, server)

    @validate_arguments
    def start(
        self,
        data: DataFrame | PreparedData,
        *,
        run_id: str | None = None,
        if_begun: str = "error",
        server: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Start :meth:`fit` in the background, and return at once.

        Searches that run at the same time, on equal backends of one session, share the workers: each gets the same
        share of a worker's time, and trains the same models as alone. A search that begins while the workers hold all
        task slots needs prepared data.

        Parameters
        ----------
        data : DataFrame or PreparedData
            Rows to train on, or the shards that :meth:`prepare` has written.
        run_id : str, optional
            Name of the run in the store. By default a new name.
        if_begun : {"error", "resume", "take_over"}
            As for :meth:`fit`. Default ``"error"``.
        server : str, optional
            As for :meth:`fit`.
        details : mapping, optional
            Plain data for the server's pages: ``description``, ``pool``, ``parent`` (a run), ``search_space`` and
            ``source``, as in a launch document, ``labels`` (names of classes by column) and ``left_out`` (numbers of
            rows by reason). By default none.

        Returns
        -------
        Experiment
            Handle to stop, add, pause and clone configurations, and to wait for the :class:`Selection`.

        Raises
        ------
        InvalidArgumentError
            A setting was changed to one that is not allowed, ``if_begun`` is given without ``run_id`` or has another
            value, or ``server`` is no address.
        TooFewSlotsError
            The cluster has no slots for the workers.
        BusyError
            Another run of the session has workers unlike this backend's, or leaves no slot to prepare the data. All
            other errors of :meth:`fit` are raised by :meth:`Experiment.wait`.
        """
        self._check()
        name = _named(run_id, if_begun)
        connection = None if server is None else connect(server)
        self._followers.check_server()
        epochs, facts = self.plan().epochs_each, self._details(details)
        takes_over = if_begun == "take_over"
        if if_begun != "error" and Journal(self.store, name).begun:

            def resumed(begun: Begun) -> Selection:
                # The checks build a model, so they run in the thread of the search.
                return self._resumption(name, take_over=takes_over)(begun)

            return Experiment(name, epochs, resumed, connection=connection, details=facts)
        self.backend.admit()
        preparing = ExitStack()
        if not isinstance(data, PreparedData):
            # Take the slots now, before a search that was started earlier does.
            preparing.enter_context(uses_slots(self.backend.spark))

        def search(begun: Begun) -> Selection:
            with Interrupts() as interrupts:
                with preparing:
                    prepared = self._prepared(data)
                return self._search(prepared, name, interrupts, begun, take_over=takes_over)

        return Experiment(name, epochs, search, connection=connection, details=facts)

    def _details(self, details: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what a server shows about the search."""
        groups = self.feature_columns
        features = {name: list(each) for name, each in groups.items()} if isinstance(groups, Mapping) else list(groups)
        facts = {"feature_columns": features, "label_columns": list(self.label_columns)}
        return {**facts, "tensorboard": self.tensorboard or "", **(details or {})}

    def _steered(self, run_id: str, search: Callable[[Begun | None], Selection], server: str | None) -> Selection:
        """Run a search in this thread, steered by the users of a server if there is one."""
        if server is None:
            return search(None)
        connection = connect(server)
        epochs, facts = self.plan().epochs_each, self._details(None)
        experiment = Experiment(run_id, epochs, search, connection=connection, details=facts, background=False)
        return experiment.wait()

    @property
    @abstractmethod
    def strategy(self) -> Strategy:
        """Procedure that decides what trains, and the configurations it begins with. Subclasses define it."""

    def procedure(self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min") -> Procedure:
        """Make a new procedure with the search's stoppers and limits.

        Parameters
        ----------
        metric : str or sequence of str
            Name of the metric in the results, or of several. Default ``"loss"``.
        mode : {"min", "max"}, or sequence of them
            Direction in which each metric is better. Default ``"min"``.

        Returns
        -------
        optimizer.procedures.Procedure
            Procedure without trials.
        """
        limits = Limits(max_configurations=self.max_configurations, max_total_epochs=self.max_total_epochs)
        return self.strategy.make(metric=metric, mode=mode, stoppers=self.stoppers, limits=limits)

    def sample(self) -> dict[str, Any]:
        """Return a configuration of the search space, which the driver and the workers try first."""
        return self.strategy.list_configurations()[0]

    @validate_arguments
    def plan(
        self,
        unit_seconds: float | None = None,
        *,
        workers: Sequence[int] = (),
        data: PreparedData | None = None,
        price: float | None = None,
        spot: Spot | None = None,
    ) -> Plan:
        """Plan the search before it runs: stages, configurations, epochs, and time and cost by number of workers.

        Parameters
        ----------
        unit_seconds : float, optional
            Seconds in which a worker trains one configuration over one shard, such as :attr:`Selection.unit_seconds` of
            an earlier run. By default the plan has no times.
        workers : sequence of int
            Numbers of workers to compare. By default from 1 to the number of shards.
        data : PreparedData, optional
            Shards that :meth:`prepare` has written. With them the plan includes the task: the first configuration is
            opened on the driver, and its checks are those of :meth:`fit`. By default the plan has no task.
        price : float, optional
            Cost per worker-hour. By default the ``price`` of the search.
        spot : Spot, optional
            Interruptible machines. The plan then has all numbers of workers, each with its expected time and cost under
            interruptions, and :func:`draw_costs` draws the front. By default there are no interruptions.

        Returns
        -------
        Plan
            Plan of the search. With ``unit_seconds``, its ``offers`` are the numbers of workers that no other number
            beats in time and cost; without ``price``, the backend's number alone.

        Raises
        ------
        InvalidArgumentError
            A value is not allowed, or there is ``spot`` without ``unit_seconds``.
        """
        price = self.price if price is None else price
        if spot is not None and unit_seconds is None:
            raise InvalidArgumentError(
                "unit_seconds must be given with spot, whose costs follow from it, got None. Pass "
                "selection.unit_seconds of an earlier run"
            )
        plan = self._provisional().plan()
        if data is not None:
            decision = self._probed([self.sample()], data, plan.epochs_each).session.sums.decision
            plan = replace(plan, notes=(*plan.notes, *decision.explain().split("\n")))
        if self.stack == "auto":
            configurations = self.strategy.list_configurations()
            plan = replace(plan, notes=(*plan.notes, *self._stacked_groups.explain(configurations)))
        if self.hybrid != "off":
            plan = replace(plan, notes=(*plan.notes, self._hybrids(plan.epochs_each).explain()))
        if unit_seconds is None:
            return plan
        partitions = self.num_shards or self.backend.most_workers
        if spot is not None:
            offers = spot.priced(plan.times(unit_seconds, partitions=partitions, workers=workers), unit_seconds, price)
        elif price is None:
            offers = plan.times(unit_seconds, partitions=partitions, workers=workers or [self.backend.num_workers])
        else:
            offers = plan.front(unit_seconds, partitions=partitions, price=price, workers=workers)
        return replace(plan, offers=offers)

    @validate_arguments
    def resume(self, run_id: str, *, take_over: bool = False, server: str | None = None) -> Selection:
        """Continue a run of this search that stopped, from the last checkpoints in the store.

        The procedure gets the results in the store, and decides the same again.

        Parameters
        ----------
        run_id : str
            Name of the run in the store.
        take_over : bool
            Whether a driver that still trains the run has to stop for this one, as after a scheduler has given up on
            it. Its workers end within 20 seconds. Default false: the call is refused while that driver lives.
        server : str, optional
            As for :meth:`fit`.

        Returns
        -------
        Selection
            Result of the whole run.

        Raises
        ------
        RunError
            There is no such run, it is a replay, its files are damaged, another driver is training it, or this search
            has other settings or makes other decisions than the run.
        """
        return self._steered(run_id, self._resumption(run_id, take_over=take_over), server)

    def _resumption(self, run_id: str, *, take_over: bool) -> Callable[[Begun | None], Selection]:
        """Return the function that continues a run, after the checks of :meth:`resume`."""
        self._check()
        self._followers.check_server()
        journal = Journal(self.store, run_id)
        spec = journal.spec()
        check_resumable(spec)
        if spec.procedure != type(self).__name__:
            raise RunError(
                f"run_id must name a run of a {type(self).__name__}, got {run_id!r}, a run of a {spec.procedure}. "
                f"Resume it with a {spec.procedure}"
            )
        prepared = load_prepared(self.store, spec.prepared)
        check_weights(run_id, prepared, self.weight_column)
        if not take_over:
            self.backend.admit()
        probed = self._probed(spec.configs, prepared)
        check_same(spec, self._spec(run_id, prepared, probed, spec.configs))

        def search(begun: Begun | None) -> Selection:
            with Interrupts() as interrupts, Lease(self.store, run_id, take_over=take_over) as lease:
                if take_over:
                    self.backend.admit()  # the other driver's workers may have held the slots until now
                return self._train(spec, prepared, probed, lease, interrupts, begun)

        return search

    def extended(self, extension: RunExtension) -> Self:
        """Return a copy of the search whose runs an extension changes.

        Parameters
        ----------
        extension : RunExtension
            Changes to the runs, such as those of :class:`Adaptation`.
        """
        search = copy(self)
        search._extension = extension  # noqa: SLF001 - its own class
        return search

    def _fit(self, dataset: DataFrame) -> Selection:
        return self.fit(dataset)

    def _provisional(self) -> Procedure:
        """Make a procedure for validation and plans: the direction of a metric is known once a network is open."""
        return self.procedure(**check_objectives(self.metric, self.mode))

    def _prepared(self, data: DataFrame | PreparedData) -> PreparedData:
        if isinstance(data, PreparedData):
            if data.weight_column != self.weight_column:
                raise InvalidArgumentError(
                    f"weight_column must be that of the prepared data {data.name!r}, {data.weight_column!r}, got "
                    f"{self.weight_column!r}"
                )
            if self.series not in {None, data.series}:
                raise InvalidArgumentError(
                    f"series must be that of the prepared data {data.name!r}, {data.series}, got {self.series}. "
                    "Prepare them again"
                )
            self.backend.admit()
            return data
        # A wrong trainer is refused before hours of preparation.
        check_trainer(self._trainer(), self.strategy.list_configurations(), self.seed, self.metric, self.unit_timeout_s)
        return interruptible(self.backend.spark, lambda: self.prepare(data))

    def _trainer(self, prepared: PreparedData | None = None) -> Callable[[dict[str, Any]], Any]:
        """Return the function that makes trainers of configurations: on the rows, or before there are any."""
        return self.trainer_fn

    def _search(
        self,
        data: DataFrame | PreparedData,
        run_id: str,
        interrupts: Interrupts,
        begun: Begun | None = None,
        *,
        take_over: bool = False,
    ) -> Selection:
        configs = list(self.strategy.list_configurations())
        prepared = self._prepared(data)
        probed = self._probed(configs, prepared, self.plan().epochs_each)
        check_modules(self.backend.spark, self.trainer_fn)
        spec = self._spec(run_id, prepared, probed, configs)
        with Lease(prepared.store, spec.run, take_over=take_over) as lease:
            Journal(prepared.store, spec.run).begin(spec)
            return self._train(spec, prepared, probed, lease, interrupts, begun)

    def _probed(
        self, configurations: Sequence[Mapping[str, Any]], prepared: PreparedData, epochs: int | None = None
    ) -> Probed:
        return self._extension.probed or probe(
            self._trainer(prepared),
            configurations,
            prepared,
            self.seed,
            self.backend,
            epochs=epochs,
            limit_s=self.unit_timeout_s,
        )

    def _spec(self, run: str, prepared: PreparedData, probed: Probed, configs: list[dict[str, Any]]) -> RunSpec:
        check_hybrid(self.hybrid, probed.session)
        epochs = self.plan().epochs_each
        first, *others = probed.objectives(self.metric, self.mode, validates=prepared.test_fraction > 0)
        return RunSpec(
            run=run,
            prepared=prepared.name,
            configs=configs,
            trainer=trainer_name(self.trainer_fn),
            epochs=epochs,
            seed=self.seed,
            policy=self.schedule,
            rounds=self.rounds,
            replicas=self.replicas,
            metric=first.metric,
            larger_is_better=first.larger_is_better,
            procedure=type(self).__name__,
            keep=self.keep,
            checkpoints=self.checkpoints,
            other_objectives=[[each.metric, each.mode] for each in others],
            task=probed.session.sums.decision.to_dict(),
            hybrid=self._hybrids(epochs).to_dict(),
        )

    def _train(
        self,
        spec: RunSpec,
        prepared: PreparedData,
        probed: Probed,
        lease: Lease,
        interrupts: Interrupts,
        begun: Begun | None = None,
    ) -> Selection:
        context = RunContext(
            spec=spec,
            prepared=prepared,
            backend=self.backend,
            trainer_fn=self._trainer(prepared),
            probed=probed,
            unit_timeout_s=self.unit_timeout_s,
            budget=self._budget,
            grouping=self._stacked_groups if self.stack == "auto" else Singles(),
        )
        return train(
            self._extension.extend(context),
            self.procedure(**metric_and_mode(spec)),
            partial(self._extension.result, trainer_fn=context.trainer_fn),
            lease=lease,
            interrupts=interrupts,
            followers=self._followers,
            begun=begun,
        )


def _named(run_id: str | None, if_begun: str) -> str:
    """Return the name of a run, a new one by default."""
    one_of("if_begun", if_begun, IF_BEGUN)
    if run_id is not None:
        return check_name(run_id, "a run")
    if if_begun != "error":
        raise InvalidArgumentError(f"run_id must name the run that if_begun={if_begun!r} looks for, got None.")
    return f"run-{uuid.uuid4().hex[:12]}"
