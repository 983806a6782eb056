"""``GridSearch``: an Estimator that trains many configurations over one DataFrame by plain SGD, while models hop."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.ml import Estimator

from cerebro_spark.data import prepare
from cerebro_spark.errors import InvalidArgumentError, TrainerError
from cerebro_spark.hopper import Interrupts, Journal, Lease, RunSpec, Trial, probe
from cerebro_spark.tune._selection import Selection, train, trainer_name
from cerebro_spark.tune._space import grid
from cerebro_spark.tune._tracking import Followers
from optimizer.errors import nearest
from optimizer.hopper import POLICIES
from udfs.driver import hint_keywords, interruptible
from udfs.names import check_name
from udfs.shards import PreparedData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper import SparkBackend
    from udfs.store import Store
    from udfs.training import ModelTrainer, TrainingFunctions

__all__ = ["GridSearch"]

# Settings of a search that MLflow gets as parameters.
_LOGGED = (
    "search_space",
    "num_epochs",
    "feature_columns",
    "label_columns",
    "test_fraction",
    "metric",
    "replicas",
    "schedule",
    "seed",
)


@hint_keywords
@dataclass(kw_only=True, eq=False)
class GridSearch(Estimator[Selection]):
    """Train every configuration of a search space on every shard of the data, epoch by epoch (Cerebro, section 3.3).

    Each worker keeps its shards; a configuration trains on one shard at a time and hops to the next worker with its
    optimiser, its schedule and its random numbers. So each is trained by sequential SGD, all of them in parallel, for
    one copy of the data.

    It is a Spark ML ``Estimator``: a ``Pipeline`` may have it as its last stage, or followed by stages that read the
    prediction. The configurations to compare are in ``search_space``; there are no Params.

    Parameters
    ----------
    backend : SparkBackend
    store : Store
        Place of the prepared data and the checkpoints.
    trainer_fn : callable
        Takes a configuration's params (a dict), returns a :class:`ModelTrainer` or :class:`TrainingFunctions`. It runs
        on the workers, and once on the driver.
    search_space : mapping of str to sequence, or sequence of mapping
        Values by name, or the configurations themselves. Plain data: strings, numbers, lists.
    num_epochs : int
    feature_columns, label_columns, image_size
        As for :func:`prepare`.
    test_fraction : float
        Share of the rows that is held out for validation, sharded like the rest. Default 0.25; with 0 the training
        loss decides.
    metric : str
        Metric that decides: ``"loss"`` (default) or one of the trainer's, on the validation rows.
    mode : {"min", "max"}, optional
        Which way the metric is better; by default the metric says it.
    num_shards : int, optional
        Shards of the data; by default one per worker, those that may join later included.
    replicas : int
        Workers that keep each shard: with more than one, no trial waits for a lost worker. Default 1.
    schedule : str
        ``"longest-remaining-elsewhere"`` (default) and the others of :data:`optimizer.hopper.POLICIES` are online: they
        follow measured times, and a run is repeated exactly by :meth:`Selection.replay`. ``"fixed"`` takes the order
        from the seed alone.
    unit_timeout_s : float, optional
        Time after which a unit is taken to hang, and its worker is ended; by default 20 times the configuration's
        longest unit so far, and a minute.
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

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> search = GridSearch(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": [1e-2, 1e-3], "hidden": [32, 64]},
    ...     num_epochs=5,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> len(search.configurations)
    4
    """

    backend: SparkBackend
    store: Store
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer | TrainingFunctions]
    search_space: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
    num_epochs: int
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]]
    label_columns: Sequence[str]
    image_size: int | None = None
    test_fraction: float = 0.25
    metric: str = "loss"
    mode: str | None = None
    num_shards: int | None = None
    replicas: int = 1
    schedule: str = POLICIES[0]
    unit_timeout_s: float | None = None
    errors: str = "drop"
    callbacks: Sequence[Callback] = ()
    experiment: str | None = None
    tensorboard: str | None = None
    progress: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self._check()

    def _check(self) -> None:
        grid(self.search_space)
        if self.num_epochs < 1:
            raise InvalidArgumentError(f"num_epochs={self.num_epochs}: at least 1")
        if self.mode not in {None, "min", "max"}:
            raise InvalidArgumentError(f'mode={self.mode!r}: "min" or "max"')
        if self.schedule not in POLICIES:
            raise InvalidArgumentError(
                f"schedule={self.schedule!r}{nearest(self.schedule, POLICIES)}; one of: {', '.join(POLICIES)}"
            )
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

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """The params of each configuration."""
        return grid(self.search_space)

    @property
    def _followers(self) -> Followers:
        return Followers(
            callbacks=self.callbacks, experiment=self.experiment, tensorboard=self.tensorboard, progress=self.progress
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
            num_shards=self.num_shards or self.backend.most_workers,
            test_fraction=self.test_fraction,
            seed=self.seed,
            image_size=self.image_size,
            errors=self.errors,
        )

    def fit(  # type: ignore[override]
        self, data: DataFrame | PreparedData, params: Mapping[Any, Any] | None = None, *, run_id: str | None = None
    ) -> Selection:
        """Train all configurations.

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
            ``params`` has entries, or a setting was changed to one that is not allowed.
        RunError
            The run stopped; :meth:`Selection.resume` goes on.
        KeyboardInterrupt
            The user interrupted it. Its jobs and processes are ended first, jobs of other sessions go on, and if the
            run had begun the message says how to resume it.
        """
        if params:
            raise InvalidArgumentError(
                f"GridSearch has no Params to fit with {params!r}: list the configurations in search_space"
            )
        self._check()
        if run_id is not None:
            check_name(run_id, "a run")
        with Interrupts() as interrupts:
            return self._search(data, run_id, interrupts)

    def _fit(self, dataset: DataFrame) -> Selection:
        return self.fit(dataset)

    def _prepared(self, data: DataFrame | PreparedData) -> PreparedData:
        if isinstance(data, PreparedData):
            self.backend.admit()
            return data
        return interruptible(self.backend.spark, lambda: self.prepare(data))

    def _search(self, data: DataFrame | PreparedData, run_id: str | None, interrupts: Interrupts) -> Selection:
        configs = self.configurations
        prepared = self._prepared(data)
        probed = probe(self.trainer_fn, configs[0], prepared, self.seed, self.backend)
        spec = RunSpec(
            run=run_id or f"run-{uuid.uuid4().hex[:12]}",
            prepared=prepared.name,
            configs=configs,
            trainer=trainer_name(self.trainer_fn),
            epochs=self.num_epochs,
            seed=self.seed,
            policy=self.schedule,
            replicas=self.replicas,
            metric=probed.metric(self.metric, validates=prepared.test_fraction > 0),
            larger_is_better=probed.larger_is_better(self.metric, self.mode),
        )
        with Lease(prepared.store, spec.run) as lease:
            Journal(prepared.store, spec.run).begin(spec)
            return train(
                spec,
                prepared,
                [Trial(spec.trial_id(number), params) for number, params in enumerate(configs)],
                trainer_fn=self.trainer_fn,
                probed=probed,
                backend=self.backend,
                lease=lease,
                interrupts=interrupts,
                followers=self._followers,
                parameters={name: getattr(self, name) for name in _LOGGED},
                unit_timeout_s=self.unit_timeout_s,
            )
