"""Groups of a run: formed when trials enter an epoch, and again when their trials differ."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from cerebro_spark.hopper._grouping import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from cerebro_spark.hopper._state import RunState
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Groups"]

_LOG = logging.getLogger(__name__)


class Groups:
    """The groups that trials are in, and what the scheduler knows of them.

    Callers must hold the lock of the run, except for :meth:`enter`.

    The scheduler has every trial as a configuration. A group is scheduled as its first trial; the others have nothing
    pending meanwhile. Trials of a group are in the same epoch, and have visited the same shards of it.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._grouping = state.context.grouping
        self._of: dict[str, Group] = {}
        # Those that trials entered their epoch with.
        self._entered: dict[str, Group] = {}

    def group_of(self, trial: Trial) -> Group:
        """Return the group that a trial is in, or was in last."""
        return self._of.get(trial.trial_id) or Group((trial,))

    def members_with(self, trial: Trial) -> tuple[Trial, ...]:
        """List the trials of a trial's group that have not left it, itself among them."""
        group = self._of.get(trial.trial_id)
        return (trial,) if group is None else self._members(group)

    def companions(self, trial: Trial) -> tuple[Trial, ...]:
        """List the trials that a trial has entered its epoch with, and is to enter the next one with."""
        group = self._entered.get(trial.trial_id)
        if group is None:
            return (trial,)
        return tuple(
            each
            for each in group.trials
            if self._entered.get(each.trial_id) is group and each.epoch == trial.epoch and not each.suspect
        )

    def enter(self, trials: Callable[[], Sequence[Trial]]) -> None:
        """Start the next epoch of trials, in groups: the whole epoch, or the rest of it in a resumed run.

        The lock is to be free: the grouping, which may open models and plan, takes its time. ``trials`` returns those
        that are to enter; it is called with the lock held, before the grouping is asked and afterwards. Raise
        ValueError if the grouping leaves a trial out, or has one twice.
        """
        with self._state.changed:
            asked = self._alike(trials())
        groups = [group for alike in asked for group in self._grouped(alike)]
        with self._state.changed:
            # Meanwhile one may have ended, gone back to an earlier checkpoint, or been paused.
            entering = {trial.trial_id for trial in trials()}
            for group in groups:
                members = [trial for trial in group.trials if trial.trial_id in entering]
                for trial in members:
                    self._state.entered[trial.trial_id] = trial.epoch
                for alike in self._alike(members):
                    formed = replace(group, trials=tuple(alike))
                    self._form(formed)
                    self._entered |= {trial.trial_id: formed for trial in alike}

    def regroup(self, trials: Iterable[Trial], *, again: Collection[str] = ()) -> None:
        """Regroup trials if a trial left its group, or if the trials of a group differ.

        Groups whose unit of training is in flight stay as they are: the receiver of the report calls this. ``again``
        has the ids of trials that went back to an earlier checkpoint.
        """
        groups = [self._of[trial.trial_id] for trial in trials if trial.trial_id in self._of]
        for group in dict.fromkeys(groups):
            if self._trains(group):
                continue
            for alike in self._alike(self._in_epoch(group)):
                if len(alike) < len(group.trials) or any(trial.trial_id in again for trial in alike):
                    self._form(replace(group, trials=tuple(alike)))

    def go_back(self, trials: Sequence[Trial]) -> None:
        """Schedule what remains of the epochs of trials that went back to an earlier checkpoint."""
        for trial in trials:
            self._state.entered[trial.trial_id] = trial.epoch
        self.regroup(trials, again={trial.trial_id for trial in trials})
        # A clone waits while its source trains up to there again; the others of its group do not.
        self.regroup(trial for trial in self._state.running if self._state.waits(trial))

    def split(self, trials: Iterable[Trial], why: str) -> None:
        """Train the trials of a group one by one until their epoch ends; none of their units may be in flight."""
        for group in dict.fromkeys(self._of[trial.trial_id] for trial in trials if trial.trial_id in self._of):
            if len(group.trials) > 1:
                _LOG.warning("%d configurations that trained together train one by one: %s", len(group.trials), why)
                self._grouping.record_failure(group, why)
                for trial in self._in_epoch(group):
                    self._form(replace(group, trials=(trial,)))

    def leave(self, trial: Trial) -> None:
        """Take a trial that has ended out of its group: no more of its units are given out."""
        self._state.hopper.stop(trial.trial_id)
        self._state.drop_copy(trial)
        group = self._of.pop(trial.trial_id, None)
        if group is not None:
            self.regroup(self._members(group))

    def end(self, trial: Trial, status: str, why: str) -> None:
        """End a trial by an error of its own."""
        trial.status, trial.traceback = status, why
        self.leave(trial)
        self._state.cancel_evaluation(trial)
        self._state.observer.trial_ended(trial)

    def _grouped(self, trials: Sequence[Trial]) -> Sequence[Group]:
        groups = self._grouping.groups(trials)
        grouped = sorted(trial.trial_id for group in groups for trial in group.trials)
        if grouped != sorted(trial.trial_id for trial in trials):
            wanted = ", ".join(trial.trial_id for trial in trials)
            raise ValueError(
                f"the grouping of {wanted} gave {', '.join(grouped) or 'no group'}: each has to be in one group"
            )
        return groups

    def _members(self, group: Group) -> tuple[Trial, ...]:
        return tuple(trial for trial in group.trials if self._of.get(trial.trial_id) is group)

    def _in_epoch(self, group: Group) -> list[Trial]:
        """List the trials of a group that train the epoch for which it was formed: no decision is due about them."""
        entered = self._state.entered
        return [trial for trial in self._members(group) if trial.running and entered.get(trial.trial_id) == trial.epoch]

    def _trains(self, group: Group) -> bool:
        return any(each.kind != "evaluate" and each.group is group for each in self._state.assignments)

    def _alike(self, trials: Iterable[Trial]) -> list[list[Trial]]:
        """Group trials by their common properties; a paused trial, or one that is tried alone, forms its own group."""
        alike: dict[Hashable, list[Trial]] = {}
        for trial in trials:
            alone = trial.is_paused or trial.suspect or self._state.waits(trial)
            epoch = trial.epoch
            key = (
                epoch,
                frozenset(trial.done(epoch)),
                trial.follows.get(epoch, ""),
                trial.trial_id if alone else "",
            )
            alike.setdefault(key, []).append(trial)
        return list(alike.values())

    def _form(self, group: Group) -> None:
        first, *others = group.trials
        epoch, hopper = first.epoch, self._state.hopper
        for trial in group.trials:
            hopper.revive(trial.trial_id)
            self._of[trial.trial_id] = group
            # For as long as it is in this epoch: also when it is by itself again.
            trial.follows.setdefault(epoch, group.order or group.group_id)
        for trial in others:
            hopper.enter(trial.trial_id, epoch, self._state.partitions)
        ahead = max(0, max(trial.granted for trial in group.trials) - epoch - 1)
        hopper.enter(first.trial_id, epoch, first.done(epoch), ahead=ahead, like=first.follows[epoch])
