"""Tracking of a search: callbacks of its run, and MLflow runs, a parent and one child per trial."""

from __future__ import annotations

import logging
import platform
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cerebro_spark.callbacks import Callback, ProgressTable, TensorBoard
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._autolog import Autologging, autologging
from cerebro_spark.tune._flavour import pyfunc_of
from udfs.driver import check_tracking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from cerebro_spark.callbacks import EpochFinished, RunStarted, TrialFinished, TrialStarted, TrialState
    from cerebro_spark.hopper import RunSpec
    from cerebro_spark.tune._model import TunedModel
    from cerebro_spark.tune._result import TrialResult

__all__ = ["Followers", "tracked"]

_LOG = logging.getLogger(__name__)

# What MLflow calls a child of a run.
_PARENT = "mlflow.parentRunId"
_NAME = "mlflow.runName"

# The best model's folder among a run's artifacts, and the most characters of a tag.
_MODEL = "model"
_TAG = 5000

# Ours, of the run that has the runs of a campaign's cycles: its name.
_CAMPAIGN = "cerebro.campaign"

# What MLflow calls the ends of trials; others have failed.
_ENDS = {"finished": "FINISHED", "stopped": "KILLED"}

_DISTRIBUTIONS = ("cerebro-spark", "pyspark", "pyarrow", "numpy", "torch", "keras", "tensorflow-cpu", "tensorflow")


class Finished(Protocol):
    """Result of a search, as far as it is logged, such as a :class:`cerebro_spark.Selection`."""

    @property
    def spec(self) -> RunSpec:
        """Settings of the run."""

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The configurations, the best first."""

    @property
    def best(self) -> TrialResult:
        """The best of those that finished."""

    @property
    def best_model(self) -> TunedModel:
        """The best configuration's network."""

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers of the whole run, by name."""

    def explain(self) -> str:
        """Describe the run."""

    def to_pandas(self) -> pd.DataFrame:
        """List the metrics of each configuration and epoch."""

    def plot(self) -> Figure:
        """Draw the learning curves."""

    def gantt(self) -> Figure:
        """Draw who trained what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followers:
    """Receivers of a run's events and results.

    ``experiment`` is MLflow's, and ``tensorboard`` the folder for event files. MLflow logs ``parameters``. ``campaign``
    is the name of the campaign that the run is a part of, with the number of the part: MLflow's run of the campaign is
    the parent of this one's, and has its metrics at that step.

    Raises
    ------
    InvalidArgumentError
        An item of ``callbacks`` is not a :class:`Callback`.
    """

    callbacks: Sequence[Callback] = ()
    experiment: str | None = None
    tensorboard: str | None = None
    progress: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)
    campaign: tuple[str, int] | None = None

    @property
    def log_to_mlflow(self) -> bool:
        """True if an experiment is named, or :func:`cerebro_spark.autolog` is on."""
        return self.experiment is not None or autologging() is not None

    def check_server(self) -> None:
        """Check that MLflow's server answers, if results go there.

        Raises
        ------
        TrackingError
            It does not answer within 10 seconds.
        """
        if self.log_to_mlflow:
            check_tracking(self.experiment)

    def __post_init__(self) -> None:
        for place, callback in enumerate(self.callbacks):
            if not isinstance(callback, Callback):
                raise InvalidArgumentError(
                    f"callbacks[{place}] must be a cerebro_spark.callbacks.Callback, got {callback!r}"
                )


@dataclass(frozen=True, slots=True)
class Tracked:
    """The callbacks of a run, and the log of its end.

    Attributes
    ----------
    callbacks : tuple of Callback
        The progress table, MLflow and TensorBoard where they are wanted, and the user's own.
    """

    callbacks: tuple[Callback, ...]
    _mlflow: _MLflow | None

    def finish(self, result: Finished) -> None:
        """Log the schedule, the pictures and the best model to MLflow; should the server fail, that is logged alone."""
        if self._mlflow is not None:
            self._mlflow.finish(result)


