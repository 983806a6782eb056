"""``GridSearch``: many training configurations over one DataFrame, all trained by plain SGD while the models hop."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from cerebro_spark.data import prepare
from cerebro_spark.errors import InvalidArgumentError, TrainerError
from cerebro_spark.hopper import Journal, Run, RunSpec, Trial, probe
from cerebro_spark.tune._selection import Selection
from cerebro_spark.tune._space import grid
from cerebro_spark.tune._tracking import tracked
from optimizer.errors import nearest
from optimizer.hopper import POLICIES
from udfs.shards import PreparedData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.hopper import SparkBackend
    from udfs.store import Store
    from udfs.training import ModelTrainer, TrainingFunctions

__all__ = ["GridSearch"]

# Of a search, as MLflow's parameters.
_LOGGED = (
    "search_space",
    "num_epochs",
    "feature_columns",
    "label_columns",
    "validation",
    "evaluation_metric",
    "replicas",
    "schedule",
    "seed",
)


@dataclass(frozen=True, kw_only=True)
class GridSearch:
    """Train every configuration of a search space on every shard of the data, epoch by epoch (Cerebro, section 3.3).

    Each worker keeps its shards; a configuration trains on one shard at a time and hops to the next worker with its
    optimiser, its schedule and its random numbers. So each is trained by sequential SGD, all of them in parallel, for
    one copy of the data.

    Parameters
    ----------
    backend : SparkBackend
    store : Store
        Of the prepared data and the checkpoints.
    trainer_fn : callable
        Takes a configuration's params (a dict), gives a :class:`ModelTrainer` or :class:`TrainingFunctions`. It runs on
        the workers, and once here.
    search_space : mapping of str to sequence, or sequence of mapping
        Values by name, or the configurations themselves. Plain data: strings, numbers, lists.
    num_epochs : int
    feature_columns, label_columns, image_size
        As for :func:`prepare`.
    validation : float
        Share of the rows that is held out, partitioned like the rest. Default 0.25; with 0 the training loss decides.
    evaluation_metric : str
        ``"loss"`` (default) or a metric of the trainer, on the validation rows.
    mode : {"min", "max"}, optional
        By default what the metric asks for.
    partitions : int, optional
        Shards; one a worker by default, those that may come later included.
    replicas : int
        Workers that keep each shard: with more than one nobody waits for a lost worker. Default 1.
    schedule : str
        ``"longest-remaining-elsewhere"`` (default) and the others of :data:`optimizer.hopper.POLICIES` are online: they
        follow measured times, and a run is repeated exactly by :meth:`Selection.replay`. ``"fixed"`` takes the order
        from the seed alone.
    unit_timeout_s : float, optional
        After which a unit is held to hang, and its worker is ended; by default 20 times the configuration's longest so
        far, and a minute.
    errors : {"raise", "drop"}
        What becomes of rows that cannot be learned from, as for :func:`prepare`.
    experiment : str or None
        MLflow experiment to log to; ``None`` (default) logs nothing.
    tensorboard : str, optional
        Folder for TensorBoard's event files.
    progress : bool
        Show a live table.
    seed : int
        Of shuffles, splits, initial weights and visits.

    Raises
    ------
    InvalidArgumentError
        A value that cannot be.

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
    ...     evaluation_metric="accuracy",
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
    validation: float = 0.25
    evaluation_metric: str = "loss"
    mode: str | None = None
    partitions: int | None = None
    replicas: int = 1
    schedule: str = POLICIES[0]
    unit_timeout_s: float | None = None
    errors: str = "raise"
    experiment: str | None = None
    tensorboard: str | None = None
    progress: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
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
        if self.partitions is not None and self.partitions < self.backend.num_workers:
            raise InvalidArgumentError(
                f"partitions={self.partitions}: fewer than the {self.backend.num_workers} workers leave some idle"
            )
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

    def prepare(self, df: DataFrame) -> PreparedData:
        """Shuffle, split and write the shards, once; a later search over the same data finds them.

        Parameters
        ----------
        df : DataFrame

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            What is wrong with the data, the store or the cluster, before anything is trained.
        """
        self.backend.admit()
        return prepare(
            df,
            self.store,
            feature_columns=self.feature_columns,
            label_columns=self.label_columns,
            num_partitions=self.partitions or self.backend.most_workers,
            validation=self.validation,
            seed=self.seed,
            image_size=self.image_size,
            errors=self.errors,
        )

    def fit(self, data: DataFrame | PreparedData, *, run_id: str | None = None) -> Selection:
        """Train them all.

        Parameters
        ----------
        data : DataFrame or PreparedData
        run_id : str, optional
            Name of the run in the store; a new one by default.

        Returns
        -------
        Selection

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError
            As for :meth:`prepare`.
        TrainerError, MetricError
            The first configuration cannot be built or run on the data, or has no such metric; before anything is
            trained.
        RunError
            The run stopped; :meth:`Selection.resume` goes on.
        """
        configs = self.configurations
        if isinstance(data, PreparedData):
            self.backend.admit()
            prepared = data
        else:
            prepared = self.prepare(data)
        probed = probe(self.trainer_fn, configs[0], prepared, self.seed, self.backend)
        run_id = run_id or f"run-{uuid.uuid4().hex[:12]}"
        spec = RunSpec(
            run=run_id,
            prepared=prepared.name,
            configs=configs,
            trainer=f"{self.trainer_fn.__module__}:{getattr(self.trainer_fn, '__qualname__', '?')}",
            epochs=self.num_epochs,
            seed=self.seed,
            policy=self.schedule,
            replicas=self.replicas,
            metric=probed.metric(self.evaluation_metric, validates=prepared.validation > 0),
            larger_is_better=probed.larger_is_better(self.evaluation_metric, self.mode),
        )
        journal = Journal(self.store, run_id)
        journal.begin(spec)
        trials = [Trial(spec.config(number), params) for number, params in enumerate(configs)]
        run = Run(
            spec=spec,
            journal=journal,
            backend=self.backend,
            prepared=prepared,
            trainer_fn=self.trainer_fn,
            trials=trials,
            probed=probed,
            progress=self.progress,
            unit_timeout_s=self.unit_timeout_s,
        )
        return tracked(
            lambda followers: Selection(spec, prepared, tuple(trials), run.execute(followers), self.trainer_fn),
            experiment=self.experiment,
            tensorboard=self.tensorboard,
            run=run_id,
            parameters={name: getattr(self, name) for name in _LOGGED},
        )
