"""Epochs: sees when one is over, has its results written, and opens the next."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from optimizer.hopper import Hopper, UnitTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.hopper._events import Event
    from cerebro_spark.hopper._state import RunState
    from cerebro_spark.hopper._trial import Trial
    from optimizer.hopper import Placement

__all__ = ["Epochs"]


class Epochs:
    """Opens and closes the epochs of a run.

    Parameters
    ----------
    state : RunState
    rows : mapping of int to int
        Training rows of each partition.
    epochs : int
    policy : str
        One of :data:`optimizer.hopper.POLICIES`.
    seed : int
    replay : mapping of int to sequence of Placement
        By epoch, visits to follow instead of the policy.
    finished_epoch : callable
        Called with the epoch, the trials and all events as soon as it is over, with no lock held.
    """

    def __init__(
        self,
        state: RunState,
        *,
        rows: Mapping[int, int],
        epochs: int,
        policy: str,
        seed: int,
        replay: Mapping[int, Sequence[Placement]],
        finished_epoch: Callable[[int, Sequence[Trial], Sequence[Event]], None],
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._policy = policy
        self._seed = seed
        self._replay = replay
        self._finished_epoch = finished_epoch
        self._times = UnitTimes(rows={partition: max(1, count) for partition, count in rows.items()})

    def open(self) -> None:
        """Schedule the state's epoch, without the units that are done. Its callers hold the run's lock."""
        state = self._state
        state.hopper = self._new_hopper()
        for worker in state.workers.values():
            state.hopper.join(worker.name, state.holdings[worker.name])
        # A trial of a resumed run may have nothing to train in its epoch.
        for trial in state.trials:
            state.want_evaluation(trial)

    def step(self) -> None:
        """Close the epoch if it is over, and wake those that wait. Its callers hold the run's lock."""
        state = self._state
        state.changed.notify_all()
        busy = state.assignments or state.evaluations or not state.hopper.done
        if state.over or state.closing or busy or not all(trial.durable for trial in state.running):
            return
        state.closing = True
        # Outside of the lock, for the store and the tracking server take their time.
        threading.Thread(target=self._close, name="epoch").start()

    def _close(self) -> None:
        state = self._state
        running = state.running
        try:
            self._finished_epoch(state.epoch, state.trials, tuple(state.events))
        except BaseException as error:  # noqa: BLE001 - raised again where the run was started
            with state.changed:
                state.closing = False
                state.fail(error)
            return
        with state.changed:
            for trial in state.trials:
                trial.evaluated.clear()
            for trial in running:
                if not trial.running:
                    state.observer.trial_ended(trial)
            state.closing = False
            if state.epoch + 1 >= self._epochs or not state.running:
                state.over = True
            else:
                state.epoch += 1
                state.holdings.level()
                self.open()
            state.changed.notify_all()

    def _new_hopper(self) -> Hopper:
        state = self._state
        placements = self._replay.get(state.epoch)
        if placements:
            done = {trial.trial_id: trial.done(state.epoch) for trial in state.running}
            visited = {trial_id: partitions for trial_id, partitions in done.items() if partitions}
            return Hopper.replay(placements, times=self._times, done=visited)
        hopper = Hopper(
            (),
            {partition: [] for partition in state.partitions},
            policy=self._policy,
            times=self._times,
            seed=self._seed + state.epoch,
        )
        # Those that ended too: the order of "fixed" depends on a trial's place among all.
        for trial in state.trials:
            hopper.add(trial.trial_id, trial.done(state.epoch) if trial.running else state.partitions)
        return hopper
