"""GroupedSearch: an Estimator that trains one model per group of rows and configuration."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from pyspark.ml import Estimator

from cerebro_spark.errors import InvalidArgumentError, RunError
from cerebro_spark.grouping._keys import check_names
from cerebro_spark.grouping._mlflow import check_server, log_run
from cerebro_spark.grouping._model import GroupedModel
from cerebro_spark.grouping._prepare import prepare_groups
from cerebro_spark.grouping._results import pack_models
from cerebro_spark.hopper import check_modules, check_trainer, probe, uses_slots
from cerebro_spark.tune import check_objectives, grid
from optimizer.arguments import whole
from optimizer.grouping import GroupPlan, plan_items
from udfs.documents import document, write_document
from udfs.driver import interruptible, validate_arguments
from udfs.grouping import GroupedData, GroupTraining, run_folder
from udfs.names import check_name
from udfs.training import view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.hopper import Probed, SparkBackend
    from optimizer.grouping import WorkItem
    from optimizer.space import Space
    from udfs.handlers import ModelTrainer
    from udfs.store import Store
    from udfs.training import TrainingFunctions

__all__ = ["GroupedSearch"]

_SPEC = "spec.json"
# Reports of items that are read for notes.
_NOTED = 100
# Settings that are not logged as parameters: objects, and that of the tracker.
_NOT_LOGGED = {"backend", "store", "trainer_fn", "experiment"}


@validate_arguments
@dataclass(kw_only=True, eq=False)
class GroupedSearch(Estimator[GroupedModel]):
    """Train one model per group of rows and configuration, and keep the best configuration of each group.

    The rows are sorted by group once and written as shards with an index. One Spark job trains all groups: each task
    reads the groups of a work item by their offsets, trains them one after the other, and writes models and results to
    the store, so the driver's memory does not depend on the number of groups. A large group is split by configuration
    over several tasks.

    Groups that cannot be trained, or whose training fails, get a row with a reason in :attr:`GroupedModel.groups`.
    Their rows, and rows of keys that are null or unseen, are predicted by the group of fewer columns, or by a global
    model of all rows.

    Parameters
    ----------
    backend : SparkBackend
        Session, and the device and threads of a task. ``num_workers`` is the number of tasks at a time that the work is
        planned for.
    store : Store
        Place of the prepared data, the models and the results.
    trainer_fn : callable
        Function of a configuration's params (a dict) to a :class:`ModelTrainer` or :class:`TrainingFunctions`. All
        groups of a configuration begin with the same weights.
    group_by : sequence of str
        Columns of the keys, from the outermost level to the innermost: strings, whole numbers, booleans or dates.
    search_space : mapping of str to sequence, sequence of mapping, or Space
        Configurations, as for :class:`GridSearch`.
    num_epochs : int
        Number of epochs of each model.
    feature_columns, label_columns, weight_column, image_size, errors
        As for :class:`GridSearch`.
    test_fraction : float
        Share of the rows of each group held out for validation. Default 0.25. A group without held-out rows is scored
        on the rows that it was trained on, and says so.
    metric : str
        Metric that decides between the configurations of a group: ``"loss"`` (default) or one of the trainer's.
    mode : {"min", "max"}, optional
        Direction in which the metric is better. By default the metric defines it.
    min_rows : int
        Least number of rows of a group that is trained. Default 2.
    fallback : bool
        Whether the groups of fewer columns and a global model are trained too. Default true.
    fallback_rows : int
        Largest number of rows of each of these. Default 10,000.
    num_shards : int, optional
        Number of shards. Default: twice the number of workers.
    experiment : str, optional
        MLflow experiment that gets one run with a table of the groups. By default nothing is logged.
    seed : int
        Seed of the row order, the held-out rows and the initial weights. Default 0.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import GroupedSearch, SparkBackend, Store
    >>> search = GroupedSearch(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     group_by=["state", "city"],
    ...     search_space={"lr": [1e-2, 1e-3]},
    ...     num_epochs=5,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ... )
    >>> search.configurations
    [{'lr': 0.01}, {'lr': 0.001}]
    """

    __module__ = "cerebro_spark"

    backend: SparkBackend
    store: Store
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer | TrainingFunctions]
    group_by: Sequence[str]
    search_space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Space
    num_epochs: int
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]]
    label_columns: Sequence[str]
    weight_column: str | None = None
    image_size: int | None = None
    test_fraction: float = 0.25
    metric: str = "loss"
    mode: str | None = None
    min_rows: int = 2
    fallback: bool = True
    fallback_rows: int = 10_000
    num_shards: int | None = None
    errors: str = "drop"
    experiment: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self._check()

    def _check(self) -> None:
        check_names(self.group_by)
        for name in ("num_epochs", "min_rows", "fallback_rows"):
            whole(name, getattr(self, name))
        check_objectives(self.metric, self.mode)
        _ = self.configurations

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """The params of each configuration."""
        return grid(self.search_space)

    @validate_arguments
    def prepare(self, df: DataFrame) -> GroupedData:
        """Sort the rows by group, and write them as shards; see :func:`cerebro_spark.grouping.prepare_groups`.

        Parameters
        ----------
        df : DataFrame
            Rows with the key, feature, label and weight columns.

        Returns
        -------
        GroupedData
            Shards in the store. A later search over the same rows uses them again.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError
            The data or the store is not suitable.
        """
        return prepare_groups(
            df,
            self.store,
            group_by=self.group_by,
            feature_columns=self.feature_columns,
            label_columns=self.label_columns,
            weight_column=self.weight_column,
            num_shards=self.num_shards or 2 * self.backend.most_workers,
            test_fraction=self.test_fraction,
            fallback_rows=self.fallback_rows,
            seed=self.seed,
            image_size=self.image_size,
            errors=self.errors,
        )

    @validate_arguments
    def plan(self, data: GroupedData, seconds_per_row: float | None = None) -> GroupPlan:
        """Plan the search: groups, sizes, work items and time.

        Parameters
        ----------
        data : GroupedData
            Shards that :meth:`prepare` has written.
        seconds_per_row : float, optional
            Seconds to train one row for one epoch, such as :attr:`GroupedModel.seconds_per_row` of an earlier run. By
            default the plan has no time.
        """
        return GroupPlan(
            data.group_by,
            data.levels,
            data.sizes,
            self._items(data),
            len(self.configurations),
            self.num_epochs,
            self.backend.num_workers,
            seconds_per_row,
        )

    @validate_arguments
    def fit(  # type: ignore[override]
        self,
        data: DataFrame | GroupedData,
        params: Mapping[Any, Any] | None = None,
        *,
        run_id: str | None = None,
        if_begun: str = "error",
    ) -> GroupedModel:
        """Train all groups.

        Parameters
        ----------
        data : DataFrame or GroupedData
            Rows to train on, or the shards that :meth:`prepare` has written.
        params : mapping, optional
            Spark ML's param map, which has to be empty.
        run_id : str, optional
            Name of the run in the store. By default a new name.
        if_begun : {"error", "resume"}
            What to do if the store has a run of that name: raise RunError, or train the work items that are not
            finished. Default ``"error"``.

        Returns
        -------
        GroupedModel
            Spark ML ``Model`` that routes each row to the model of its group.

        Raises
        ------
        ColumnError, EmptyInputError, LabelError, StoreError
            See :meth:`prepare`.
        TrainerError, MetricError
            No configuration can be trained on the data, or there is no such metric. Nothing was trained.
        RunError
            There is a run of that name, or the one to resume has other settings.
        """
        if params:
            raise InvalidArgumentError(f"params must be empty, got {params!r}. List the configurations in search_space")
        self._check()
        if if_begun not in {"error", "resume"}:
            raise InvalidArgumentError(f"if_begun must be 'error' or 'resume', got {if_begun!r}")
        run = f"groups-{uuid.uuid4().hex[:12]}" if run_id is None else check_name(run_id, "a run")
        spark, configurations = self.backend.spark, self.configurations
        check_server(self.experiment)
        if not isinstance(data, GroupedData):
            check_trainer(self.trainer_fn, configurations, self.seed, self.metric, None)
            frame = data
            data = interruptible(spark, lambda: self.prepare(frame))
        elif data.group_by != tuple(self.group_by):
            raise InvalidArgumentError(
                f"data must be prepared for groups by {', '.join(self.group_by)}, got {', '.join(data.group_by)}. Call "
                "prepare() of this search"
            )
        probed = probe(
            self.trainer_fn,
            configurations,
            data.prepared,
            self.seed,
            self.backend,
            epochs=self.num_epochs,
            by_group=True,
        )
        if view_of(probed.session) is not None:
            raise InvalidArgumentError(
                "trainer_fn must return a trainer without a view, because all groups read the same inputs, got "
                f"view={view_of(probed.session)!r}"
            )
        check_modules(spark, self.trainer_fn)
        training = self._training(data, run, probed)
        self._begin(training, resume=if_begun == "resume")
        notes = interruptible(spark, lambda: self._run(training))
        model = pack_models(spark, training, probed, notes)
        if self.experiment is not None:
            log_run(self.experiment, model, self._parameters)
        return model

    def _fit(self, dataset: DataFrame) -> GroupedModel:
        return self.fit(dataset)

    @property
    def _parameters(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _NOT_LOGGED}

    def _items(self, data: GroupedData) -> tuple[WorkItem, ...]:
        return plan_items(data.chunks, len(self.configurations), self.backend.num_workers)

    def _training(self, data: GroupedData, run: str, probed: Probed) -> GroupTraining:
        objective, *_ = probed.objectives(self.metric, self.mode, validates=self.test_fraction > 0)
        return GroupTraining(
            data,
            dict(enumerate(self._items(data))),
            run,
            self.trainer_fn,
            tuple(self.configurations),
            probed.session.sums.decision,
            objective.metric.removeprefix("val_"),
            objective.larger_is_better,
            self.num_epochs,
            self.seed,
            self.min_rows,
            self.fallback,
            self.backend.threads_per_worker,
            self.backend.device,
        )

    def _begin(self, training: GroupTraining, *, resume: bool) -> None:
        """Write the settings of a new run, or compare those of the run to resume."""
        store, place = self.store, (*run_folder(training.run), _SPEC)
        spec = training.spec
        if not store.exists(*place):
            write_document(store, spec, *place)
            return
        if not resume:
            raise RunError(f"run_id must name a new run, got {training.run!r}. if_begun='resume' continues it")
        with document(store, *place, remedy="begin a new run") as begun:
            differing = [name for name, value in json.loads(json.dumps(spec)).items() if begun.get(name) != value]
        if differing:
            raise RunError(
                f"the search must have the settings of run {training.run!r}, got other values of "
                f"{', '.join(differing)}. Begin a new run"
            )

    def _run(self, training: GroupTraining) -> list[str]:
        """Train the items that are not finished, in one Spark job with a task for each; return notes."""
        done = {int(name.split("-")[1].split(".")[0]) for name in self.store.list(*run_folder(training.run), "groups")}
        left = [number for number in training.items if number not in done]
        if not left:
            return []
        spark = self.backend.spark
        # Tasks start in the order of their numbers: the most expensive item first.
        job = replace(
            training, items={place: training.items[number] for place, number in enumerate(left)}, numbers=tuple(left)
        )
        with uses_slots(spark):
            job_rows = spark.range(0, len(left), 1, len(left)).mapInArrow(job, GroupTraining.schema)
            reports = job_rows.select("notes").distinct().limit(_NOTED).collect()
        return sorted({note for row in reports for note in row["notes"].split("\n") if note})
