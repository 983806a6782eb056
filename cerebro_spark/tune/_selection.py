"""``Selection``: the result of a search, a Spark ML ``Model`` with the trials and the course of the run."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.ml import Model
from pyspark.ml.util import MLWritable

from cerebro_spark.errors import InvalidArgumentError, NoModelError
from cerebro_spark.hopper import Budget, Interrupts, Journal, Lease, Recorded, Run, RunSpec, Trial, probe
from cerebro_spark.tune._model import TunedModel
from cerebro_spark.tune._placements import on_workers, placements
from cerebro_spark.tune._repeat import Repeat
from cerebro_spark.tune._result import TrialResult, ranked_epoch, result_of
from cerebro_spark.tune._tables import run_tables
from cerebro_spark.tune._tracking import Followers, tracked
from optimizer.errors import nearest
from optimizer.procedures import EpochResult, Ledger, Listed, Schedule, Segment
from optimizer.procedures.studies import study_of
from optimizer.space import Space
from udfs.hopper import Checkpoints
from udfs.shards import PreparedData
from udfs.training import initial_seed, open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import optuna
    import pandas as pd
    from matplotlib.figure import Figure
    from pyspark.ml.util import MLWriter
    from pyspark.sql import DataFrame

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper import Coordinator, Outcome, Probed, SparkBackend
    from optimizer.hopper import Placement
    from optimizer.procedures import Procedure
    from udfs.store import Store

__all__ = ["Selection", "train", "trainer_name"]

_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class Selection(Model, MLWritable):
    """The result of :meth:`GridSearch.fit`: all trials, and a Spark ML ``Model`` that predicts with the best one.

    ``transform`` is that of :attr:`best_model`. So is ``write``: what is saved, by itself or in a ``PipelineModel``, is
    the best model alone, and loads as a :class:`TunedModel`. The trials stay in the store.

    Attributes
    ----------
    spec : RunSpec
        Settings of the run; ``spec.run`` is its id.
    prepared : PreparedData
    outcome : Outcome
        Units, losses and seconds of the run.
    trainer_fn : callable
    """

    spec: RunSpec
    prepared: PreparedData
    _trials: tuple[Trial, ...]
    outcome: Outcome
    trainer_fn: Callable[[dict[str, Any]], Any]
    _best_model: TunedModel | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__init__()

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return self.best_model.transform(dataset)

    def write(self) -> MLWriter:
        """Return a writer of the best model, which is loaded by ``TunedModel.load``."""
        return self.best_model.write()

    @property
    def run_id(self) -> str:
        """Id of the run in its store."""
        return self.spec.run

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The configurations, the best first; those that did not finish come last."""
        return tuple(sorted((result_of(trial, self.spec) for trial in self._trials), key=self._place))

    @property
    def best(self) -> TrialResult:
        """The best of those that finished, by their last epochs; with ``keep="best"`` and ``"epochs"`` by their best.

        Raises
        ------
        NoModelError
            None did.
        """
        first = self.trials[0]
        if first.status != "finished" or first.metric != first.metric:
            statuses = "; ".join(f"{trial.trial_id} {trial.status}" for trial in self.trials)
            last = first.traceback.strip().splitlines()[-1:] or ["no number to compare"]
            raise NoModelError(
                f"no configuration finished with a {self.spec.metric}: {statuses}. The first one: {last[0]}"
            )
        return first

    @property
    def best_params(self) -> dict[str, Any]:
        """The params of :attr:`best`.

        Raises
        ------
        NoModelError
            No configuration finished.
        """
        return self.best.params

    @property
    def best_score(self) -> float:
        """The metric of :attr:`best`; ``spec.metric`` is its name.

        Raises
        ------
        NoModelError
            No configuration finished.
        """
        return self.best.metric

    @property
    def best_model(self) -> TunedModel:
        """The network of :attr:`best`, as a Spark ML Transformer; each time a copy.

        Raises
        ------
        NoModelError
            No configuration finished.
        """
        if self._best_model is None:
            self._best_model = self.model(self.best.trial_id)
        return self._best_model.copy()

    def model(self, trial_id: str, *, epoch: int | None = None) -> TunedModel:
        """A configuration's network after one of its epochs, as a Spark ML Transformer.

        Parameters
        ----------
        trial_id : str
        epoch : int, optional
            Own epoch of the configuration, counted from 1, whose state the run keeps. By default the best one where the
            search has ``keep="best"`` or ``"epochs"``, and otherwise its state after its last unit.

        Raises
        ------
        NoModelError
            There is no such configuration, it has not been trained at all, or the store does not keep that epoch.
        udfs.documents.DamagedError
            Its checkpoint is damaged.
        """
        known = {trial.trial_id: trial for trial in self._trials}
        trial = known.get(trial_id)
        if trial is None or not trial.version:
            raise NoModelError(f"{trial_id!r} has no model{nearest(trial_id, known)}; trials: {', '.join(known)}")
        session = open_session(self.trainer_fn, trial.params, initial_seed(self.spec.seed, trial_id))
        version = self._version(trial, epoch)
        checkpoints = Checkpoints(self.prepared.store, self.spec.run)
        session.restore(checkpoints.read(trial_id, version, trial.digests[version]))
        return TunedModel.of(session, self.prepared)

    def lineage(self, trial_id: str) -> tuple[tuple[str, int], ...]:
        """List the configurations that led to one, the first ancestor first, each with the epochs it gave.

        Parameters
        ----------
        trial_id : str

        Returns
        -------
        tuple of (str, int)
            Ids and epochs; the last is the configuration itself, with all epochs that it has finished.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration.
        """
        trial = self._known(trial_id)
        line = [(trial.trial_id, len(trial.history))]
        while trial.source is not None:
            line.append((trial.source.trial_id, trial.source.epoch))
            trial = self._known(trial.source.trial_id)
        return tuple(line[::-1])

    def schedule_of(self, trial_id: str | None = None) -> Schedule:
        """List the params that led to a configuration, for :class:`ScheduleSearch` to train alone.

        Parameters
        ----------
        trial_id : str, optional
            By default that of :attr:`best`; then up to the epoch of its metric.

        Returns
        -------
        optimizer.procedures.Schedule
            Params and epochs along its lineage.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration, or it has finished no epoch.
        NoModelError
            No configuration finished.
        """
        best = self.best if trial_id is None else None
        *ancestors, (last, finished) = self.lineage(best.trial_id if best is not None else str(trial_id))
        epochs = best.epoch if best is not None else finished
        return Schedule(
            tuple(Segment(dict(self._known(name).params), count) for name, count in [*ancestors, (last, epochs)])
        )

    @property
    def unit_seconds(self) -> float:
        """Mean seconds in which a worker trained one configuration over one shard, its validation included.

        :meth:`Search.plan` makes times and costs of it. NaN where nothing was trained.
        """
        trained = sum(event.kind == "train" for event in self.outcome.events)
        return sum(event.seconds for event in self.outcome.events) / trained if trained else math.nan

    def history(self) -> dict[str, list[dict[str, float]]]:
        """List the metrics of each epoch, by trial id."""
        return {trial.trial_id: list(trial.history) for trial in self._trials}

    def to_pandas(self) -> pd.DataFrame:
        """Table of one row per trial and epoch: ``trial_id``, params, ``status``, ``epoch``, and the metrics."""
        import pandas as pd  # noqa: PLC0415 - heavy, and not everybody asks

        rows = [
            {"trial_id": trial.trial_id, **trial.params, "status": trial.status, "epoch": epoch, **metrics}
            for trial in self.trials
            for epoch, metrics in enumerate(trial.history)
        ]
        return pd.DataFrame(rows)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Read the run's record as tables: experiment, configurations, params, metrics, units, decisions, states.

        As :func:`run_tables`.
        """
        return run_tables(self.prepared.store, self.spec.run)

    def study(self, search_space: Mapping[str, Any] | Space) -> optuna.Study:
        """Make an Optuna study of the configurations, for its pictures and importances, or for a later search.

        Parameters
        ----------
        search_space : mapping or Space
            Of the search.

        Returns
        -------
        optuna.Study
            In memory: see :func:`optimizer.procedures.studies.study_of`.

        Raises
        ------
        InvalidArgumentError
            Optuna is not installed.
        SpaceError
            A configuration does not belong to the search space.
        """
        space = search_space if isinstance(search_space, Space) else Space(search_space)
        ledger = Ledger(self.spec.metric, _mode(self.spec))
        ledger.epochs_each = self.spec.epochs
        for trial in self._trials:
            known = ledger.start(dict(trial.params), max(1, len(trial.history)), None, "")
            ledger.tell([EpochResult(known.trial_id, epoch, row) for epoch, row in enumerate(trial.history, 1)])
            ledger.rest(known, "stopped" if trial.status == "finished" else trial.status, trial.reason)
        return study_of(space, ledger)

    def plot(self) -> Figure:
        """Draw learning curves: the metric by epoch, one line per configuration."""
        from cerebro_spark.tune._pictures import learning_curves  # noqa: PLC0415 - matplotlib, where a picture is wanted

        return learning_curves(self.trials, self.spec.metric)

    def gantt(self, follow: str | None = None) -> Figure:
        """Draw which configuration trained where and when (Cerebro, Figure A.14).

        Parameters
        ----------
        follow : str, optional
            Trial id; a line joins its units: its hops.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration.
        """
        from cerebro_spark.tune._pictures import gantt  # noqa: PLC0415

        if follow is not None:
            self._known(follow)
        return gantt(self.outcome.events, self.outcome.losses, follow)

    def explain(self) -> str:
        """Describe the run in words."""
        outcome, events = self.outcome, self.outcome.events
        busy = sum(event.seconds for event in events)
        trained = [event for event in events if event.kind == "train"]
        hops = [event for event in events if event.fetched_bytes and not event.from_store]
        hopped, training = sum(event.fetched_bytes for event in hops), sum(event.kind == "train" for event in hops)
        workers = sorted({event.worker for event in events})
        what = f"{len(self._trials)} configurations, {self.spec.epochs} epochs, {len(self.prepared.partitions)} shards"
        lines = [
            f"{what} on {len(workers)} workers: {outcome.seconds:,.1f} s",
            f"  {len(trained)} training units, {len(events) - len(trained)} of validation; {busy:,.1f} s in them",
            f"  {len(hops)} hops, {training} of them to train; {hopped / 2**20:,.1f} MiB in all",
            f"  {outcome.decision_seconds:.2f} s of scheduling; {outcome.checkpoint_seconds:.1f} s writing checkpoints",
            f"  {outcome.redone} units redone after {len(outcome.losses)} lost workers",
            *(f"    {loss}" for loss in outcome.losses),
            *([f"  {outcome.refused} calls refused that did not come from this run"] if outcome.refused else []),
        ]
        return "\n".join(lines)

    @classmethod
    def resume(
        cls,
        store: Store,
        run_id: str,
        *,
        backend: SparkBackend,
        trainer_fn: Callable[[dict[str, Any]], Any],
        num_epochs: int | None = None,
        unit_timeout_s: float | None = None,
        callbacks: Sequence[Callback] = (),
        experiment: str | None = None,
        tensorboard: str | None = None,
        progress: bool = True,
    ) -> Selection:
        """Go on with a run that stopped, from the last checkpoints that its store has.

        Parameters
        ----------
        store : Store
        run_id : str
        backend : SparkBackend
        trainer_fn : callable
            The function that the run began with. The store has its name alone, and nothing is imported by a name that
            a file holds; a function of another name is used, with a warning.
        num_epochs : int, optional
            Larger than what the run began with, to train longer.
        unit_timeout_s, callbacks, experiment, tensorboard, progress
            As for :class:`GridSearch`; MLflow gets a run of its own with the whole history.

        Returns
        -------
        Selection

        Raises
        ------
        RunError
            There is no such run, its files are damaged, or another driver is training it. Where a driver was killed on
            another machine, this call finds that out in 20 seconds; on this one, at once.
        InvalidArgumentError
            ``trainer_fn`` cannot be called.
        KeyboardInterrupt
            As for :meth:`GridSearch.fit`.
        """
        if not callable(trainer_fn):
            raise InvalidArgumentError(f"trainer_fn={trainer_fn!r}: give the function that the run began with")
        followers = Followers(callbacks=callbacks, experiment=experiment, tensorboard=tensorboard, progress=progress)
        journal = Journal(store, run_id)
        spec = journal.spec()
        if spec.procedure != "GridSearch":
            raise InvalidArgumentError(
                f"run {run_id!r} is a {spec.procedure}, whose settings are not in the store: make the search again and "
                f"call its resume({run_id!r})"
            )
        longer = num_epochs is not None and num_epochs > spec.epochs
        if num_epochs is not None and longer:
            spec = replace(spec, epochs=num_epochs)
        prepared = PreparedData.load(store, spec.prepared)
        if trainer_name(trainer_fn) != spec.trainer:
            _LOG.warning(
                "run %s began with the trainer_fn %s and goes on with %s",
                run_id,
                spec.trainer,
                trainer_name(trainer_fn),
            )
        backend.admit()
        probed = probe(trainer_fn, spec.configs[0], prepared, spec.seed, backend)
        with Interrupts() as interrupts, Lease(store, run_id) as lease:
            if longer:
                journal.forget_orders()
            return train(
                spec,
                prepared,
                Listed(spec.configs, epochs=spec.epochs, metric=spec.metric, mode=_mode(spec)),
                trainer_fn=trainer_fn,
                probed=probed,
                backend=backend,
                lease=lease,
                interrupts=interrupts,
                followers=followers,
                parameters={"resumed": run_id, "num_epochs": spec.epochs, "seed": spec.seed},
                unit_timeout_s=unit_timeout_s,
            )

    def replay(
        self,
        *,
        backend: SparkBackend,
        run_id: str | None = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
    ) -> Selection:
        """Train everything once more, with every visit where and in the order in which it was: the same bits.

        Clones too take the states that they took. Configurations that failed or were stopped train as far as they did,
        and end as they ended: a unit that failed is not tried again.

        Parameters
        ----------
        backend : SparkBackend
            With as many workers. With others the bits are the same, but visits of workers that are not there go to
            those that have the shard.
        run_id : str, optional
            Id of the new run; ``<run>-replay`` by default.
        callbacks, progress
            As for :class:`GridSearch`.

        Returns
        -------
        Selection

        Raises
        ------
        RunError
            There is a run of that id; or a configuration has failed this time that others were cloned from.
        """
        followers = Followers(callbacks=callbacks, progress=progress)
        spec = replace(self.spec, run=run_id or f"{self.spec.run}-replay")
        backend.admit()
        probed = probe(self.trainer_fn, spec.configs[0], self.prepared, spec.seed, backend)
        visits = on_workers(self.placements(), backend.num_workers)
        recorded = Recorded(visits, {trial.trial_id: trial for trial in self._trials})
        with Interrupts() as interrupts, Lease(self.prepared.store, spec.run) as lease:
            Journal(self.prepared.store, spec.run).begin(spec)
            return train(
                spec,
                self.prepared,
                Repeat(self._trials, metric=spec.metric, mode=_mode(spec)),
                trainer_fn=self.trainer_fn,
                probed=probed,
                backend=backend,
                lease=lease,
                interrupts=interrupts,
                followers=followers,
                parameters={},
                recorded=recorded,
            )

    def placements(self) -> dict[int, tuple[Placement, ...]]:
        """List by epoch which unit ran where and when: a replay follows it."""
        return placements(self._trials, self.outcome.events)

    def _known(self, trial_id: str) -> Trial:
        known = {trial.trial_id: trial for trial in self._trials}
        if trial_id not in known:
            raise InvalidArgumentError(f"no trial {trial_id!r}{nearest(trial_id, known)}; there are {len(known)}")
        return known[trial_id]

    def _version(self, trial: Trial, epoch: int | None) -> int:
        """Find the checkpoint of an epoch, or the one that stands for a trial."""
        units = len(self.prepared.partitions)
        kept = [
            number
            for number in range(1, len(trial.history) + 1)
            if trial.digests[number * units] in trial.stored.get(number * units, ())
        ]
        if epoch is None and (self.spec.keep == "last" or not trial.history):
            return trial.durable_version
        wanted = ranked_epoch(trial, self.spec) if epoch is None else epoch
        if wanted not in kept:
            raise NoModelError(
                f"the store has no state of {trial.trial_id} after epoch {wanted!r}; those of the run's "
                f"keep={self.spec.keep!r} are of epochs {', '.join(map(str, kept)) or 'none'}"
            )
        return wanted * units

    def _place(self, result: TrialResult) -> tuple[bool, float, str]:
        known = result.status == "finished" and result.metric == result.metric
        return (
            not known,
            (-result.metric if self.spec.larger_is_better else result.metric) if known else 0.0,
            result.trial_id,
        )


def _mode(spec: RunSpec) -> str:
    return "max" if spec.larger_is_better else "min"


def trainer_name(trainer_fn: Callable[..., Any]) -> str:
    """Name a user's function as ``module:name``, for people to recognise; nothing is imported by it."""
    return f"{getattr(trainer_fn, '__module__', '?')}:{getattr(trainer_fn, '__qualname__', '?')}"


