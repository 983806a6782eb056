"""Service of a run: a loop that asks for units, runs and reports them (Cerebro, section 3.4.2, the task executor)."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self

from pyspark import TaskContext

from udfs.heartbeat import Heartbeat
from udfs.hopper._checkpoints import Checkpoints
from udfs.hopper._group_units import GroupUnits
from udfs.hopper._joint_units import JointUnits
from udfs.hopper._messages import HOPPER, Hello, JointUnit, NextUnit, ShardFailed, Stop, TrainUnit, WorkUnit
from udfs.hopper._outcomes import Outcomes
from udfs.hopper._sessions import Sessions
from udfs.hopper._shards import Shards
from udfs.hopper._stack_units import StackUnits
from udfs.hopper._states import States
from udfs.hopper._units import Units
from udfs.hopper._uploads import Uploads
from udfs.node import memory_limit, worker_status
from udfs.rpc import Caller, CallError, Endpoint, RefusedError, address_towards
from udfs.shards import ShardError

if TYPE_CHECKING:
    from udfs.heartbeat import Output, Printed
    from udfs.hopper._interruption import Interruption
    from udfs.hopper._messages import EvaluateReport, EvaluateUnit, JointReport, TrainReport, UnitFailure
    from udfs.hopper._process_place import Place
    from udfs.hopper._settings import WorkerSettings
    from udfs.rpc import Credentials
    from udfs.shards import Tensors

__all__ = ["Service"]

_CALL_S = 30.0

# Configurations of a fused unit that its record names.
_NAMED = 3


class Service:
    """Attempt of a worker, from its first shard to the end of the run; others may share its process."""

    def __init__(
        self,
        worker: WorkerSettings,
        driver: str,
        credentials: Credentials,
        place: Place,
        output: Output,
        interruption: Interruption,
    ) -> None:
        self._worker = worker
        self._attempt = place.attempt
        self._interruption = interruption
        self._leaving = threading.Lock()
        self._in_unit = False
        self.left = threading.Event()
        self._place = place
        self._cpu_before = 0.0
        self._task = TaskContext.get()
        limit = worker.memory_bytes or memory_limit()[0] // 4
        checkpoints = Checkpoints(worker.prepared.store, worker.run)
        self._states = States(limit // 2)
        # Half of it for rows; an adaptation has its open models there too.
        rows = limit // 2 if worker.adaptation is None else limit // 4
        self._shards = Shards(worker.prepared, rows)
        self._sessions = Sessions(worker, self._states, checkpoints, credentials)
        self._driver = Caller(driver, credentials, HOPPER)
        self._endpoint = Endpoint(address_towards(driver), credentials, HOPPER, held=self._states.get)
        self._uploads = Uploads(
            worker.worker,
            self._attempt,
            self._driver,
            checkpoints,
            self._states,
            num_shards=len(worker.prepared.partitions),
        )
        outcomes = Outcomes(self._sessions, self._states, self._uploads, self._interrupted)
        units = Units(
            worker.seed,
            self._shard,
            self._sessions,
            outcomes,
            one_order=worker.adaptation is not None,
            folds=worker.folds,
        )
        self._units: Units | GroupUnits | StackUnits = units
        if worker.stacks:
            self._units = StackUnits(units, self._shard, self._sessions, outcomes)
        if worker.adaptation is not None:
            self._units = GroupUnits(worker, units, self._sessions, outcomes, self._tell_damaged, memory_bytes=rows)
        self._joint_units = JointUnits(
            worker.worker, self._attempt, units, self._shard, self._sessions, outcomes, driver, credentials
        )
        self._output = output
        self._heartbeat = Heartbeat(worker.worker, self._attempt, driver, credentials, HOPPER, output=self._output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.stop()
        self._uploads.close()
        self._endpoint.shutdown()
        self._driver.close()
        self._sessions.close()

    @property
    def cpu_seconds(self) -> float:
        """Seconds of the CPU since it was attached."""
        return self._place.cpu_seconds - self._cpu_before

    def serve(self) -> None:
        """Load the shards, attach to the driver, and work until it says stop."""
        # From the start, so that the driver knows of each process that the run has.
        self._heartbeat.start()
        try:
            # An adaptation reads what its groups are to read, once it knows.
            for partition in () if self._worker.adaptation is not None else self._worker.partitions:
                self._shard("train", partition)
                self._shard("validation", partition)
        except ShardError:
            return  # the driver knows, and ends the run
        if not self._place.take():
            return
        self._place.call(self._sessions.warm_up)
        hello = Hello(
            worker=self._worker.worker,
            attempt=self._attempt,
            location=self._endpoint.location,
            host=socket.gethostname(),
            memory_bytes=memory_limit()[0],
            shard_bytes=self._shards.memory_bytes,
        )
        if isinstance(self._driver.call(hello, timeout_s=_CALL_S), Stop):
            return
        self._cpu_before = self._place.cpu_seconds
        self._work()

    def hand_over(self) -> None:
        """Store the states that only this process has; then leave the run, unless a unit is in flight."""
        self._store_states()
        if not self._in_unit:
            self.leave()

    def leave(
        self,
        report: TrainReport | JointReport | EvaluateReport | UnitFailure | None = None,
        printed: Printed | None = None,
    ) -> None:
        """Leave the run, with the report of the last unit; without it, another worker runs the unit again."""
        with self._leaving:
            if self.left.is_set():
                return
            self._store_states()
            request = NextUnit(
                worker=self._worker.worker,
                attempt=self._attempt,
                report=report,
                printed=printed,
                takes=False,
                leaves=True,
            )
            with suppress(CallError, RefusedError):  # the run is over, or its driver is gone
                self._driver.call(request, timeout_s=min(_CALL_S, max(1.0, self._interruption.remaining_s)))
            self.left.set()

    def _store_states(self) -> None:
        """Write the states that the store does not have, after those that are on their way to it."""
        self._uploads.flush(self._interruption.remaining_s)
        for record, state in self._states.unstored():
            self._uploads.submit(record, state)
        self._uploads.flush(self._interruption.remaining_s)

    def _work(self) -> None:
        """Train units, each in a turn of this run, until the driver says stop."""
        report: TrainReport | JointReport | EvaluateReport | UnitFailure | None = None
        printed: Printed | None = None
        while not self._interrupted() and not self._interruption.is_noticed():
            request = NextUnit(
                worker=self._worker.worker,
                attempt=self._attempt,
                report=report,
                printed=printed,
                takes=self._place.has_turn,
            )
            reply = self._driver.call(request, timeout_s=_CALL_S)
            self._in_unit = isinstance(reply, WorkUnit)
            if isinstance(reply, Stop):
                return
            for trial_id, version in reply.drop:
                self._states.drop(trial_id, version)
            # Others took some while this worker was lost, or are to have some from this epoch on.
            self._shards.retain(reply.holds)
            report = printed = None
            if isinstance(reply, WorkUnit):
                if self._interruption.is_noticed():
                    break
                where = f"{reply.unit_id} on {self._worker.worker}"
                self._output.begin(self._attempt, reply.members[0].trial_id, where)
                report = self._place.call(partial(self._run, reply))
                printed = self._output.take(self._attempt)
                if self._interruption.is_noticed():
                    break
                self._place.share()
            elif self._place.has_turn:
                # There is nothing to train: the others may.
                self._place.give_up()
            elif not self._place.take():
                return
        if self._interruption.is_noticed():
            self.leave(report, printed)

    def _run(self, unit: TrainUnit | EvaluateUnit) -> TrainReport | JointReport | EvaluateReport | UnitFailure:
        """Run a unit in the thread that trains, and record it for the plugin of the executor."""
        trials = ", ".join(member.trial_id for member in unit.members[:_NAMED])
        more = f" and {len(unit.members) - _NAMED} more" if len(unit.members) > _NAMED else ""
        kind = f"epoch {unit.epoch + 1}" if isinstance(unit, TrainUnit) else "evaluation"
        with worker_status().unit(trials + more, f"{kind}, shard {unit.partition}"):
            return self._joint_units.run(unit) if isinstance(unit, JointUnit) else self._units.run(unit)

    def _interrupted(self) -> bool:
        return self._task is not None and bool(getattr(self._task, "isInterrupted", bool)())

    def _shard(self, split: str, partition: int) -> Tensors:
        try:
            return self._shards.get(split, partition)
        except ShardError as error:
            self._tell_damaged(error)
            raise

    def _tell_damaged(self, error: ShardError) -> None:
        self._driver.call(ShardFailed(worker=self._worker.worker, error=str(error)), timeout_s=_CALL_S)
