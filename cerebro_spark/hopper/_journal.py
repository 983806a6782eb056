"""A run's record in the store: its settings, and the results of each epoch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import RunError
from cerebro_spark.hopper._events import Event
from cerebro_spark.hopper._trial import Trial
from udfs.hopper import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.store import Store

__all__ = ["Journal", "RunSpec"]


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

    def begin(self, spec: RunSpec) -> None:
        """Write the settings.

        Raises
        ------
        RunError
            There is a run of that id.
        """
        if self.store.exists("runs", self.run, "run.json"):
            raise RunError(f"the store has a run {self.run!r}: resume it, or take another run_id")
        self.store.write(json.dumps(asdict(spec), indent=1).encode(), "runs", self.run, "run.json")

    def spec(self) -> RunSpec:
        """Read the settings.

        Raises
        ------
        RunError
            There is no such run; the message lists the existing ones.
        """
        if not self.store.exists("runs", self.run, "run.json"):
            known = ", ".join(self.store.list("runs")) or "none"
            raise RunError(f"{self.store.uri} has no run {self.run!r}; runs: {known}")
        data = json.loads(self.store.read("runs", self.run, "run.json"))
        return RunSpec(**{entry.name: data[entry.name] for entry in fields(RunSpec)})

    def close_epoch(self, epoch: int, trials: Sequence[Trial], events: Sequence[Event]) -> None:
        """Write the results of an epoch."""
        self.store.write(json.dumps([asdict(event) for event in events]).encode(), *self._events(epoch))
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
        self.store.write(json.dumps(data, indent=1).encode(), "runs", self.run, "trials", f"{trial.trial_id}.json")

    def trials(self, spec: RunSpec) -> list[Trial]:
        """Read the trials, each as far as the store has it."""
        checkpoints = Checkpoints(self.store, self.run)
        return [self._trial(spec.trial_id(number), params, checkpoints) for number, params in enumerate(spec.configs)]

    def events(self) -> list[Event]:
        """Read the units of the epochs that are over."""
        names = sorted(self.store.list("runs", self.run, "events"))
        read = (json.loads(self.store.read("runs", self.run, "events", name)) for name in names)
        return [_event(data) for epoch in read for data in epoch]

    def _trial(self, trial_id: str, params: dict[str, Any], checkpoints: Checkpoints) -> Trial:
        trial = Trial(trial_id, params)
        parts = ("runs", self.run, "trials", f"{trial_id}.json")
        if self.store.exists(*parts):
            data = json.loads(self.store.read(*parts))
            trial.status, trial.traceback = data["status"], data["traceback"]
            trial.history, trial.seconds = data["history"], data["seconds"]
        record = checkpoints.last(trial_id)
        if record is not None:
            trial.visits = [*record.visits]
            trial.digests = [""] * record.version + [record.digest]
            # The record has the sums of its epoch put together: the last unit stands for them all.
            trial.unit_sums = [{} for _ in record.visits]
            trial.unit_sums[-1] = record.arrays()
            trial.stored = {record.version: record.digest}
        return trial

    def _events(self, epoch: int) -> tuple[str, ...]:
        return ("runs", self.run, "events", f"epoch-{epoch:04d}.json")


def _event(data: dict[str, Any]) -> Event:
    # Runs journalled by version 0.1.0.dev0 say "config".
    return Event(**{"trial_id" if key == "config" else key: value for key, value in data.items()})
