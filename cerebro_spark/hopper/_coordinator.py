"""Coordinator of a run on the driver: workers, units, and recovery from losses (Cerebro, section 3.5)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper._assignment import Assignments
from cerebro_spark.hopper._epochs import Epochs
from cerebro_spark.hopper._groups import Groups
from cerebro_spark.hopper._liveness import Liveness
from cerebro_spark.hopper._protocol import Answers
from cerebro_spark.hopper._recovery import Recovery
from cerebro_spark.hopper._state import RunState
from cerebro_spark.hopper._teams import Teams
from optimizer.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from cerebro_spark.hopper._context import RunContext
    from cerebro_spark.hopper._director import Director
    from cerebro_spark.hopper._epoch_writer import TrialWriter
    from cerebro_spark.hopper._events import Event, Loss, Observer
    from cerebro_spark.hopper._trial import Trial
    from optimizer.procedures import Decision, Origin, UserRequest
    from udfs.rpc import Request

__all__ = ["Coordinator"]

# Between two looks at whether processes have fallen silent.
_LOOK_S = 0.25


class Coordinator:
    """Coordinator of trials that train on workers, epoch by epoch. Every method may be called from any thread.

    The clock starts at ``earlier_s``, the seconds of earlier parts of the run. The methods of ``observer`` are called
    with the lock held and must return at once.
    """

    def __init__(
        self,
        director: Director,
        context: RunContext,
        writer: TrialWriter,
        *,
        earlier_s: float = 0.0,
        observer: Observer | None = None,
    ) -> None:
        state = RunState(director.trials, context, earlier_s=earlier_s, observer=observer)
        self._state = state
        self._liveness = Liveness(state)
        self._groups = Groups(state)
        self._recovery = Recovery(state, self._groups)
        self._teams = Teams(state, self._groups, self._liveness, self._recovery)
        self._epochs = Epochs(state, self._groups, director, self._recovery, writer)
        self._answers = Answers(
            state,
            liveness=self._liveness,
            teams=self._teams,
            assignments=Assignments(state, self._groups, self._liveness, self._recovery, self._teams),
            recovery=self._recovery,
            epochs=self._epochs,
        )
        with state.changed:
            self._epochs.step()

    def out_of_time(self, reason: str, origin: Origin | None = None) -> Future[None]:
        """End all trials, because the time is over or the user ends the search; whatever was trained counts.

        The future is done once the end is journalled.
        """
        with self._state.changed:
            return self._epochs.out_of_time(reason, origin)

    def request(self, request: Callable[[], UserRequest], origin: Origin | None = None) -> Future[tuple[Decision, ...]]:
        """Pass a request of the user to the procedure.

        ``request`` returns it between two decisions: no epoch is closed and no state deleted meanwhile. The future has
        the decisions, once they are journalled and carried out, or what :meth:`Director.request` raises. If the journal
        has the command of ``origin`` already, ``request`` is not called, and the decisions are those of the first time.
        """
        return self._epochs.request(request, origin)

    def set_paused(self, trial_id: str, *, paused: bool) -> None:
        """Pause a trial once the unit in flight has ended, or let it continue.

        Raises
        ------
        InvalidArgumentError
            There is no such trial, it has ended, or it is so already.
        """
        with self._state.changed:
            trial = self.find(trial_id, live=True)
            if trial.is_paused == paused:
                raise InvalidArgumentError(f"{trial_id} is {'paused already' if paused else 'not paused'}")
            trial.is_paused = paused
            self._groups.regroup([trial])
            if paused:
                self._epochs.offer()
            self._epochs.step()

    def prioritise(self, trial_id: str) -> None:
        """Train a trial before all others.

        Raises
        ------
        InvalidArgumentError
            There is no such trial, or it has ended.
        """
        with self._state.changed:
            self.find(trial_id, live=True).urgent = True

    def find(self, trial_id: str, *, live: bool = False) -> Trial:
        """Return a trial by its id.

        Raise InvalidArgumentError if there is none, or with ``live`` if it has ended.
        """
        with self._state.changed:
            trial = self._state.trial.get(trial_id)
            if trial is None:
                hint = nearest(trial_id, self._state.trial)
                raise InvalidArgumentError(f"trial_id must name a configuration of the run, got {trial_id!r}{hint}")
            if live and not trial.live:
                raise InvalidArgumentError(f"{trial_id} has ended ({trial.status}: {trial.reason}): clone it instead")
            return trial

    def share(self, *, shared: bool) -> None:
        """Set whether other runs share the workers: then none waits for a unit of this run during its turn."""
        with self._state.changed:
            self._state.shared = shared
            self._state.changed.notify_all()

    def shut_down(self) -> None:
        """Wait until the results of the last epochs are written, once the run is over."""
        self._epochs.shut_down()

    # For the endpoint.

    def answer(self, request: Request[Any]) -> Any:
        """Reply to one request of :data:`udfs.hopper.HOPPER`.

        Raises
        ------
        udfs.rpc.RefusedError
            It names a trial that the run does not have, or reports what was not asked for.
        """
        return self._answers.answer(request)

    # For the workers' jobs.

    def lose(self, name: str, why: str) -> None:
        """Detach a lost worker, which may come back."""
        with self._state.changed:
            self._recovery.lose(name, why)
            self._epochs.step()

    def expect_loss(self, name: str) -> None:
        """Blame no trial for the loss of a worker whose machine is about to end, even if it cannot hand over."""
        with self._state.changed:
            worker = self._state.workers.get(name)
            if worker is not None:
                worker.is_reclaimed = True

    def give_up(self, name: str) -> None:
        """Move a lost worker's partitions to the remaining workers, because it will not come back."""
        with self._state.changed:
            self._recovery.give_up(name)
            self._epochs.step()

    def uncharged(self, name: str, *, works: bool = False) -> int:
        """Count the losses of a worker that are not its own: trials are blamed for them, or may be yet.

        With ``works`` the worker has finished a unit of another run.
        """
        with self._state.changed:
            return self._recovery.uncharged(name, works=works)

    def look_after(self) -> tuple[str, ...]:
        """Find workers that have fallen silent, units that take too long, and lost workers that do not come back.

        Return the workers that fell silent, whose jobs are to be ended.
        """
        with self._state.changed:
            silent = self._liveness.silent()
            for name, why in silent.items():
                self._recovery.lose(name, why)
            self._liveness.abort_overdue()
            self._teams.abort_late()
            self._recovery.give_up_late()
            self._epochs.step()
            return tuple(silent)

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        self._state.fail(error)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the run is over; gives whether it is."""
        with self._state.changed:
            return self._state.changed.wait_for(lambda: self._state.over, timeout_s)

    def abort(self) -> None:
        """Terminate every process of the run at its next heartbeat."""
        with self._state.changed:
            self._state.aborting = True

    def settle(self, timeout_s: float) -> bool:
        """Wait until the workers' processes are dead, or done with the run; return whether they are."""
        until = time.monotonic() + timeout_s
        with self._state.changed:
            # Those that went with their node say nothing: their time has to pass.
            while self._liveness.processes:
                if time.monotonic() > until:
                    return False
                self._state.changed.wait(_LOOK_S)
            return True

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the workers that are attached."""
        with self._state.changed:
            return tuple(self._state.workers)

    @property
    def only_paused_left(self) -> tuple[str, ...]:
        """Trials that the user has paused, where nothing else is left to train."""
        with self._state.changed:
            running = self._state.running
            idle = not self._state.assignments and not self._state.over and all(trial.is_paused for trial in running)
            return tuple(trial.trial_id for trial in running) if idle else ()

    @property
    def complete(self) -> bool:
        """True if every awaited worker has been attached once."""
        with self._state.changed:
            return self._state.holdings.complete

    # For displays and results.

    @property
    def context(self) -> RunContext:
        """Settings and resources of the run."""
        return self._state.context

    @property
    def trials(self) -> list[Trial]:
        """Trials of the run, those that ended included."""
        return self._state.trials

    @property
    def epoch(self) -> int:
        """The earliest epoch that a running trial is in."""
        return self._state.epoch

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return self._state.seconds

    @property
    def events(self) -> list[Event]:
        """Units that have ended."""
        return self._state.events

    @property
    def losses(self) -> list[Loss]:
        """Workers that were lost."""
        return self._state.losses

    @property
    def redone(self) -> int:
        """Units that were given out again after a loss."""
        return self._state.redone

    @property
    def decision_seconds(self) -> float:
        """Time in the scheduler."""
        return self._state.decision_seconds

    @property
    def checkpoint_seconds(self) -> float:
        """Time that workers took to write checkpoints, beside the training."""
        return self._state.checkpoint_seconds

    @property
    def error(self) -> BaseException | None:
        """The error that ended the run."""
        return self._state.error
