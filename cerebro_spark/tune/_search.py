"""``Search``: what all searches have in common, an Estimator that runs a procedure over one DataFrame."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.ml import Estimator

from cerebro_spark.data import prepare
from cerebro_spark.errors import InvalidArgumentError, RunError, TrainerError
from cerebro_spark.hopper import (
    CHECKPOINTS,
    KEEPS,
    ROUNDS,
    Budget,
    Interrupts,
    Journal,
    Lease,
    RunContext,
    RunSpec,
    probe,
    uses_slots,
)
from cerebro_spark.tune._experiment import Experiment
from cerebro_spark.tune._extension import WholeModels
from cerebro_spark.tune._ranking import check_objectives
from cerebro_spark.tune._resumed import check_no_replay, check_same, check_weights
from cerebro_spark.tune._selection import Selection
from cerebro_spark.tune._tracking import Followers
from cerebro_spark.tune._train import metric_and_mode, train, trainer_name
from optimizer.errors import nearest
from optimizer.hopper import POLICIES
from optimizer.procedures import Limits
from udfs.driver import interruptible
from udfs.names import check_name
from udfs.shards import PreparedData, load_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from pyspark.sql import DataFrame

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper import Coordinator, Probed, SparkBackend
    from cerebro_spark.tune._extension import RunExtension
    from optimizer.procedures import Plan, Procedure, Stopper
    from udfs.handlers import ModelTrainer
    from udfs.store import Store
    from udfs.training import TrainingFunctions

__all__ = ["Search"]

# Settings of a search that are not logged as parameters: objects, and what follows the run.
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
    """Base of the searches: a procedure decides which configurations train, on models that hop (Cerebro, section 3.3).

    Each worker keeps its shards; a configuration trains on one shard at a time and hops to the next worker with its
    optimiser, its schedule and its random numbers. So each is trained by sequential SGD, all of them in parallel, for
    one copy of the data.

    A search is a Spark ML ``Estimator``: a ``Pipeline`` may have it as its last stage, or followed by stages that read
    the prediction. The configurations to compare are in ``search_space``; there are no Params.

    Parameters
    ----------
    backend : SparkBackend
    store : Store
        Place of the prepared data and the checkpoints.
    trainer_fn : callable
        Takes a configuration's params (a dict), returns a :class:`ModelTrainer` or :class:`TrainingFunctions`. It runs
        on the workers, and once on the driver.
    feature_columns, label_columns, weight_column, image_size
        As for :func:`prepare`.
    test_fraction : float
        Share of the rows that is held out for validation, sharded like the rest. Default 0.25; with 0 the training
        loss decides.
    metric : str or sequence of str
        Metric that decides: ``"loss"`` (default) or one of the trainer's, on the validation rows. Of several, the
        procedure ranks by all, :attr:`Selection.front` has the configurations that no other beats in all, and the first
        metric decides where one has to: of :attr:`Selection.best`, of stoppers, and of a configuration's best epoch.
    mode : {"min", "max"}, or sequence of them, optional
        Which way the metric is better, of several each; by default the metric says it.
    num_shards : int, optional
        Shards of the data; by default one per worker, those that may join later included.
    replicas : int
        Workers that keep each shard: with more than one, no trial waits for a lost worker. Default 1.
    schedule : str
        ``"least-far-along"`` (default) and the others of :data:`optimizer.hopper.POLICIES` are online: they
        follow measured times, and a run is repeated exactly by :meth:`Selection.replay`. ``"fixed"`` takes the order
        from the seed alone.
    rounds : {"rolling", "together"}
        When a configuration begins its next epoch: as soon as the results of its own last one are written
        (``"rolling"``, the default), or once all have finished it (``"together"``), as in the paper, where workers
        idle at the end of each epoch. With ``schedule="fixed"`` both train the same models.
    unit_timeout_s : float, optional
        Time after which a unit is taken to hang, and its worker is ended; by default 20 times the configuration's
        longest unit so far, and a minute.
    stoppers : sequence of Stopper
        Rules that end configurations early: :class:`Patience`, :class:`Threshold`, :class:`MedianRule`. Default none.
    max_configurations, max_total_epochs : int, optional
        Limits of the whole search. Default none.
    max_seconds : float, optional
        Seconds after which the search ends: every configuration keeps the epochs that it has finished. Default none.
    keep : {"last", "best", "epochs"}
        Which states of a configuration stay in the store: the last one (default); that of its best epoch too; or those
        of all its epochs. With ``"best"`` and ``"epochs"`` the configurations are ranked by their best epochs, and a
        configuration's model is of that epoch; with ``"last"`` it is of the last epoch.
    checkpoints : {"visits", "epochs", "end"}
        When a configuration's state goes to the store: after each visit of a shard (default); when its epoch ends; or
        when all epochs end that its procedure has granted so far. What was trained since is trained again if the worker
        that holds the state is lost, or the driver. ``"end"`` is not for searches that may end a configuration earlier
        or clone it.
    price : float, optional
        Of a worker for an hour, in any currency: :meth:`plan` has the costs then.
    max_cost : float, optional
        Money after which the search ends, as with ``max_seconds``: the seconds of all workers times their price.
    errors : {"drop", "raise"}
        Rows that cannot be learned from are left out, with a warning in the log that counts them (``"drop"``, the
        default), or are an error; as for :func:`prepare`.
    callbacks : sequence of Callback
        Follow the run; see :mod:`cerebro_spark.callbacks`.
    experiment : str or None
        MLflow experiment to log to; ``None`` (default) logs nothing.
    tensorboard : str, optional
        Folder for TensorBoard's event files.
    progress : bool
        Show a live table.
    seed : int
        Decides shuffles, splits, initial weights and visits. Default 0.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or there is no such parameter.
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
    test_fraction: float = 0.25
    metric: str | Sequence[str] = "loss"
    mode: str | Sequence[str] | None = None
    num_shards: int | None = None
    replicas: int = 1
    schedule: str = POLICIES[0]
    rounds: str = ROUNDS[0]
    unit_timeout_s: float | None = None
    stoppers: Sequence[Stopper] = ()
    max_configurations: int | None = None
    max_total_epochs: int | None = None
    max_seconds: float | None = None
    keep: str = KEEPS[0]
    checkpoints: str = CHECKPOINTS[0]
    price: float | None = None
    max_cost: float | None = None
    errors: str = "drop"
    callbacks: Sequence[Callback] = ()
    experiment: str | None = None
    tensorboard: str | None = None
    progress: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self._extension: RunExtension = WholeModels()
        self._check()

    def _check(self) -> None:
        self._provisional()
        _ = self._budget
        words = (
            ("schedule", self.schedule, POLICIES),
            ("rounds", self.rounds, ROUNDS),
            ("keep", self.keep, KEEPS),
            ("checkpoints", self.checkpoints, CHECKPOINTS),
        )
        for name, value, known in words:
            if value not in known:
                raise InvalidArgumentError(f"{name}={value!r}{nearest(value, known)}; one of: {', '.join(known)}")
        self._check_checkpoints()
        if not 1 <= self.replicas <= self.backend.num_workers:
            raise InvalidArgumentError(
                f"replicas={self.replicas}: from 1 to the {self.backend.num_workers} workers that there are"
            )
        if self.num_shards is not None and self.num_shards < self.backend.num_workers:
            raise InvalidArgumentError(
                f"num_shards={self.num_shards}: fewer than the {self.backend.num_workers} workers leave some idle"
            )
        _ = self._followers
        if not callable(self.trainer_fn):
            raise InvalidArgumentError(f"trainer_fn={self.trainer_fn!r}: a function of a configuration's params")
        try:
            cloudpickle.dumps(self.trainer_fn)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise TrainerError(
                f"trainer_fn cannot be sent to the workers ({error}): let it build what it needs itself, and hold no "
                "session, connection or open file"
            ) from error

    def _check_checkpoints(self) -> None:
        """Refuse to store states at the end alone where one that is asked for earlier would not be there."""
        if self.checkpoints != "end":
            return
        reasons = {
            f"keep={self.keep!r} keeps states of earlier epochs": self.keep != KEEPS[0],
            "stoppers end configurations earlier": bool(self.stoppers),
            "a limit may end configurations earlier": self.max_total_epochs or self.max_seconds or self.max_cost,
            f"{type(self).__name__} clones configurations": self.plan().clones,
        }
        for reason, holds in reasons.items():
            if holds:
                raise InvalidArgumentError(
                    f"checkpoints='end' stores a state once its epochs are over, and {reason}: take "
                    "checkpoints='epochs'"
                )

    @property
    def _budget(self) -> Budget:
        return Budget(self.max_seconds, self.price, self.max_cost)

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

    def prepare(self, df: DataFrame) -> PreparedData:
        """Shuffle, split and write the shards, once; a later search over the same data finds them.

        Rows that cannot be learned from are counted in a warning.

        Parameters
        ----------
        df : DataFrame

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            The data, the store or the cluster will not do; nothing was trained.
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
            errors=self.errors,
        )

    def fit(  # type: ignore[override]
        self, data: DataFrame | PreparedData, params: Mapping[Any, Any] | None = None, *, run_id: str | None = None
    ) -> Selection:
        """Train the configurations that the procedure starts.

        Parameters
        ----------
        data : DataFrame or PreparedData
        params : mapping, optional
            Spark ML's param map, which has to be empty: the configurations are in ``search_space``.
        run_id : str, optional
            Name of the run in the store; a new one by default.

        Returns
        -------
        Selection
            A Spark ML ``Model`` that predicts with the best configuration's network.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            As for :meth:`prepare`.
        TrainerError, MetricError
            The first configuration cannot be built or run on the data, or has no such metric; before anything is
            trained.
        InvalidArgumentError
            ``params`` has entries, a setting was changed to one that is not allowed, or the prepared data have other
            weights than ``weight_column``.
        RunError
            The run stopped; :meth:`resume` goes on.
        KeyboardInterrupt
            The user interrupted it. Its jobs and processes are ended first, jobs of other sessions go on, and if the
            run had begun the message says how to resume it.
        """
        if params:
            raise InvalidArgumentError(
                f"{type(self).__name__} has no Params to fit with {params!r}: list the configurations in search_space"
            )
        self._check()
        if run_id is not None:
            check_name(run_id, "a run")
        with Interrupts() as interrupts:
            return self._search(data, run_id, interrupts)

    def start(self, data: DataFrame | PreparedData, *, run_id: str | None = None) -> Experiment:
        """Begin what :meth:`fit` does in the background, and return at once.

        Searches that go on at the same time, on equal backends of one session, share the workers: each gets the same
        share of a worker's time, and its models are those that it trains alone. One that begins while the workers hold
        all task slots takes data that are prepared.

        Parameters
        ----------
        data : DataFrame or PreparedData
        run_id : str, optional
            Name of the run in the store; a new one by default.

        Returns
        -------
        Experiment
            Stops, adds, pauses and clones configurations meanwhile, and waits for the :class:`Selection`.

        Raises
        ------
        InvalidArgumentError
            A setting was changed to one that is not allowed.
        TooFewSlotsError
            The cluster has no slots for the workers.
        BusyError
            A run goes on in the session, and its workers are not like this backend's, or leave no slot to prepare the
            data. All else that :meth:`fit` raises is raised by :meth:`Experiment.wait`.
        """
        self._check()
        name = _new_run() if run_id is None else check_name(run_id, "a run")
        epochs = self.plan().epochs_each
        self.backend.admit()
        preparing = ExitStack()
        if not isinstance(data, PreparedData):
            # From now on: a search that was begun before this one is not to take the slots first.
            preparing.enter_context(uses_slots(self.backend.spark))

        def search(begun: Callable[[Coordinator, RunSpec], None]) -> Selection:
            with Interrupts() as interrupts:
                with preparing:
                    prepared = self._prepared(data)
                return self._search(prepared, name, interrupts, begun)

        return Experiment(name, epochs, search)

    @abstractmethod
    def procedure(self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min") -> Procedure:
        """Make the search's procedure, which decides what trains.

        Parameters
        ----------
        metric : str or sequence of str
            Name of the metric in the results, or of several. Default ``"loss"``.
        mode : {"min", "max"}, or sequence of them
            One for each.
        """

    @abstractmethod
    def sample(self) -> dict[str, Any]:
        """Give a configuration of the search space, for the driver and the workers to try."""

    def plan(self, unit_seconds: float | None = None, *, workers: Sequence[int] = ()) -> Plan:
        """Lay out the search before it runs: stages, configurations, epochs, and time and cost by workers.

        Parameters
        ----------
        unit_seconds : float, optional
            Seconds in which a worker trains one configuration over one shard, as :attr:`Selection.unit_seconds` of an
            earlier run. By default the plan has no times.
        workers : sequence of int
            Numbers of workers to compare; by default from 1 to that of the shards.

        Returns
        -------
        Plan
            With ``unit_seconds``, its ``offers`` are the numbers of workers of which no other is as fast and as cheap;
            without ``price``, the backend's number alone.

        Raises
        ------
        InvalidArgumentError
            A value that is not allowed.
        """
        plan = self._provisional().plan()
        if unit_seconds is None:
            return plan
        partitions = self.num_shards or self.backend.most_workers
        if self.price is None:
            offers = plan.times(unit_seconds, partitions=partitions, workers=workers or [self.backend.num_workers])
        else:
            offers = plan.front(unit_seconds, partitions=partitions, price=self.price, workers=workers)
        return replace(plan, offers=offers)

    def resume(self, run_id: str) -> Selection:
        """Go on with a run of this search that stopped, from the last checkpoints that the store has.

        The procedure asks again with the results that the store has, and gets the same decisions.

        Parameters
        ----------
        run_id : str

        Returns
        -------
        Selection

        Raises
        ------
        RunError
            There is no such run, it is a replay, its files are damaged, another driver is training it, or this search
            has other settings than the run, or decides something else than the run's did.
        """
        self._check()
        journal = Journal(self.store, run_id)
        spec = journal.spec()
        check_no_replay(spec)
        if spec.procedure != type(self).__name__:
            raise RunError(
                f"run {run_id!r} is a {spec.procedure}: resume it with one, not with a {type(self).__name__}"
            )
        prepared = load_prepared(self.store, spec.prepared)
        self.backend.admit()
        probed = self._probed(spec.configs[0], prepared)
        check_same(spec, self._spec(run_id, prepared, probed, spec.configs))
        check_weights(run_id, prepared, self.weight_column)
        with Interrupts() as interrupts, Lease(self.store, run_id) as lease:
            return self._train(spec, prepared, probed, lease, interrupts)

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
        """Make a procedure to check and to plan by: which way a metric is better, only a network says."""
        return self.procedure(**check_objectives(self.metric, self.mode))

    def _rules(self, metric: str | Sequence[str], mode: str | Sequence[str]) -> dict[str, Any]:
        """Give what every procedure takes: the metric that decides, stoppers and limits."""
        limits = Limits(max_configurations=self.max_configurations, max_total_epochs=self.max_total_epochs)
        return {"metric": metric, "mode": mode, "stoppers": self.stoppers, "limits": limits}

    def _configs(self) -> list[dict[str, Any]]:
        return [self.sample()]

    def _prepared(self, data: DataFrame | PreparedData) -> PreparedData:
        if isinstance(data, PreparedData):
            if data.weight_column != self.weight_column:
                raise InvalidArgumentError(
                    f"weight_column={self.weight_column!r}, and {data.name!r} was prepared with "
                    f"weight_column={data.weight_column!r}: give both the same"
                )
            self.backend.admit()
            return data
        return interruptible(self.backend.spark, lambda: self.prepare(data))

    def _search(
        self,
        data: DataFrame | PreparedData,
        run_id: str | None,
        interrupts: Interrupts,
        begun: Callable[[Coordinator, RunSpec], None] | None = None,
    ) -> Selection:
        configs = self._configs()
        prepared = self._prepared(data)
        probed = self._probed(configs[0], prepared, self.plan().epochs_each)
        spec = self._spec(run_id or _new_run(), prepared, probed, configs)
        with Lease(prepared.store, spec.run) as lease:
            Journal(prepared.store, spec.run).begin(spec)
            return self._train(spec, prepared, probed, lease, interrupts, begun)

    def _probed(self, params: Mapping[str, Any], prepared: PreparedData, epochs: int | None = None) -> Probed:
        return self._extension.probed or probe(
            self.trainer_fn, params, prepared, self.seed, self.backend, epochs=epochs
        )

    def _spec(self, run: str, prepared: PreparedData, probed: Probed, configs: list[dict[str, Any]]) -> RunSpec:
        first, *others = probed.objectives(self.metric, self.mode, validates=prepared.test_fraction > 0)
        return RunSpec(
            run=run,
            prepared=prepared.name,
            configs=configs,
            trainer=trainer_name(self.trainer_fn),
            epochs=self.plan().epochs_each,
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
        )

    def _train(
        self,
        spec: RunSpec,
        prepared: PreparedData,
        probed: Probed,
        lease: Lease,
        interrupts: Interrupts,
        begun: Callable[[Coordinator, RunSpec], None] | None = None,
    ) -> Selection:
        context = RunContext(
            spec=spec,
            prepared=prepared,
            backend=self.backend,
            trainer_fn=self.trainer_fn,
            probed=probed,
            unit_timeout_s=self.unit_timeout_s,
            budget=self._budget,
        )
        return train(
            self._extension.extend(context),
            self.procedure(**metric_and_mode(spec)),
            partial(self._extension.result, trainer_fn=self.trainer_fn),
            lease=lease,
            interrupts=interrupts,
            followers=self._followers,
            begun=begun,
        )


def _new_run() -> str:
    return f"run-{uuid.uuid4().hex[:12]}"