@contextmanager
def tracked(followers: Followers, *, run: str) -> Iterator[Tracked]:
    """Open the trackers of a run; an error in the block marks MLflow's run as failed.

    Raise TrackingError if MLflow's server does not answer.
    """
    followers.check_server()
    mlflow = _MLflow(followers, run) if followers.log_to_mlflow else None
    callbacks: list[Callback] = []
    try:
        if followers.progress:
            callbacks.append(ProgressTable())
        if mlflow is not None:
            callbacks.append(mlflow)
        if followers.tensorboard is not None:
            callbacks.append(TensorBoard(followers.tensorboard))
        yield Tracked((*callbacks, *followers.callbacks), mlflow)
    except BaseException:
        if mlflow is not None:
            mlflow.fail()
        raise


class _MLflow(Callback):
    """Logs a run to the tracking server that MLflow is set to, epoch by epoch.

    It uses MLflow's client, which has no active run: callbacks have a thread of their own, and the user's own active
    run stays as it is. The experiment is created if it does not exist; ``None`` is MLflow's active one, as for
    :func:`cerebro_spark.autolog`.
    """

    def __init__(self, followers: Followers, run: str) -> None:
        from mlflow import MlflowClient  # takes a second that only tracking should cost

        self._client = MlflowClient()
        self.parent = ""
        experiment = followers.experiment
        if experiment is None:
            self.parent, self._experiment = self._begun(run)
        else:
            known = self._client.get_experiment_by_name(experiment)
            self._experiment = self._client.create_experiment(experiment) if known is None else known.experiment_id
        campaign, self._step = followers.campaign or ("", 0)
        self._campaign = self._campaign_run(campaign) if campaign else ""
        if not self.parent:
            tags = {_NAME: run} | ({_PARENT: self._campaign} if self._campaign else {})
            self.parent = self._client.create_run(self._experiment, tags=tags).info.run_id
        elif self._campaign:
            self._client.set_tag(self.parent, _PARENT, self._campaign)
        for name, value in followers.parameters.items():
            self._client.log_param(self.parent, name, str(value)[:500])
        for name, version in _environment().items():
            self._client.set_tag(self.parent, f"environment.{name}", version)
        self._children: dict[str, str] = {}
        self._params: dict[str, Mapping[str, Any]] = {}
        # By trial id: metrics by epoch, and statuses, that the server has not got yet.
        self._metrics: dict[str, dict[int, Mapping[str, float]]] = {}
        self._statuses: dict[str, str] = {}

    def _begun(self, run: str) -> tuple[str, str]:
        """Begin a run of the active experiment, below the active run; return the ids of both."""
        import mlflow

        # The one way to MLflow's active experiment; the run goes on by the client, and is not the user's active one.
        with mlflow.start_run(run_name=run, nested=mlflow.active_run() is not None) as begun:
            run_id, experiment = str(begun.info.run_id), str(begun.info.experiment_id)
        self._client.update_run(run_id, status="RUNNING")
        return run_id, experiment

    def run_started(self, event: RunStarted) -> None:
        """Log the params of each trial; of a resumed run also the epochs that are over."""
        for trial in event.trials:
            self._add(trial)
        self._log()

    def trial_started(self, event: TrialStarted) -> None:
        """Log the params of a trial."""
        self._add(event.trial)
        self._log()

    def epoch_finished(self, event: EpochFinished) -> None:
        """Log the metrics."""
        for trial_id, metrics in event.metrics.items():
            self._metrics[trial_id][event.epoch] = metrics
        self._log()

    def trial_finished(self, event: TrialFinished) -> None:
        """End the trial's child."""
        self._statuses[event.trial_id] = event.status
        self._log()

    def _log(self) -> None:
        """Log what the server has not got yet: what it refused before comes with the next event."""
        for trial_id, waiting in self._metrics.items():
            child = self._child(trial_id)
            for epoch in sorted(waiting):
                for name, value in waiting[epoch].items():
                    self._client.log_metric(child, name, value, step=epoch)
                del waiting[epoch]
        for trial_id, status in list(self._statuses.items()):
            self._client.set_tag(self._child(trial_id), "status", status)
            self._client.set_terminated(self._child(trial_id), _ENDS.get(status, "FAILED"))
            del self._statuses[trial_id]

    def _add(self, trial: TrialState) -> None:
        self._params[trial.trial_id] = trial.params
        self._metrics[trial.trial_id] = dict(enumerate(trial.history))
        if trial.status not in {"running", "paused"}:
            self._statuses[trial.trial_id] = trial.status

    def _campaign_run(self, name: str) -> str:
        """Find the run of a campaign, or create it, and have it go on."""
        known = self._client.search_runs([self._experiment], f"tags.`{_CAMPAIGN}` = '{name}'", max_results=1)
        if known:
            run: str = known[0].info.run_id
            self._client.update_run(run, status="RUNNING")
        else:
            run = self._client.create_run(self._experiment, tags={_NAME: name, _CAMPAIGN: name}).info.run_id
        return run

    def _child(self, trial_id: str) -> str:
        if trial_id not in self._children:
            tags = {_PARENT: self.parent, _NAME: trial_id}
            child = self._client.create_run(self._experiment, tags=tags).info.run_id
            for name, value in self._params[trial_id].items():
                self._client.log_param(child, name, str(value)[:500])
            self._children[trial_id] = child
        return self._children[trial_id]

    def finish(self, selection: Finished) -> None:
        """Log the schedule, the pictures and the best model; should the server fail, that is logged alone."""
        try:
            self._finish(selection)
        except Exception:  # noqa: BLE001 - whatever a tracking server does, hours of training must not go with it
            _LOG.exception("the search is done, but MLflow could not log the end of run %s", selection.spec.run)
            # A run that looks alive would be waited for; where the server is gone, nothing ends it.
            with suppress(Exception):
                self._end("FINISHED")

    def _finish(self, selection: Finished) -> None:
        self._log_facts(selection.facts)
        self._client.log_text(self.parent, selection.explain(), "run.txt")
        self._client.log_text(self.parent, selection.to_pandas().to_csv(index=False), "trials.csv")
        visits = {trial.trial_id: [list(visit) for visit in trial.visits] for trial in selection.trials}
        self._client.log_dict(self.parent, visits, "visits.json")
        self._client.log_figure(self.parent, selection.gantt(), "gantt.png")
        self._client.log_figure(self.parent, selection.plot(), "learning_curves.png")
        for trial in selection.trials:
            if trial.traceback:
                self._client.log_text(self._child(trial.trial_id), trial.traceback, "traceback.txt")
        with suppress(LookupError):
            best = selection.best
            self._client.set_tag(self.parent, "best_trial_id", best.trial_id)
            self._log_facts({f"best_{name}": value for name, value in best.scores.items()})
            with tempfile.TemporaryDirectory() as folder:
                network = selection.best_model.network
                path = Path(folder) / network.file_name
                path.write_bytes(network.data)
                self._client.log_artifact(self.parent, str(path), "best_model")
                self._log_model(selection, Path(folder) / _MODEL)
        self._end("FINISHED")

    def _log_model(self, selection: Finished, folder: Path) -> None:
        """Log the best model as MLflow loads and serves it; that of a tagger has no such form."""
        settings = autologging() or Autologging()
        if not settings.log_models:
            return
        try:
            pyfunc = pyfunc_of(selection)
        except InvalidArgumentError as refused:
            self._client.set_tag(self.parent, _MODEL, f"not logged: {refused}"[:_TAG])
            return
        try:
            pyfunc.save(folder)
            self._client.log_artifacts(self.parent, str(folder), _MODEL)
            if settings.registered_model_name is not None:
                import mlflow

                mlflow.register_model(f"runs:/{self.parent}/{_MODEL}", settings.registered_model_name)
        except Exception:  # noqa: BLE001 - a registry that is away leaves a run that is over, with all else in it
            _LOG.exception("MLflow could not log the best model of run %s as a model", selection.spec.run)

    def _log_facts(self, facts: Mapping[str, float]) -> None:
        for name, value in facts.items():
            self._client.log_metric(self.parent, name, value)
            if self._campaign:
                self._client.log_metric(self._campaign, name, value, step=self._step)

    def fail(self) -> None:
        """Mark the run as failed."""
        self._end("FAILED")

    def _end(self, status: str) -> None:
        for run in (self.parent, *([self._campaign] if self._campaign else [])):
            self._client.set_terminated(run, status)


def _environment() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # beside its only use

    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