def train(  # noqa: PLR0913 - what a run is made of
    spec: RunSpec,
    prepared: PreparedData,
    procedure: Procedure,
    *,
    trainer_fn: Callable[[dict[str, Any]], Any],
    probed: Probed,
    backend: SparkBackend,
    lease: Lease,
    interrupts: Interrupts,
    followers: Followers,
    parameters: Mapping[str, Any],
    unit_timeout_s: float | None = None,
    budget: Budget | None = None,
    recorded: Recorded | None = None,
    begun: Callable[[Coordinator, RunSpec], None] | None = None,
) -> Selection:
    """Train what a procedure starts, with those following who are to follow.

    Parameters
    ----------
    spec : RunSpec
        Of a run that its journal has.
    prepared : PreparedData
    procedure : Procedure
        New.
    trainer_fn : callable
    probed : Probed
        A configuration, as it was tried on the driver.
    backend : SparkBackend
    lease : Lease
        Of the run, held.
    interrupts : Interrupts
        Of this thread, entered.
    followers : Followers
    parameters : mapping
        Settings of the search, for MLflow.
    unit_timeout_s : float, optional
    budget : Budget, optional
        Without limits by default.
    recorded : Recorded, optional
        Earlier run to follow.
    begun : callable, optional
        Called with the coordinator and the settings before the first unit.

    Raises
    ------
    RunError
        The run stopped.
    """
    run = Run(
        spec=spec,
        journal=Journal(prepared.store, spec.run),
        backend=backend,
        prepared=prepared,
        trainer_fn=trainer_fn,
        procedure=procedure,
        probed=probed,
        lease=lease,
        interrupts=interrupts,
        unit_timeout_s=unit_timeout_s,
        budget=budget or Budget(),
        recorded=recorded,
        begun=begun,
    )
    with tracked(followers, run=spec.run, parameters=parameters) as following:
        trials, outcome = run.execute(following.callbacks)
        selection = Selection(spec, prepared, tuple(trials), outcome, trainer_fn)
        following.finish(selection)
    return selection
