"""Journal of a run in the store: its settings, and the results of each epoch."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import RunError
from cerebro_spark.hopper._events import Event
from cerebro_spark.hopper._log import TrialLog
from cerebro_spark.hopper._rounds import ROUNDS
from cerebro_spark.hopper._stored_states import CHECKPOINTS, KEEPS
from cerebro_spark.hopper._trial import Trial
from optimizer.hybrids import HybridSettings
from optimizer.procedures import Exchange, LogError, Objective, read_params, written_params
from udfs.documents import DamagedError, document, typed, write_document
from udfs.hopper import Checkpoints
from udfs.names import check_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from udfs.store import Store

__all__ = ["IF_BEGUN", "Journal", "RunSpec"]

IF_BEGUN = ("error", "resume", "take_over")
"""What a search does if the store has the run: raise, resume it, or resume it after its driver has stopped."""

_LOG = logging.getLogger(__name__)

_NO_RUN = "put a copy of it back, or begin another run; without it the run cannot go on exactly"
_NO_LOG = "delete it: the run goes on, and trial.log begins anew"
_NO_EVENTS = "put a copy of it back, or delete it: the run goes on, without these units in gantt() and explain()"

# Runs of earlier releases have a file per epoch, epoch-0000.json.
_PART = re.compile(r"part-([0-9]{6,})\.json")
_ORDER = re.compile(r"order-([0-9]{6,})\.json")

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
# Fields that the first runs did not have: those were grids, and had no other way.
_ADDED = {"rounds": "together", "procedure": "GridSearch", "keep": "last", "replays": "", "checkpoints": "visits"}
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
# The same for events.
_LATER: dict[str, type] = {
    "fetched_bytes": int,
    "from_store": bool,
    "members": int,
    "waited_seconds": float,
    "frozen_seconds": float,
    "read_seconds": float,
    "read_bytes": float,
    "remade": float,
    "ranks": int,
    "exchanged_bytes": float,
}
# How trials end whose files may be intact at an earlier checkpoint.
_RESUMABLE = ("running", "paused", "stopped", "finished", "lost its state")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Settings of a run: with the user's function, all that it takes to resume from the store.

    ``configs`` are the params of a grid's configurations by place, or those of one configuration, for workers to try.
    ``trainer`` names the user's function for people to recognise; nothing is imported by it. ``epochs`` is the most
    that a configuration trains, ``replicas`` the number of workers that keep each shard. ``other_objectives`` are the
    metrics that decide beside the first, each with its mode. ``replays`` is the run that this one repeats visit by
    visit, ``""`` for none. ``task`` is the :class:`udfs.training.TaskDecision` about the first configuration, empty in
    runs of earlier releases. ``hybrid`` are the :class:`optimizer.hybrids.HybridSettings`. The values of ``policy``,
    ``rounds``, ``keep`` and ``checkpoints`` are in :data:`optimizer.hopper.POLICIES`, :data:`ROUNDS`, :data:`KEEPS` and
    :data:`CHECKPOINTS`.
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
    rounds: str
    procedure: str
    keep: str = "last"
    other_objectives: list[list[str]] = field(default_factory=list)
    replays: str = ""
    checkpoints: str = "visits"
    task: dict[str, Any] = field(default_factory=dict)
    hybrid: dict[str, Any] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """``"min"`` or ``"max"``: which way the metric is better."""
        return "max" if self.larger_is_better else "min"

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The metrics that decide, the first one first."""
        return (Objective(self.metric, self.mode), *(Objective(metric, mode) for metric, mode in self.other_objectives))


