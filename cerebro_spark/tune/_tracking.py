"""A search as MLflow runs, a parent and a child a configuration, and as TensorBoard's event files."""

from __future__ import annotations

import logging
import platform
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.hopper import Follower, Trial
    from cerebro_spark.tune._selection import Selection

__all__ = ["tracked"]

_LOG = logging.getLogger(__name__)

# What MLflow calls a child of a run.
_PARENT = "mlflow.parentRunId"
_NAME = "mlflow.runName"

_DISTRIBUTIONS = ("cerebro-spark", "pyspark", "pyarrow", "numpy", "torch", "keras", "tensorflow-cpu", "tensorflow")


def tracked(
    train: Callable[[list[Follower]], Selection],
    *,
    experiment: str | None,
    tensorboard: str | None,
    run: str,
    parameters: Mapping[str, Any],
) -> Selection:
    """Train, with MLflow and TensorBoard following where they are wanted.

    Parameters
    ----------
    train : callable
        Takes who is to hear of each epoch.
    experiment, tensorboard : str or None
        MLflow's experiment, and the folder for event files.
    run : str
        Its id in the store.
    parameters : mapping
        Of the search.
    """
    tracking = None if experiment is None else _Tracking(experiment, run, parameters)
    files = None if tensorboard is None else _EventFiles(tensorboard)
    try:
        found = train([follower for follower in (tracking, files) if follower is not None])
    except BaseException:
        if tracking is not None:
            tracking.fail()
        raise
    finally:
        if files is not None:
            files.close()
    if tracking is not None:
        tracking.end(found)
    return found


class _Tracking:
    """Logs a run to the tracking server that MLflow is set to, epoch by epoch.

    By its client, which has no active run: epochs end in a thread of their own, and the user's own runs go on.

    Parameters
    ----------
    experiment : str
        Created where it does not exist.
    run : str
        Id of the run in its store.
    parameters : mapping
        Of the search.
    """

    def __init__(self, experiment: str, run: str, parameters: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415 - takes a second that only tracking should cost

        self._client = MlflowClient()
        found = self._client.get_experiment_by_name(experiment)
        self._experiment = self._client.create_experiment(experiment) if found is None else found.experiment_id
        self.parent: str = self._client.create_run(self._experiment, tags={_NAME: run}).info.run_id
        for name, value in parameters.items():
            self._client.log_param(self.parent, name, str(value)[:500])
        for name, version in _environment().items():
            self._client.set_tag(self.parent, f"environment.{name}", version)
        self._children: dict[str, str] = {}
        self._said: dict[str, int] = {}

    def epoch(self, epoch: int, trials: Sequence[Trial]) -> None:  # noqa: ARG002 - the histories have all epochs
        """Log what is new of each configuration."""
        for trial in trials:
            child = self._child(trial)
            for at in range(self._said.get(trial.config, 0), len(trial.history)):
                for name, value in trial.history[at].items():
                    self._client.log_metric(child, name, value, step=at)
            self._said[trial.config] = len(trial.history)
            if not trial.running:
                self._client.set_tag(child, "status", trial.status)
                self._client.set_terminated(child, "FINISHED" if trial.status == "finished" else "FAILED")

    def end(self, selection: Selection) -> None:
        """Log the schedule, the pictures and the best model; should the server fail, that is logged alone.

        Parameters
        ----------
        selection : Selection
        """
        try:
            self._end(selection)
        except Exception:  # noqa: BLE001 - whatever a tracking server does, hours of training must not go with it
            _LOG.exception("the search is done, but MLflow could not log the end of run %s", selection.run_id)

    def _end(self, selection: Selection) -> None:
        outcome = selection.outcome
        for name, value in (("seconds", outcome.seconds), ("redone_units", outcome.redone)):
            self._client.log_metric(self.parent, name, value)
        self._client.log_text(self.parent, selection.explain(), "run.txt")
        self._client.log_text(self.parent, selection.to_pandas().to_csv(index=False), "trials.csv")
        visits = {trial.config: [list(visit) for visit in trial.visits] for trial in selection.trials}
        self._client.log_dict(self.parent, visits, "visits.json")
        self._client.log_figure(self.parent, selection.gantt(), "gantt.png")
        self._client.log_figure(self.parent, selection.plot(), "learning_curves.png")
        for trial in selection.trials:
            if trial.traceback:
                self._client.log_text(self._children[trial.config], trial.traceback, "traceback.txt")
        with suppress(LookupError):
            best = selection.best
            self._client.set_tag(self.parent, "best_config", best.config)
            self._client.log_metric(self.parent, f"best_{selection.spec.metric}", best.metric)
            with tempfile.TemporaryDirectory() as folder:
                network = selection.best_model.network
                path = Path(folder) / f"network.{'pt2' if network.framework == 'torch' else 'keras'}"
                path.write_bytes(network.data)
                self._client.log_artifact(self.parent, str(path), "best_model")
        self._client.set_terminated(self.parent)

    def fail(self) -> None:
        """The run stopped."""
        self._client.set_terminated(self.parent, "FAILED")

    def _child(self, trial: Trial) -> str:
        if trial.config not in self._children:
            made = self._client.create_run(self._experiment, tags={_PARENT: self.parent, _NAME: trial.config})
            for name, value in trial.params.items():
                self._client.log_param(made.info.run_id, name, str(value)[:500])
            self._children[trial.config] = made.info.run_id
        return self._children[trial.config]


class _EventFiles:
    """Writes event files that TensorBoard reads, a folder a configuration.

    Parameters
    ----------
    folder : str
        Local to the driver.

    Raises
    ------
    InvalidArgumentError
        TensorBoard is not installed.
    """

    def __init__(self, folder: str) -> None:
        try:
            from tensorboard.summary import Writer  # noqa: PLC0415 - an optional package
        except ImportError as error:
            raise InvalidArgumentError(
                f"tensorboard={folder!r} needs TensorBoard: pip install 'cerebro-spark[tensorboard]'"
            ) from error
        self._open = Writer
        self._folder = Path(folder)
        self._writers: dict[str, Any] = {}
        self._said: dict[str, int] = {}

    def epoch(self, epoch: int, trials: Sequence[Trial]) -> None:  # noqa: ARG002 - the histories have all epochs
        """Write what is new of each configuration."""
        for trial in trials:
            if trial.config not in self._writers:
                self._writers[trial.config] = self._open(str(self._folder / trial.config))
            writer = self._writers[trial.config]
            for at in range(self._said.get(trial.config, 0), len(trial.history)):
                for name, value in trial.history[at].items():
                    writer.add_scalar(name, value, at, wall_time=time.time())
            self._said[trial.config] = len(trial.history)
            writer.flush()

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()


def _environment() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - beside its only use

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
