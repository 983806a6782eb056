"""Epochs: sees when a trial's is over, has its results written, and lets it enter the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from optimizer.hopper import Hopper, UnitTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.hopper._events import Event
    from cerebro_spark.hopper._state import RunState
    from cerebro_spark.hopper._trial import Trial
    from optimizer.hopper import Placement

__all__ = ["ROUNDS", "Epochs"]

#: When a trial enters its next epoch, the default first. ``"rolling"``: as soon as its own results are written.
#: ``"together"``: once those of all trials are, as in the papers, so that workers idle at the end of each epoch.
ROUNDS = ("rolling", "together")


class Epochs:
    """Opens and closes the epochs of each trial. Its callers hold the run's lock.

    Parameters
    ----------
    state : RunState
    rows : mapping of int to int
        Training rows of each partition.
    policy : str
        One of :data:`optimizer.hopper.POLICIES`.
    seed : int
    rounds : str
        One of :data:`ROUNDS`.
    replay : mapping of int to sequence of Placement
        By epoch, visits to follow instead of the policy.
    close : callable
        Called with trials that have finished an epoch or ended early, and the events since the last call, with no lock
        held. One call at a time.
    """

    def __init__(
        self,
        state: RunState,
        *,
        rows: Mapping[int, int],
        policy: str,
        seed: int,
        rounds: str,
        replay: Mapping[int, Sequence[Placement]],
        close: Callable[[Sequence[Trial], Sequence[Event]], None],
    ) -> None:
        self._state = state
        self._together = rounds == "together"
        self._finish = close
        self._times = UnitTimes(rows={partition: max(1, count) for partition, count in rows.items()})
        self._closing: set[str] = set()
        self._over: list[Trial] = []
        self._written = 0
        # Trials that ended before this part of the run are written already.
        self._ended = {trial.trial_id for trial in state.trials if not trial.running}
        # For the store and the tracking server take their time.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="epochs")
        state.hopper = self._new_hopper(policy, seed, replay)
        self._enter()
        # A trial of a resumed run may have nothing to train in its epoch.
        for trial in state.trials:
            state.want_evaluation(trial)

    def step(self) -> None:
        """Close the epochs that are over, and wake those that wait."""
        state = self._state
        state.changed.notify_all()
        if state.over:
            return
        over = self._finished()
        over += [trial for trial in state.trials if not trial.running and trial.trial_id not in self._ended]
        if not over:
            self._end_run()
            return
        self._closing |= {trial.trial_id for trial in over}
        self._ended |= {trial.trial_id for trial in over if not trial.running}
        self._over += over
        self._writer.submit(self._close)

    def shut_down(self) -> None:
        """Wait for results that are being written."""
        self._writer.shutdown(cancel_futures=True)

    def _finished(self) -> list[Trial]:
        state = self._state
        running = [trial for trial in state.running if trial.trial_id not in self._closing]
        if self._together:
            running = self._behind(running)
        busy = {assignment.trial.trial_id for assignment in state.assignments}
        busy |= {trial_id for trial_id, _ in state.evaluations}
        finished = [
            trial
            for trial in running
            if trial.trial_id not in busy and trial.durable and len(trial.done(trial.epoch)) == len(state.partitions)
        ]
        return [] if self._together and len(finished) < len(running) else finished

    def _close(self) -> None:
        state = self._state
        with state.changed:
            # All that have ended while others were written, at once.
            trials, self._over = self._over, []
            events, self._written = tuple(state.events[self._written :]), len(state.events)
        if not trials:
            return
        running = [trial for trial in trials if trial.running]
        try:
            self._finish(trials, events)
        except BaseException as error:  # noqa: BLE001 - raised again where the run was started
            state.fail(error)
            return
        with state.changed:
            self._closing -= {trial.trial_id for trial in trials}
            for trial in running:
                trial.evaluated.clear()
                if not trial.running:
                    self._ended.add(trial.trial_id)
                    state.observer.trial_ended(trial)
            if state.running:
                for name in state.holdings.level():
                    state.hopper.hold(name, state.holdings[name])
                self._enter()
            self.step()

    def _end_run(self) -> None:
        state = self._state
        if not self._closing and not state.running:
            state.over = True
            state.changed.notify_all()

    def _enter(self) -> None:
        """Let trials enter their next epoch."""
        state = self._state
        running = [trial for trial in state.running if trial.trial_id not in self._closing]
        for trial in self._behind(running) if self._together else running:
            if state.entered.get(trial.trial_id) != trial.epoch:
                state.enter(trial)

    def _behind(self, trials: Sequence[Trial]) -> list[Trial]:
        """Give the trials that are in the earliest epoch that any is in."""
        epoch = min((trial.epoch for trial in self._state.running), default=0)
        return [trial for trial in trials if trial.epoch == epoch]

    def _new_hopper(self, policy: str, seed: int, replay: Mapping[int, Sequence[Placement]]) -> Hopper:
        state = self._state
        nobody: dict[int, list[str]] = {partition: [] for partition in state.partitions}
        if any(replay.values()):
            hopper = Hopper.replay(replay, nobody, times=self._times)
        else:
            hopper = Hopper((), nobody, policy=policy, times=self._times, seed=seed)
            # Those that ended too: the order of "fixed" depends on a trial's place among all.
            for trial in state.trials:
                hopper.add(trial.trial_id)
        # Nothing is pending until a trial enters its epoch.
        for trial in state.trials:
            if trial.running:
                hopper.enter(trial.trial_id, trial.epoch, state.partitions)
            elif not any(replay.values()):
                hopper.stop(trial.trial_id)
        return hopper
