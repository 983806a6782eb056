"""A run's record in the store: its settings, and the results of each epoch."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import RunError
from cerebro_spark.hopper._events import Event
from cerebro_spark.hopper._log import TrialLog
from cerebro_spark.hopper._trial import Trial
from udfs.documents import DamagedError, document, typed, write_document
from udfs.hopper import Checkpoints
from udfs.names import check_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from udfs.store import Store

__all__ = ["Journal", "RunSpec"]

_LOG = logging.getLogger(__name__)

_NO_RUN = "put a copy of it back, or begin another run; without it the run cannot go on exactly"
_NO_LOG = "delete it: the run goes on, and trial.log begins anew"
_NO_EVENTS = "put a copy of it back, or delete it: the run goes on, without this epoch in gantt() and explain()"

_SPEC: dict[str, type] = {
    "run": str,
    "prepared": str,
    "configs": list,
    "trainer": str,
    "epochs": int,
    "seed": int,
    "policy": str,
    "replicas": int,
    "metric": str,
    "larger_is_better": bool,
}
_EVENT: dict[str, type] = {
    "kind": str,
    "trial_id": str,
    "worker": str,
    "epoch": int,
    "partition": int,
    "began": float,
    "ended": float,
    "seconds": float,
}
# Fields that the first runs did not have.
_LATER: dict[str, type] = {"fetched_bytes": int, "from_store": bool}
# How trials end whose files may be intact at an earlier checkpoint.
_RESUMABLE = ("running", "finished", "lost its state")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Settings of a run: with the user's function, all that it takes to resume from the store.

    Parameters
    ----------
    run : str
    prepared : str
        Name of the prepared data in the store.
    configs : list of dict
        Params by place; the id of the n-th is :meth:`trial_id`.
    trainer : str
        Name of the user's function, ``module:name``, for people to recognise: nothing is imported by it.
    epochs, seed : int
    policy : str
    replicas : int
        Workers that keep each shard.
    metric : str
    larger_is_better : bool
    """

    run: str
    prepared: str
    configs: list[dict[str, Any]]
    trainer: str
    epochs: int
    seed: int
    policy: str
    replicas: int
    metric: str
    larger_is_better: bool

    @staticmethod
    def trial_id(number: int) -> str:
        """Id of the n-th configuration.

        Examples
        --------
        >>> RunSpec.trial_id(3)
        'c003'
        """
        return f"c{number:03d}"