@dataclass(frozen=True, slots=True)
class Journal:
    """The files of a run."""

    store: Store
    run: str
    # By folder, the number of the next file: a folder of a long search takes milliseconds to list.
    _numbers: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.run, "a run")

    @property
    def begun(self) -> bool:
        """True if the store has the settings."""
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
        configs = [written_params(params) for params in spec.configs]
        write_document(self.store, {**asdict(spec), "configs": configs}, "runs", self.run, "run.json")

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
            settings: dict[str, Any] = {name: typed(data, name, kind) for name, kind in _SPEC.items()}
            added = {name: typed(data, name, str) if name in data else first for name, first in _ADDED.items()}
            pairs = typed(data, "other_objectives", list) if "other_objectives" in data else []
            settings["configs"] = [read_params(params) for params in settings["configs"]]
            stated = {name: typed(data, name, dict) if name in data else {} for name in ("task", "hybrid")}
            spec = RunSpec(**settings | added | stated, other_objectives=[[*map(str, pair)] for pair in pairs])
            HybridSettings.from_dict(spec.hybrid)
            check_name(spec.prepared, "prepared data")
            if spec.run != self.run or not all(isinstance(params, dict) for params in spec.configs):
                raise ValueError(f"it has the settings of {spec.run!r}")
            if spec.rounds not in ROUNDS:
                raise ValueError(f"rounds is {spec.rounds!r}")
            if any(len(pair) != 2 or pair[1] not in {"min", "max"} for pair in spec.other_objectives):
                raise ValueError(f"other_objectives is {spec.other_objectives!r}")
            if spec.keep not in KEEPS:
                raise ValueError(f"keep is {spec.keep!r}")
            if spec.checkpoints not in CHECKPOINTS:
                raise ValueError(f"checkpoints is {spec.checkpoints!r}")
        return spec

    def close(self, trials: Sequence[Trial], events: Sequence[Event]) -> None:
        """Write the state of trials that have finished an epoch or ended, and the units since the last call."""
        if events:
            self._append([asdict(event) for event in events], "events", _PART)
        for trial in trials:
            self.write_trial(trial)

    def order(self, exchange: Exchange) -> None:
        """Write what the procedure was told, and what it decided."""
        self._append(exchange.document(), "orders", _ORDER)

    def orders(self) -> list[Exchange]:
        """Read what the procedure was told and decided so far.

        Raises
        ------
        RunError
            A record of it is damaged, or missing.
        """
        orders = []
        for number, name in enumerate(sorted(self.store.list("runs", self.run, "orders"))):
            with self._document("orders", name, remedy=_NO_RUN) as data:
                if name != f"order-{number:06d}.json":
                    raise ValueError(f"order-{number:06d}.json is missing")
                try:
                    orders.append(Exchange.of(data))
                except LogError as error:
                    raise ValueError(str(error)) from error
        return orders

    def forget_orders(self) -> None:
        """Delete the recorded decisions of the procedure, so that a grid with more epochs decides again."""
        self.store.delete("runs", self.run, "orders")
        self._numbers.pop("orders", None)

    def _append(self, data: Any, folder: str, pattern: re.Pattern[str]) -> None:
        place = ("runs", self.run, folder)
        if folder not in self._numbers:
            numbers = [int(match.group(1)) for match in map(pattern.fullmatch, self.store.list(*place)) if match]
            self._numbers[folder] = max(numbers, default=-1) + 1
        number = self._numbers[folder]
        write_document(self.store, data, *place, f"{pattern.pattern.partition('-')[0]}-{number:06d}.json")
        # A file that could not be written leaves no gap.
        self._numbers[folder] = number + 1

    def write_trial(self, trial: Trial) -> None:
        """Write the state of a trial."""
        data = {
            "params": written_params(trial.params),
            "status": trial.status,
            "traceback": trial.traceback,
            "history": trial.history,
            "seconds": trial.seconds,
            "reason": trial.reason,
            "inherited": trial.inherited,
        }
        write_document(self.store, data, "runs", self.run, "trials", f"{trial.trial_id}.json")

    def trial(self, trial_id: str, params: dict[str, Any], num_shards: int) -> Trial:
        """Read a trial as far as the store has it intact; a new one where the store has nothing.

        The bytes of its last checkpoint are read once. Where it is damaged, the trial is as it was at the one before,
        or at its beginning; one that had lost its state, in a run of an earlier release, is running again.
        ``num_shards`` units make an epoch. Raise RunError if the record of the trial is damaged.
        """
        trial = Trial(trial_id, params, **self.results(trial_id))
        try:
            trial.log = self.log(trial_id)
        except RunError as error:
            # Nothing is trained from it: the run goes on.
            _LOG.warning("%s", error)
        checkpoints = Checkpoints(self.store, self.run)
        if trial.status in _RESUMABLE:
            self._read_checkpoints(trial, checkpoints, num_shards)
        elif records := checkpoints.records(trial_id):
            # It trains no further; clones of its earlier epochs may.
            trial.go_on_from(records)
        return trial

    def trial_ids(self) -> list[str]:
        """List the trials that have results or checkpoints."""
        results = [name.removesuffix(".json") for name in self.store.list("runs", self.run, "trials")]
        return sorted({*results, *self.store.list("runs", self.run, "checkpoints")})

    def events(self) -> list[Event]:
        """Read the units up to the last epoch of a trial that was over.

        Raises
        ------
        RunError
            A record of them is damaged.
        """
        events = []
        for name in sorted(self.store.list("runs", self.run, "events")):
            with self._document("events", name, remedy=_NO_EVENTS) as data:
                events += [_event(event) for event in _list(data)]
        return events

    def results(self, trial_id: str) -> dict[str, Any]:
        """Read a trial's results, by the names of :class:`Trial`; nothing where it has none yet.

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
                **{name: typed(data, name, str) if name in data else "" for name in ("reason", "inherited")},
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

    def _read_checkpoints(self, trial: Trial, checkpoints: Checkpoints, num_shards: int) -> None:
        """Take a trial to its last intact checkpoint, and give it back to training from there."""
        records = checkpoints.records(trial.trial_id)
        while records and not checkpoints.intact(records[-1]):
            records.pop()
        if records:
            trial.go_on_from(records)
        complete = trial.version // num_shards
        if len(trial.history) > complete:
            _LOG.warning(
                "%s goes on from its checkpoint after %d units: those since are trained again",
                trial.trial_id,
                trial.version,
            )
            # Epochs that are trained again are written again.
            del trial.history[complete:]
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
