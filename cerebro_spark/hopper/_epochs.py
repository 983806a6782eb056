"""Epochs of trials: their ends, the decisions about what comes next, and the entry into the next one."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from cerebro_spark.errors import CerebroError, InvalidArgumentError
from optimizer.hopper import Hopper, UnitTimes
from optimizer.procedures import Added, ProcedureError, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from cerebro_spark.hopper._director import Director
    from cerebro_spark.hopper._epoch_writer import TrialWriter
    from cerebro_spark.hopper._events import Event
    from cerebro_spark.hopper._groups import Groups
    from cerebro_spark.hopper._recovery import Recovery
    from cerebro_spark.hopper._state import RunState
    from cerebro_spark.hopper._trial import Trial
    from optimizer.procedures import Decision, Origin, Source, UserRequest

__all__ = ["Epochs"]

_LOG = logging.getLogger(__name__)


class Epochs:
    """Start and end of the epochs of each trial. Callers must hold the lock of the run, except for :meth:`shut_down`.

    A replay has no rounds: its order is that of the record.
    """

    def __init__(
        self, state: RunState, groups: Groups, director: Director, recovery: Recovery, writer: TrialWriter
    ) -> None:
        context = state.context
        self._state = state
        self._groups = groups
        self._director = director
        self._recovery = recovery
        self._recorded = context.recorded
        self._together = context.spec.rounds == "together" and context.recorded is None
        self._writer = writer
        self._times = UnitTimes(rows={partition: max(1, count) for partition, count in context.train_rows.items()})
        self._over: list[Trial] = []
        self._written = 0
        # Failures that the director knows of.
        self._failed = {trial.trial_id for trial in state.trials if trial.failed}
        # Those that the procedure is asked to stop where they stopped before.
        self._stopping: set[str] = set()
        # Ended trials with more epochs to train, which begin once their units in flight are reported.
        self._reviving: set[str] = set()
        # The store and the tracking server are slow, so results are written in a thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="epochs")
        state.hopper = self._new_hopper(context.spec.policy, context.spec.seed)
        self._enter()
        # A trial of a resumed run may have nothing to train in its epoch.
        for trial in state.trials:
            state.want_evaluation(trial)

    def step(self) -> None:
        """Close the epochs that are over, and wake those that wait."""
        state = self._state
        state.changes += 1
        state.changed.notify_all()
        if state.over:
            return
        self._end_as_recorded()
        if self._reviving - self._in_flight():
            self._thread.submit(self._carry_out, ())
        over = self._finished()
        failed = [trial for trial in state.trials if trial.failed and trial.trial_id not in self._failed]
        if failed and (not self._together or over or not self._training()):
            over += failed
            self._failed |= {trial.trial_id for trial in failed}
        if over:
            state.closing |= {trial.trial_id for trial in over}
            self._over += over
            self._thread.submit(self._close)
        elif not state.closing and not state.running:
            state.over = True
            state.changed.notify_all()

    def out_of_time(self, reason: str, origin: Origin | None = None) -> Future[None]:
        """End all trials, because the time is over or the user ends the search."""
        return self._thread.submit(self._decide, partial(self._director.out_of_time, reason, origin))

    def request(self, request: Callable[[], UserRequest], origin: Origin | None = None) -> Future[tuple[Decision, ...]]:
        """Pass a request of the user to the procedure; the future raises the errors of :meth:`Director.request`.

        A request whose command the journal has is not made again: the future has the decisions of the first time.
        """
        return self._thread.submit(self._request, request, origin)

    def offer(self) -> None:
        """Ask the procedure for more: a slot is free that was not when it was asked last."""
        self._thread.submit(self._decide, partial(self._director.ask, []))

    def shut_down(self) -> None:
        """Wait for results that are being written, and write the units of unfinished epochs.

        The lock must be free.
        """
        self._thread.shutdown(cancel_futures=True)
        with self._state.changed:
            events = self._unwritten()
        if events:
            try:
                self._writer.write_epochs([], events)
            except CerebroError as error:
                # The run has ended; its results are written, or there is an error already.
                _LOG.warning("the last %d units are not in the store: %s", len(events), error)

    def _training(self) -> list[Trial]:
        return [
            trial
            for trial in self._state.running
            if trial.trial_id not in self._state.closing | self._reviving
            and trial.epoch < trial.granted
            and self._end_of(trial) is None
        ]

    def _end_of(self, trial: Trial) -> Trial | None:
        return None if self._recorded is None else self._recorded.end_of(trial)

    def _end_as_recorded(self) -> None:
        """End trials of a replay that ended within an epoch, once the store has their last states."""
        state = self._state
        for trial in state.running:
            first = self._end_of(trial)
            if first is None or not trial.durable or trial.trial_id in state.closing | self._stopping:
                continue
            if first.failed:
                self._groups.end(trial, first.status, first.traceback)
            else:
                self._stopping.add(trial.trial_id)
                request = Stopped(trial.trial_id, first.reason)
                self._thread.submit(self._decide, partial(self._director.request, request))

    def _unwritten(self) -> tuple[Event, ...]:
        events, self._written = tuple(self._state.events[self._written :]), len(self._state.events)
        return events

    def _finished(self) -> list[Trial]:
        state = self._state
        busy = self._in_flight() | {trial_id for trial_id, _ in state.evaluations}
        training = [trial for trial in self._training() if not state.waits(trial)]
        finished = [
            trial
            for trial in training
            if trial.trial_id not in busy
            and len(trial.done(trial.epoch)) == len(state.partitions)
            and state.secured(trial)
        ]
        # Those that entered the epoch as a group enter the next one together, also where the group was split meanwhile.
        late = {trial.trial_id for trial in training if not trial.is_paused} - {trial.trial_id for trial in finished}
        finished = [
            trial for trial in finished if late.isdisjoint(each.trial_id for each in self._groups.companions(trial))
        ]
        # Trials do not wait for those that the user has paused.
        awaited = [trial for trial in training if not trial.is_paused or trial in finished]
        return [] if self._together and len(finished) < len(awaited) else finished

    def _close(self) -> None:
        state = self._state
        with state.changed:
            # All that have ended while others were written, at once.
            trials, self._over = self._over, []
            events = self._unwritten() if trials else ()
        if not trials:
            return
        try:
            self._writer.write_epochs(trials, events)
            decisions = self._director.ask(trials)
        except BaseException as error:  # noqa: BLE001 - raised again where the run was started
            state.fail(error)
            return
        with state.changed:
            state.closing -= {trial.trial_id for trial in trials}
            for trial in trials:
                trial.evaluated.clear()
            self._recovery.rewind(trials)
        self._carry_out(decisions)

    def _request(self, request: Callable[[], UserRequest], origin: Origin | None) -> tuple[Decision, ...]:
        if (earlier := self._director.decisions_about(origin)) is not None:
            return earlier
        try:
            wish = request()
            if isinstance(wish, Added) and wish.source is not None:
                self._check_source(wish.source)
            decisions = self._director.request(wish)
        except (ProcedureError, InvalidArgumentError):
            raise  # the user's mistake, and nothing has changed
        except BaseException as error:
            self._state.fail(error)
            raise
        self._carry_out(decisions)
        return decisions

    def _check_source(self, source: Source) -> None:
        """Check that the store has the state that is to be cloned; a procedure's own clones are of last epochs."""
        trial = self._state.trial[source.trial_id]
        version = source.epoch * len(self._state.partitions)
        finished = 1 <= source.epoch <= len(trial.history)
        if not finished or trial.digests[version] not in trial.stored.get(version, ()):
            raise InvalidArgumentError(
                f"the store has no state of {source.trial_id} after epoch {source.epoch}: it has finished "
                f'{len(trial.history)}, and a search with keep="epochs" keeps the states of all'
            )

    def _decide(self, ask: Callable[[], Sequence[Decision]]) -> None:
        try:
            decisions = ask()
        except BaseException as error:  # noqa: BLE001 - raised again where the run was started
            self._state.fail(error)
            return
        self._carry_out(decisions)

    def _carry_out(self, decisions: Sequence[Decision]) -> None:
        state = self._state
        with state.changed:
            ended = {trial.trial_id for trial in state.trials if not trial.live}
            changed = self._director.carry_out(decisions)
            for trial in changed:
                if trial.live and trial.trial_id in ended | self._failed:
                    self._failed.discard(trial.trial_id)
                    self._reviving.add(trial.trial_id)
                if trial.trial_id not in state.trial:
                    state.add(trial)
                    state.observer.trial_started(trial)
                if not trial.live:
                    state.cancel_evaluation(trial)
                    self._groups.leave(trial)
                    if not trial.failed or trial.trial_id not in self._failed:
                        self._failed.add(trial.trial_id)
                        state.observer.trial_ended(trial)
            self._revive()
            for name in state.holdings.level() if state.running else ():
                state.hopper.hold(name, state.holdings[name])
        try:
            self._writer.write_ends([trial for trial in changed if not trial.running])
            self._enter()
        except BaseException as error:  # noqa: BLE001 - raised again where the run was started
            state.fail(error)
            return
        with state.changed:
            self.step()

    def _revive(self) -> None:
        """Let trials that had ended enter the epoch after their last finished one, unless a unit is in flight."""
        state = self._state
        for trial in [state.trial[trial_id] for trial_id in self._reviving - self._in_flight()]:
            self._reviving.discard(trial.trial_id)
            if trial.running:
                self._recovery.rewind([trial])
                state.entered.pop(trial.trial_id, None)
                state.want_evaluation(trial)

    def _in_flight(self) -> set[str]:
        return {trial.trial_id for assignment in self._state.assignments for trial in assignment.trials}

    def _enter(self) -> None:
        """Start the next epoch of trials that may train more. The caller must not hold the lock."""
        entered = self._state.entered
        self._groups.enter(lambda: [trial for trial in self._training() if entered.get(trial.trial_id) != trial.epoch])

    def _new_hopper(self, policy: str, seed: int) -> Hopper:
        state = self._state
        holders: dict[int, list[str]] = {partition: [] for partition in state.partitions}
        if self._recorded is not None:
            hopper = Hopper.replay(self._recorded.placements, holders, times=self._times, configs=())
        else:
            hopper = Hopper((), holders, policy=policy, times=self._times, seed=seed)
        # Nothing is pending until a trial enters its epoch. Those that ended are there too: the order of "fixed"
        # depends on a trial's place among all.
        for trial in state.trials:
            hopper.add(trial.trial_id, state.partitions, epoch=trial.epoch, inherited=state.inherited(trial))
        return hopper
