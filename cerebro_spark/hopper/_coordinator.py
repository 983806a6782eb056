"""The driver's side of a run: gives out units, takes reports, and puts back what was lost (Cerebro, section 3.5.6)."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import RunError, UnkeptError
from cerebro_spark.hopper._assignment import Assignment, Attached
from cerebro_spark.hopper._events import Event, Loss, Unobserved
from cerebro_spark.hopper._holdings import Holdings
from optimizer.hopper import Hopper, Unit, UnitTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from cerebro_spark.hopper._events import Observer
    from cerebro_spark.hopper._trial import Trial
    from optimizer.hopper import Placement

__all__ = ["Coordinator"]

_LOG = logging.getLogger(__name__)

# How long a call for the next unit waits at the driver; short of the caller's own patience.
_POLL_S = 10.0

# Without a word for so long a worker is taken for lost; it beats once a second.
_SILENT_S = 15.0

# After so many workers that died, or were ended, in the middle of it a configuration is held to be the cause.
_STRIKES = 3

# A unit may take so many times the longest of its configuration before, and so many seconds besides.
_PATIENCE, _PATIENCE_S = 20.0, 60.0


class Coordinator:
    """Runs the epochs of some trials over workers that call it. Every method may be called from any thread.

    Parameters
    ----------
    trials : sequence of Trial
    workers : mapping of str to collection of int
        Who is to come, and with which partitions of the training data; others may come too.
    rows : mapping of int to int
        Of each partition.
    validates : bool
        Whether there are validation shards, one a partition.
    epochs : int
    epoch : int
        To begin with; later than 0 where a run is resumed.
    policy : str
        Of :data:`optimizer.hopper.POLICIES`.
    replay : sequence of Placement by epoch, optional
        Visits to follow, instead of a policy.
    seed : int
    unit_timeout_s : float or None
        Of one unit; ``None`` waits for 20 times the longest unit of the configuration so far, and a minute.
    rejoin_s : float
        How long a lost worker is waited for.
    model_bytes : int
        That a model in training takes.
    finished_epoch : callable
        Called with the epoch, the trials and all events as soon as it is over, with no lock held.
    earlier_s : float
        Seconds that earlier parts of the run took: its clock goes on. Default 0.
    observer : Observer, optional
        Hears of each event, with the lock held: its methods return at once.
    """

    def __init__(  # noqa: PLR0913 - what a run is made of
        self,
        trials: Sequence[Trial],
        *,
        workers: Mapping[str, Collection[int]],
        rows: Mapping[int, int],
        validates: bool,
        epochs: int,
        epoch: int,
        policy: str,
        seed: int,
        unit_timeout_s: float | None,
        rejoin_s: float,
        model_bytes: int,
        finished_epoch: Callable[[int, Sequence[Trial], Sequence[Event]], None],
        earlier_s: float = 0.0,
        replay: Mapping[int, Sequence[Placement]] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.trials = list(trials)
        self.epoch = epoch
        self.events: list[Event] = []
        self.redone = 0
        self.losses: list[Loss] = []
        self.decision_seconds = 0.0
        self.kept_seconds = 0.0
        self.error: BaseException | None = None
        self._by_name = {trial.config: trial for trial in self.trials}
        self._holdings = Holdings(workers)
        self._partitions = tuple(sorted(set().union(*workers.values())))
        self._validates = validates
        self._epochs = epochs
        self._policy = policy
        self._replay = replay or {}
        self._seed = seed
        self._timeout = unit_timeout_s
        self._rejoin_s = rejoin_s
        self._model_bytes = model_bytes
        self._finished_epoch = finished_epoch
        self._observer = observer or Unobserved()
        self._times = UnitTimes(rows={number: max(1, count) for number, count in rows.items()})
        self._longest: dict[str, float] = {}
        self._workers: dict[str, Attached] = {}
        self._numbers = itertools.count()
        self._evaluations: set[tuple[str, int]] = set()
        self._over = False
        self._closing = False
        self._changed = threading.Condition(threading.RLock())
        self._started = time.monotonic() - earlier_s
        self._hopper = self._new_hopper()
        with self._changed:
            # A run that is resumed may have nothing left to train in its epoch.
            for trial in self.trials:
                if trial.running and len(trial.done(epoch)) == len(self._partitions):
                    self._wants_evaluation(trial)
            self._step()

    # What workers call.

    def answer(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        """Answer one call of a worker.

        Parameters
        ----------
        method : {"hello", "next", "beat", "kept", "unkept"}
        message : dict
        """
        calls = {
            "hello": self._hello,
            "next": self._next,
            "beat": self._beat,
            "kept": self._kept,
            "unkept": self._unkept,
        }
        return calls[method](message)

    def _hello(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            name = message["worker"]
            if self._over:
                return {"welcome": False}
            if name in self._workers:
                self._lose(name, "another attempt has taken its place")
            has, needs = int(message["memory_bytes"]), int(message["shard_bytes"]) + self._model_bytes
            if needs > has:
                self.fail(
                    RunError(
                        f"worker {name} on {message['host']} has {has:,} bytes of memory, and its shards and a model "
                        f"in training take about {needs:,}: start Spark with larger machines, or with more workers"
                    )
                )
                return {"welcome": False}
            self._workers[name] = Attached(
                name, message["attempt"], message["location"], message["host"], time.monotonic()
            )
            _LOG.info("worker %s on %s is here", name, message["host"])
            self._holdings.come(name)
            self._hopper.join(name, self._holdings[name])
            self._adopt()
            self._changed.notify_all()
            return {"welcome": True}

    def _next(self, message: dict[str, Any]) -> dict[str, Any]:
        until = time.monotonic() + _POLL_S
        with self._changed:
            worker = self._known(message)
            if worker is None:
                return {"do": "stop"}
            if message["report"] is not None:
                self._reported(worker, message["report"])
            while True:
                if self._over or self._workers.get(worker.name) is not worker:
                    return {"do": "stop"}
                begun = time.perf_counter()
                assignment = self._take(worker)
                self.decision_seconds += time.perf_counter() - begun
                drop, worker.drop = worker.drop, []
                said = {"drop": drop, "holds": sorted(self._holdings[worker.name])}
                if assignment is not None:
                    return self._described(assignment) | said
                left = until - time.monotonic()
                if left <= 0 or drop:
                    return {"do": "wait"} | said
                self._changed.wait(left)
                worker.seen = time.monotonic()

    def _beat(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            worker = self._known(message)
            return {"abort": worker is None or worker.abort}

    def _kept(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            if self._known(message) is None:
                # Of an attempt that was taken for lost: what it trained is trained again, maybe in another order.
                return {"wanted": False}
            self.kept_seconds += message["seconds"]
            # It may come before the report of the unit itself.
            self._by_name[message["config"]].stored[int(message["version"])] = message["digest"]
            for config in message["dropped"]:
                other = self._by_name[config]
                if other.holder == message["worker"] and other.whole:
                    other.holder = None
            self._step()
            return {"wanted": True}

    def _unkept(self, message: dict[str, Any]) -> dict[str, Any]:
        self.fail(
            UnkeptError(
                f"the store would not take the state of {message['config']}: {message['error']}. What it has is whole: "
                "make room, or mend it, and resume the run"
            )
        )
        return {}

    # What the driver calls.

    def lose(self, name: str, why: str) -> None:
        """A worker is gone.

        Parameters
        ----------
        name, why : str
        """
        with self._changed:
            self._lose(name, why)
            self._changed.notify_all()

    def give_up(self, name: str) -> None:
        """A worker will not come back: its partitions go to those that are left, which read them from the store."""
        with self._changed:
            self._lose(name, "it was started as often as it may be")
            self._holdings.give_up(name)
            self._adopt()
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        with self._changed:
            self.error = self.error or error
            self._over = True
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the run is over; gives whether it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._over, timeout_s)
            return self._over

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the workers that are there."""
        with self._changed:
            return tuple(self._workers)

    @property
    def complete(self) -> bool:
        """Whether everybody who was to come has come."""
        with self._changed:
            return self._holdings.complete

    def look_after(self) -> tuple[str, ...]:
        """Find workers that have fallen silent, and units that take too long.

        Returns
        -------
        tuple of str
            Workers that are lost, whose jobs are to be ended.
        """
        now = time.monotonic()
        with self._changed:
            silent = [worker.name for worker in self._workers.values() if now - worker.seen > _SILENT_S]
            for name in silent:
                self._lose(name, f"no word for {_SILENT_S:.0f} s")
            for worker in self._workers.values():
                assignment = worker.assignment
                if (
                    assignment is not None
                    and not worker.abort
                    and now - self._started - assignment.began > self._limit(assignment)
                ):
                    _LOG.warning("%s takes too long on %s and is ended", assignment.name, worker.name)
                    worker.abort = True
            late = self._holdings.expired(now - self._rejoin_s)
            for name in late:
                _LOG.warning("worker %s did not come back in %.0f s: others take its shards", name, self._rejoin_s)
            self._adopt()
            if silent or late:
                self._changed.notify_all()
            return tuple(silent)

    # Inside, with the lock held.

    def _known(self, message: dict[str, Any]) -> Attached | None:
        worker = self._workers.get(message["worker"])
        if worker is None or worker.attempt != message["attempt"]:
            return None
        worker.seen = time.monotonic()
        return worker

    def _limit(self, assignment: Assignment) -> float:
        if self._timeout is not None:
            return self._timeout
        longest = self._longest.get(f"{assignment.kind} {assignment.trial.config}")
        return float("inf") if longest is None else _PATIENCE * longest + _PATIENCE_S

    def _new_hopper(self) -> Hopper:
        """Of this epoch: the trials that go on, with what they have visited of it."""
        placements = self._replay.get(self.epoch)
        if placements:
            done = {trial.config: trial.done(self.epoch) for trial in self.trials if trial.running}
            hopper = Hopper.replay(
                placements, times=self._times, done={name: seen for name, seen in done.items() if seen}
            )
        else:
            hopper = Hopper(
                (),
                {number: [] for number in self._partitions},
                policy=self._policy,
                times=self._times,
                seed=self._seed + self.epoch,
            )
            # Those that ended too: the order of "fixed" depends on a configuration's place among all.
            for trial in self.trials:
                hopper.add(trial.config, trial.done(self.epoch) if trial.running else self._partitions)
        for worker in self._workers.values():
            hopper.join(worker.name, self._holdings[worker.name])
        return hopper

    def _take(self, worker: Attached) -> Assignment | None:
        if worker.assignment is not None or worker.abort or self._closing:
            return None
        unit = self._hopper.next_unit(worker.name)
        if unit is not None:
            kind, trial, partition = "train", self._by_name[unit.config], unit.partition
        else:
            ready = sorted(
                pair
                for pair in self._evaluations
                if pair[1] in self._holdings[worker.name] and self._reachable(self._by_name[pair[0]])
            )
            if not ready:
                return None
            # One whose state is here already costs no hop.
            config, partition = min(ready, key=lambda pair: self._by_name[pair[0]].holder != worker.name)
            self._evaluations.discard((config, partition))
            kind, trial = "evaluate", self._by_name[config]
        name = f"{kind} {trial.config} epoch {self.epoch} partition {partition} #{next(self._numbers)}"
        began = time.monotonic() - self._started
        from_store = trial.version > 0 and trial.holder not in self._workers
        worker.assignment = Assignment(
            name, kind, trial, self.epoch, partition, trial.version, began, from_store, trial.holder
        )
        return worker.assignment

    def _described(self, assignment: Assignment) -> dict[str, Any]:
        trial = assignment.trial
        holder = self._workers.get(trial.holder or "")
        return {
            "do": assignment.kind,
            "id": assignment.name,
            "config": trial.config,
            "params": trial.params,
            "epoch": assignment.epoch,
            "partition": assignment.partition,
            "version": assignment.version,
            "digest": trial.digests[assignment.version],
            "peer": holder.location if holder is not None else "",
            "ends_epoch": len(trial.done(assignment.epoch)) + 1 == len(self._partitions),
            "record": trial.record(assignment.epoch),
        }

    def _reported(self, worker: Attached, report: dict[str, Any]) -> None:
        assignment = worker.assignment
        if assignment is None or assignment.name != report["id"]:
            return
        worker.assignment = None
        trial = assignment.trial
        now = time.monotonic() - self._started
        if "failed" in report:
            self._came_to_nothing(worker, assignment, report)
        else:
            fetched = int(report["fetched"])
            event = Event(
                kind=assignment.kind,
                trial_id=trial.config,
                worker=worker.name,
                epoch=assignment.epoch,
                partition=assignment.partition,
                began=assignment.began,
                ended=now,
                seconds=float(report["seconds"]),
                fetched_bytes=fetched,
                from_store=bool(fetched) and assignment.from_store,
            )
            self.events.append(event)
            key = f"{assignment.kind} {trial.config}"
            self._longest[key] = max(self._longest.get(key, 0.0), now - assignment.began)
            if assignment.kind == "train":
                before = trial.holder
                trial.trained(assignment.epoch, assignment.partition, worker.name, report)
                if before is not None and before != worker.name and before in self._workers:
                    self._workers[before].drop.append((trial.config, assignment.version))
                self._hopper.finish(Unit(trial.config, assignment.partition), max(float(report["seconds"]), 1e-6))
                if trial.running and len(trial.done(self.epoch)) == len(self._partitions):
                    self._wants_evaluation(trial)
            elif trial.running and assignment.version == trial.version:
                trial.evaluated[assignment.partition] = report["sums"]
            self._observer.unit(event)
            self._rewind(trial)
        self._step()

    def _wants_evaluation(self, trial: Trial) -> None:
        if self._validates:
            self._evaluations |= {
                (trial.config, number) for number in self._partitions if number not in trial.evaluated
            }

    def _came_to_nothing(self, worker: Attached, assignment: Assignment, report: dict[str, Any]) -> None:
        trial = assignment.trial
        if assignment.kind == "train":
            self._hopper.fail(Unit(trial.config, assignment.partition))
        if report["failed"] == "hop":
            _LOG.warning("%s did not get its state: %s", assignment.name, report["traceback"])
            if trial.holder not in self._workers or trial.holder == assignment.peer:
                trial.holder = None
            if assignment.from_store:
                trial.strikes += 1
                if trial.strikes >= _STRIKES:
                    self._end(trial, "lost its state", report["traceback"])
                    return
            if assignment.kind == "evaluate" and trial.running:
                self._evaluations.add((trial.config, assignment.partition))
            self._rewind(trial)
            return
        _LOG.warning("%s %s on %s:\n%s", trial.config, report["failed"], worker.name, report["traceback"])
        self._end(trial, report["failed"], report["traceback"])

    def _adopt(self) -> None:
        """What nobody has goes to who is here."""
        for name, number in self._holdings.adopt():
            self._hopper.hold(name, [number])

    def _end(self, trial: Trial, status: str, why: str) -> None:
        if not trial.running:
            return
        trial.status, trial.traceback = status, why
        self._hopper.stop(trial.config)
        self._evaluations = {pair for pair in self._evaluations if pair[0] != trial.config}
        self._observer.trial_ended(trial)

    def _lose(self, name: str, why: str) -> None:
        worker = self._workers.pop(name, None)
        if worker is None:
            return
        self._holdings.go(name, time.monotonic())
        loss = Loss(time.monotonic() - self._started, name, worker.host, why)
        self.losses.append(loss)
        self._observer.worker_lost(loss)
        _LOG.warning("lost worker %s on %s: %s", name, worker.host, why)
        self._hopper.lose(name)
        assignment = worker.assignment
        if assignment is not None:
            self.redone += 1
            assignment.trial.strikes += 1
            if assignment.trial.strikes >= _STRIKES:
                self._end(
                    assignment.trial,
                    "killed its workers",
                    f"{assignment.trial.strikes} workers were lost while they had it; the last one: {why}",
                )
            elif assignment.kind == "evaluate" and assignment.trial.running:
                self._evaluations.add((assignment.trial.config, assignment.partition))
        for trial in self.trials:
            if trial.holder == name:
                trial.holder = None
            # Also one whose holder was lost before, while this worker may have had its state.
            self._rewind(trial)
        self._adopt()
        self._step()

    def _reachable(self, trial: Trial) -> bool:
        """Whether the last state can be had: from a worker, from the store, or anew from the seed."""
        return trial.whole or trial.holder in self._workers

    def _rewind(self, trial: Trial) -> None:
        """Go back to what the store has, where the last state is lost for sure."""
        if self._reachable(trial) or not trial.running:
            return
        # A worker that has it in training may have its state, or will say that it has not.
        if any(other.assignment is not None and other.assignment.trial is trial for other in self._workers.values()):
            return
        self._evaluations = {pair for pair in self._evaluations if pair[0] != trial.config}
        for partition in trial.rewind():
            self.redone += 1
            self._hopper.reopen(trial.config, partition)

    def _step(self) -> None:
        """See whether the epoch is over, or everything."""
        self._changed.notify_all()
        going = [trial for trial in self.trials if trial.running]
        flying = any(worker.assignment is not None for worker in self._workers.values())
        if self._over or self._closing or flying or self._evaluations or not self._hopper.done:
            return
        if not all(trial.whole for trial in going):
            return
        self._closing = True
        threading.Thread(target=self._close_epoch, name="epoch").start()

    def _close_epoch(self) -> None:
        """Outside of the lock, for the store and the tracking server take their time; nothing is given out by then."""
        running = [trial for trial in self.trials if trial.running]
        try:
            self._finished_epoch(self.epoch, self.trials, tuple(self.events))
        except BaseException as error:  # noqa: BLE001 - raised again where the run was started
            self.fail(error)
            return
        with self._changed:
            for trial in self.trials:
                trial.evaluated.clear()
            self._closing = False
            going = [trial for trial in self.trials if trial.running]
            for trial in running:
                if not trial.running:
                    self._observer.trial_ended(trial)
            if self.epoch + 1 >= self._epochs or not going:
                self._over = True
            else:
                self.epoch += 1
                self._holdings.level()
                self._hopper = self._new_hopper()
            self._changed.notify_all()