@dataclass(frozen=True, slots=True)
class Journal:
    """The files of a run.

    Parameters
    ----------
    store : Store
    run : str
    """

    store: Store
    run: str

    def __post_init__(self) -> None:
        check_name(self.run, "a run")

    @property
    def begun(self) -> bool:
        """Whether the store has the settings."""
        return self.store.exists("runs", self.run, "run.json")

    def begin(self, spec: RunSpec) -> None:
        """Write the settings.

        Raises
        ------
        RunError
            There is a run of that id.
        """
        if self.begun:
            raise RunError(f"the store has a run {self.run!r}: resume it, or take another run_id")
        write_document(self.store, asdict(spec), "runs", self.run, "run.json")

    def spec(self) -> RunSpec:
        """Read the settings.

        Raises
        ------
        RunError
            There is no such run; the message lists the existing ones. Or its settings are damaged.
        """
        if not self.begun:
            known = ", ".join(self.store.list("runs")) or "none"
            raise RunError(f"{self.store.uri} has no run {self.run!r}; runs: {known}")
        with self._document("run.json", remedy=_NO_RUN) as data:
            spec = RunSpec(**{name: typed(data, name, kind) for name, kind in _SPEC.items()})
            check_name(spec.prepared, "prepared data")
            if spec.run != self.run or not all(isinstance(params, dict) for params in spec.configs):
                raise ValueError(f"it has the settings of {spec.run!r}")
        return spec

    def close_epoch(self, epoch: int, trials: Sequence[Trial], events: Sequence[Event]) -> None:
        """Write the results of an epoch."""
        name = f"epoch-{epoch:04d}.json"
        write_document(self.store, [asdict(event) for event in events], "runs", self.run, "events", name)
        for trial in trials:
            self.write_trial(trial)

    def write_trial(self, trial: Trial) -> None:
        """Write the state of a trial."""
        data = {
            "params": trial.params,
            "status": trial.status,
            "traceback": trial.traceback,
            "history": trial.history,
            "seconds": trial.seconds,
        }
        write_document(self.store, data, "runs", self.run, "trials", f"{trial.trial_id}.json")

    def trials(self, spec: RunSpec, num_shards: int) -> list[Trial]:
        """Read the trials, each as far as the store has it intact.

        The bytes of each trial's last checkpoint are read once. Where it is damaged, the trial is as it was at the one
        before, or at its beginning; one that had finished, or had lost its state, is running again.

        Parameters
        ----------
        spec : RunSpec
        num_shards : int
            Shards to train on: as many units make an epoch.

        Raises
        ------
        RunError
            The record of a trial is damaged.
        """
        checkpoints = Checkpoints(self.store, self.run)
        return [
            self._trial(spec.trial_id(number), params, checkpoints, num_shards)
            for number, params in enumerate(spec.configs)
        ]

    def events(self) -> list[Event]:
        """Read the units of the epochs that are over.

        Raises
        ------
        RunError
            The record of an epoch is damaged.
        """
        events = []
        for name in sorted(self.store.list("runs", self.run, "events")):
            with self._document("events", name, remedy=_NO_EVENTS) as data:
                events += [_event(event) for event in _list(data)]
        return events

    def results(self, trial_id: str) -> dict[str, Any]:
        """Read a trial's status, history and seconds, by the names of :class:`Trial`; nothing where it has none yet.

        Raises
        ------
        RunError
            They are damaged.
        """
        if not self.store.exists("runs", self.run, "trials", f"{trial_id}.json"):
            return {}
        with self._document("trials", f"{trial_id}.json", remedy=_NO_RUN) as data:
            return {
                "status": typed(data, "status", str),
                "traceback": typed(data, "traceback", str),
                "history": [_metrics(metrics) for metrics in typed(data, "history", list)],
                "seconds": typed(data, "seconds", float),
            }

    def write_log(self, trial: Trial) -> None:
        """Write what a trial has printed."""
        write_document(self.store, asdict(trial.log), "runs", self.run, "logs", f"{trial.trial_id}.json")

    def log(self, trial_id: str) -> TrialLog:
        """Read what a trial has printed; nothing where it has no log yet.

        Raises
        ------
        RunError
            It is damaged.
        """
        if not self.store.exists("runs", self.run, "logs", f"{trial_id}.json"):
            return TrialLog()
        with self._document("logs", f"{trial_id}.json", remedy=_NO_LOG) as data:
            return TrialLog(typed(data, "first", str), typed(data, "omitted", int), typed(data, "last", str))

    def _trial(self, trial_id: str, params: dict[str, Any], checkpoints: Checkpoints, num_shards: int) -> Trial:
        trial = Trial(trial_id, params, **self.results(trial_id))
        try:
            trial.log = self.log(trial_id)
        except RunError as error:
            # Nothing is trained from it: the run goes on.
            _LOG.warning("%s", error)
        if trial.status in _RESUMABLE:
            self._read_checkpoints(trial, checkpoints, num_shards)
        return trial

    def _read_checkpoints(self, trial: Trial, checkpoints: Checkpoints, num_shards: int) -> None:
        """Take a trial to its last intact checkpoint, and give it back to training where a later one is damaged."""
        records = checkpoints.records(trial.trial_id)
        while records and not checkpoints.intact(records[-1]):
            records.pop()
        if records:
            trial.go_on_from(records)
        complete = trial.version // num_shards
        if len(trial.history) > complete:
            _LOG.warning(
                "%s: a checkpoint is damaged; it goes on from the one after %d units", trial.trial_id, trial.version
            )
            # Epochs that are trained again are written again.
            del trial.history[complete:]
            trial.status = "running"
        if trial.status == "lost its state":
            trial.status, trial.traceback = "running", ""

    @contextmanager
    def _document(self, *parts: str, remedy: str) -> Iterator[Any]:
        try:
            with document(self.store, "runs", self.run, *parts, remedy=remedy) as data:
                yield data
        except DamagedError as error:
            raise RunError(f"run {self.run!r}: {error}") from error


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"it is a {type(data).__name__}, not a list")
    return data


def _metrics(data: Any) -> dict[str, float]:
    return {str(name): typed(data, name, float) for name in data}


def _event(data: Any) -> Event:
    # Runs journalled by version 0.1.0.dev0 say "config".
    data = {"trial_id" if key == "config" else key: value for key, value in data.items()}
    kinds = _EVENT | {name: kind for name, kind in _LATER.items() if name in data}
    return Event(**{name: typed(data, name, kind) for name, kind in kinds.items()})
