"""Selection: the result of a search, a Spark ML ``Model``, with methods to resume and to replay its run."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.ml import Model
from pyspark.ml.util import MLWritable
from pyspark.sql import SparkSession

from cerebro_spark.ensembles import EnsembleModel, EnsembleSettings, build_ensemble
from cerebro_spark.errors import InvalidArgumentError, NoModelError, RunError
from cerebro_spark.hopper import Interrupts, Journal, Lease, Recorded, RunContext, Trial, probe
from cerebro_spark.tune._model import TunedModel
from cerebro_spark.tune._placements import on_workers
from cerebro_spark.tune._repeat import Repeat
from cerebro_spark.tune._result import ranked_epoch
from cerebro_spark.tune._results import Results
from cerebro_spark.tune._resume_checks import check_resumable
from cerebro_spark.tune._tracking import Followers
from cerebro_spark.tune._train import metric_and_mode, train, trainer_name
from optimizer.ensembles import Elimination
from optimizer.errors import nearest
from optimizer.procedures import Listed
from udfs.driver import validate_arguments
from udfs.ensembles import CandidateStates, ShardPredictions
from udfs.handlers import open_session, settings_kept
from udfs.hopper import Checkpoints
from udfs.shards import load_prepared, load_sample
from udfs.training import Folds, Session, TaskDecision, follow_task, initial_seed, random_stream, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.ml.util import MLWriter
    from pyspark.sql import DataFrame

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper import SparkBackend
    from udfs.store import Store

__all__ = ["Selection"]

_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class Selection(Results, Model, MLWritable):
    """Result of :meth:`Search.fit`: all trials, and a Spark ML ``Model`` that predicts with the best one.

    ``transform`` is that of :attr:`best_model`. ``write`` saves the best model alone, by itself or in a
    ``PipelineModel``; it loads as a :class:`TunedModel`. The trials stay in the store.

    Parameters
    ----------
    run : RunResult
        Result of the run.
    trainer_fn : callable
        User's function that the run trained with.
    """

    trainer_fn: Callable[[dict[str, Any]], Any]
    _best_model: TunedModel | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        Model.__init__(self)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return self.best_model.transform(dataset)

    def write(self) -> MLWriter:
        """Return a writer of the best model, which is loaded by ``TunedModel.load``."""
        return self.best_model.write()

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
            Id of the configuration.
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
        trial, state = self._checkpoint(trial_id, epoch)
        with settings_kept():
            return TunedModel.of(self._restored(trial, state()), self.prepared)

    @validate_arguments
    def ensemble(
        self,
        k: int,
        metrics: Sequence[str] = (),
        *,
        vote: str = "mean",
        replace: bool = True,
        elimination: Elimination | None = None,
        seed: int = 0,
    ) -> EnsembleModel:
        """Choose the configurations that predict best together, and combine their networks in a Transformer.

        The held-out rows are split into two parts by a hash of their features. On the first part, members are chosen
        one by one, each time the one with which the ensemble scores best (greedy selection with replacement; Caruana et
        al., Ensemble Selection from Libraries of Models, ICML 2004). The other part reports the result:
        :attr:`EnsembleModel.scores`. One Spark job predicts all held-out rows with all candidates. Of each shard as
        many rows as fit into 256 MiB of predictions are used.

        Parameters
        ----------
        k : int
            Number of choices; at most the number of configurations.
        metrics : sequence of str
            Metrics on which a member must be about as good and as stable as the others on all of them; the first metric
            decides the choices. By default the metric of the search decides, or ``"log_loss"`` or ``"mse"`` if combined
            outputs do not have it, and no candidate is eliminated.
        vote : {"mean", "majority", "weighted"}
            Combination of the members: the mean of their probabilities or values (default), one vote for each choice,
            with the mean probability for equal votes, or the mean weighted by each member's score alone.
        replace : bool
            Whether a configuration may be chosen several times, and then counts several times. Default true.
        elimination : optimizer.ensembles.Elimination, optional
            Limits of the elimination by ``metrics``. By default 2 standard errors, and twice the median variation.
        seed : int
            Seed of the two parts. Default 0.

        Returns
        -------
        EnsembleModel
            Spark ML Transformer with a table of its members. Candidates are the configurations that have not failed,
            with all epochs of a search with ``keep="epochs"``.

        Raises
        ------
        InvalidArgumentError
            ``k`` is above the number of configurations, no rows are held out, a metric or vote does not fit the task,
            members predict different classes, or too few candidates are left.
        NoModelError
            No configuration can predict the held-out rows.
        BusyError
            A run holds the task slots of the session.
        udfs.inference.NotPortableError
            The network of a member cannot be written without its author's code.

        Examples
        --------
        Vote by the three best of the stable configurations, as in section 4.1 of Cerebro's thesis::

            model = selection.ensemble(3, ["accuracy", "recall_macro"], vote="majority", replace=False)
            print(model.explain())
            model.save("artifacts/ensemble")
        """
        settings = EnsembleSettings(k, tuple(metrics), vote, replace, elimination or Elimination())
        keeps_epochs = self.spec.keep == "epochs"
        candidates = []
        for trial in self.trials:
            if trial.failed or not trial.epoch:
                continue
            states = self.epoch_states(trial.trial_id) if keeps_epochs else {}
            states = states or {trial.epoch: self._checkpoint(trial.trial_id)[1]}
            candidates.append(CandidateStates(trial.trial_id, trial.params, states))
        job = ShardPredictions(
            prepared=self.prepared,
            trainer_fn=self.trainer_fn,
            seed=self.spec.seed,
            decision=TaskDecision.from_dict(self.spec.task) if self.spec.task else None,
            candidates=tuple(candidates),
            folds=Folds(2, seed),
        )
        return build_ensemble(
            job,
            settings,
            self.spec.metric.removeprefix("val_"),
            lambda trial_id, epoch: self.model(trial_id, epoch=epoch if keeps_epochs else None),
            SparkSession.active(),
        )

    def epoch_states(self, trial_id: str) -> dict[int, Callable[[], bytes]]:
        """List the epochs whose states the store keeps of a configuration.

        Parameters
        ----------
        trial_id : str
            Id of the configuration.

        Returns
        -------
        dict of int to callable
            Epochs, counted from 1, each with a function that reads the state, on the driver or in a worker. Only a
            search with ``keep="epochs"`` keeps all.

        Raises
        ------
        NoModelError
            There is no such configuration, or it has not been trained at all.
        """
        trial, _ = self._checkpoint(trial_id)
        return {epoch: self._checkpoint(trial_id, epoch)[1] for epoch in self._kept_epochs(trial)}

    def _checkpoint(self, trial_id: str, epoch: int | None = None) -> tuple[Trial, Callable[[], bytes]]:
        """Return a trial and a function that reads the state of its model, on the driver or in a worker."""
        known = {trial.trial_id: trial for trial in self._trials}
        trial = known.get(trial_id)
        if trial is None or not trial.version:
            raise NoModelError(f"{trial_id!r} has no model{nearest(trial_id, known)}; trials: {', '.join(known)}")
        version = self._version(trial, epoch)
        checkpoints = Checkpoints(self.prepared.store, self.spec.run)
        return trial, partial(checkpoints.read, trial_id, version, trial.digests[version])

    def _restored(self, trial: Trial, state: bytes) -> Session:
        """Open a trial's model at a checkpoint."""
        seed = initial_seed(self.spec.seed, random_stream(trial.trial_id, trial.params))
        session = open_session(self.trainer_fn, trial.params, seed, data=self.prepared)
        session.restore(state)
        if self.spec.task:
            sample = partial(load_sample, self.prepared, view=view_of(session))
            follow_task(session, TaskDecision.from_dict(self.spec.task), sample)
        return session

    @classmethod
    @validate_arguments
    def resume(  # noqa: PLR0913 - options by name
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
        """Resume an interrupted run from the last checkpoints in its store.

        Parameters
        ----------
        store : Store
            Store with the run.
        run_id : str
            Name of the run in the store.
        backend : SparkBackend
            Workers of the run.
        trainer_fn : callable
            The function that the run began with. The store has its name alone, and nothing is imported by a name that
            a file holds; a function of another name is used, with a warning.
        num_epochs : int, optional
            Larger than what the run began with, to train longer. By default that number.
        unit_timeout_s, callbacks, experiment, tensorboard, progress
            See :class:`GridSearch`; MLflow gets a run of its own with the whole history.

        Returns
        -------
        Selection
            Result of the search.

        Raises
        ------
        RunError
            There is no such run, it is a replay, its files are damaged, or another driver is training it. Where a
            driver was killed on another machine, this call finds that out in 20 seconds; on this one, at once.
        InvalidArgumentError
            ``trainer_fn`` cannot be called, or ``num_epochs`` is less than what the run began with.
        KeyboardInterrupt
            See :meth:`GridSearch.fit`.
        """
        followers = Followers(callbacks=callbacks, experiment=experiment, tensorboard=tensorboard, progress=progress)
        journal = Journal(store, run_id)
        spec = journal.spec()
        check_resumable(spec)
        if spec.procedure != "GridSearch":
            raise InvalidArgumentError(
                f"run {run_id!r} is a {spec.procedure}, whose settings are not in the store: make the search again and "
                f"call its resume({run_id!r})"
            )
        if num_epochs is not None and num_epochs < spec.epochs:
            raise InvalidArgumentError(
                f"num_epochs must be at least {spec.epochs}, the epochs that run {run_id!r} began with, got "
                f"{num_epochs}."
            )
        longer = num_epochs is not None and num_epochs > spec.epochs
        if num_epochs is not None and longer:
            spec = replace(spec, epochs=num_epochs)
        prepared = load_prepared(store, spec.prepared)
        if trainer_name(trainer_fn) != spec.trainer:
            _LOG.warning(
                "run %s began with the trainer_fn %s and goes on with %s",
                run_id,
                spec.trainer,
                trainer_name(trainer_fn),
            )
        backend.admit()
        context = RunContext(
            spec=spec,
            prepared=prepared,
            backend=backend,
            trainer_fn=trainer_fn,
            probed=probe(trainer_fn, spec.configs, prepared, spec.seed, backend, limit_s=unit_timeout_s),
            unit_timeout_s=unit_timeout_s,
        )
        procedure = Listed(spec.configs, epochs=spec.epochs, **metric_and_mode(spec))
        parameters = {"resumed": run_id, "num_epochs": spec.epochs, "seed": spec.seed}
        followers = replace(followers, parameters=parameters)
        result_of = partial(cls, trainer_fn=trainer_fn)
        with Interrupts() as interrupts, Lease(store, run_id) as lease:
            if longer:
                journal.forget_orders()
            return train(context, procedure, result_of, lease=lease, interrupts=interrupts, followers=followers)

    @validate_arguments
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
            See :class:`GridSearch`.

        Returns
        -------
        Selection
            Result of the search.

        Raises
        ------
        RunError
            There is a run of that id; the replay stopped, and is to be begun again; a configuration has failed this
            time that others were cloned from; or configurations trained in groups, or on several workers together,
            whose units no replay repeats.
        """
        self._check_replayable()
        followers = Followers(callbacks=callbacks, progress=progress)
        spec = replace(self.spec, run=run_id or f"{self.spec.run}-replay", replays=self.spec.run, checkpoints="visits")
        backend.admit()
        visits = on_workers(self.placements(), backend.num_workers)
        context = RunContext(
            spec=spec,
            prepared=self.prepared,
            backend=backend,
            trainer_fn=self.trainer_fn,
            probed=probe(self.trainer_fn, spec.configs, self.prepared, spec.seed, backend),
            recorded=Recorded(visits, {trial.trial_id: trial for trial in self._trials}),
        )
        procedure = Repeat(self._trials, **metric_and_mode(spec))
        with Interrupts() as interrupts, Lease(self.prepared.store, spec.run) as lease:
            Journal(self.prepared.store, spec.run).begin(spec)
            return train(
                context,
                procedure,
                lambda run: replace(self, run=run),
                lease=lease,
                interrupts=interrupts,
                followers=followers,
            )

    def _check_replayable(self) -> None:
        """Refuse a run that a replay, which trains whole models one by one, does not repeat."""
        if any(event.ranks > 1 for event in self.outcome.events):
            raise RunError(
                f"run {self.spec.run!r} trained epochs on several workers together, and a replay trains on one at a "
                "time: run it again with its seed and hybrid, which gives the same models up to rounding"
            )
        if any(event.members > 1 for event in self.outcome.events):
            raise RunError(
                f"run {self.spec.run!r} trained configurations in groups, and a replay trains them one by one: run it "
                'again with its seed and schedule="fixed", which gives the same models'
            )

    def _version(self, trial: Trial, epoch: int | None) -> int:
        """Find the checkpoint of an epoch, or the one that stands for a trial."""
        units = len(self.prepared.partitions)
        kept = self._kept_epochs(trial)
        if epoch is None and (self.spec.keep == "last" or not trial.history):
            return trial.durable_version
        wanted = ranked_epoch(trial, self.spec) if epoch is None else epoch
        if wanted not in kept:
            raise NoModelError(
                f"the store has no state of {trial.trial_id} after epoch {wanted!r}; those of the run's "
                f"keep={self.spec.keep!r} are of epochs {', '.join(map(str, kept)) or 'none'}"
            )
        return wanted * units

    def _kept_epochs(self, trial: Trial) -> list[int]:
        units = len(self.prepared.partitions)
        return [
            number
            for number in range(1, len(trial.history) + 1)
            if trial.digests[number * units] in trial.stored.get(number * units, ())
        ]
