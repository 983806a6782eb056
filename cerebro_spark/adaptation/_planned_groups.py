"""Grouping of the trials of a run by a plan over the layers on disk.

A trial is the training of one configuration. The trials of a group train together: they read the data once and compute
common frozen layers once. The outputs of some frozen layers are stored on disk, and a plan decides which of them a
group reads and which layers it computes. The expression of a layer is a hash of it and all layers below it, so that
equal layers of several models have equal expressions. A freezing schedule splits the epochs of a trial into phases with
different frozen layers.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper import Group
from udfs.hopper import WarmStart, configuration_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cerebro_spark.adaptation._candidates import Candidates
    from cerebro_spark.adaptation._planning import Planning
    from cerebro_spark.hopper import Trial
    from optimizer.adaptation import AdaptationPlan, Candidate

__all__ = ["PlannedGroups"]

# Id of the first trial of any run. With schedule="fixed" all groups visit the shards in its order: an order by group
# would depend on the members of the group, which depend on measured rates.
_ORDER_TRIAL_ID = "c000"

# Epoch in the last phase of any freezing schedule.
_LAST_PHASE_EPOCH = sys.maxsize


class PlannedGroups:
    """Grouping of trials at the start of their epochs, by a plan over the layers on disk.

    Groups are planned again if the trials that enter an epoch are new, come from several groups, or are in another
    phase. A group that enters an epoch by itself stays as it is: a plan for it alone would divide it among all workers,
    while the others are busy with other groups. A group that lost its worker, or ran out of memory, is halved, and its
    members do not train all together again. ``stored`` are the expressions of the layers on disk, and ``plan`` is the
    first plan of the run.
    """

    def __init__(
        self,
        candidates: Candidates,
        planning: Planning,
        *,
        records: int,
        stored: Sequence[str],
        warm: WarmStart | None = None,
    ) -> None:
        self._candidates = candidates
        self._planning = planning
        self._records = records
        self._stored = tuple(stored)
        self._warm = warm or WarmStart()
        # Number of the group by trial id.
        self._group_numbers: dict[str, int] = {}
        # Phase of the freezing schedule in which a trial was grouped, by trial id.
        self._phases: dict[str, int] = {}
        self._last_number = 0
        # Results of _plan_layers, by configurations and phases.
        self._planned_layers: dict[frozenset[tuple[str, int]], tuple[tuple[str, ...], int]] = {}
        # Trial ids of groups that lost their worker, or ran out of memory. Other threads append during `groups`.
        self._failed: list[frozenset[str]] = []
        self.plan: AdaptationPlan | None = None

    def groups(self, trials: Sequence[Trial]) -> list[Group]:
        """Group trials that enter an epoch together, see :class:`cerebro_spark.hopper.Grouping`."""
        openable, broken = self._separate_broken(trials)
        groups = [Group((trial,), order=_ORDER_TRIAL_ID) for trial in broken]
        if not openable:
            return groups
        numbers = {self._group_numbers.get(trial.trial_id) for trial in openable}
        # A trial in another phase reads other layers: plan the groups again.
        if None in numbers or len(numbers) > 1 or any(self._entered_phase(trial) for trial in openable):
            self._plan_groups(openable)
        by_number: dict[int, list[Trial]] = {}
        for trial in openable:
            by_number.setdefault(self._group_numbers[trial.trial_id], []).append(trial)
        parts = [part for members in by_number.values() for part in self._halve_failed(members)]
        return groups + [Group(tuple(members), self._layers_to_read(members), _ORDER_TRIAL_ID) for members in parts]

    def frozen_flops(self, members: Sequence[Trial], epoch: int) -> int:
        """Count the FLOPs of the frozen layers of a group for one record; 0 if its model cannot be opened here."""
        if not all(self._candidates.find(trial.params) for trial in members):
            return 0
        return self._plan_layers([(trial.params, self._epoch(trial, epoch)) for trial in members])[1]

    def record_failure(self, group: Group, why: str) -> None:
        """Record a group that is too large for a worker, so that :meth:`groups` halves it."""
        self._failed.append(frozenset(trial.trial_id for trial in group.trials))

    def _halve_failed(self, members: Sequence[Trial]) -> list[Sequence[Trial]]:
        """Halve a group until no part contains a failed group; only groups of several trials are recorded as failed."""
        ids = {trial.trial_id for trial in members}
        if not any(failed <= ids for failed in tuple(self._failed)):
            return [members]
        half = (len(members) + 1) // 2
        parts = [*self._halve_failed(members[:half]), *self._halve_failed(members[half:])]
        for part in parts:
            self._number_group([trial.trial_id for trial in part])
        return parts

    def _number_group(self, trial_ids: Iterable[str]) -> None:
        """Assign a common group number to trials."""
        self._last_number += 1
        self._group_numbers |= dict.fromkeys(trial_ids, self._last_number)

    def _separate_broken(self, trials: Sequence[Trial]) -> tuple[list[Trial], list[Trial]]:
        """Separate trials whose model cannot be opened: each trains alone, and its worker reports the error."""
        openable: list[Trial] = []
        broken: list[Trial] = []
        for trial in trials:
            (openable if self._candidates.find(trial.params) else broken).append(trial)
        return openable, broken

    def _plan_groups(self, trials: Sequence[Trial]) -> None:
        plan = self._planning.group([self._candidate(trial) for trial in trials], self._records, self._stored)
        self.plan = self.plan or plan
        self._phases |= {trial.trial_id: self._phase(trial) for trial in trials}
        for group in plan.groups:
            self._number_group(group.members)

    def _phase(self, trial: Trial) -> int:
        return self._candidates.open(trial.params).phase(self._epoch(trial, trial.epoch))

    def _epoch(self, trial: Trial, epoch: int) -> int:
        """Return the epoch whose frozen layers a plan may use.

        It is in the last phase if the trial starts with weights of another trial: layers that are frozen in earlier
        phases may have been trained there, so that their stored outputs are of other weights.
        """
        has_other_weights = trial.source is not None or self._warm.of(trial.params) is not None
        return _LAST_PHASE_EPOCH if has_other_weights else epoch

    def _entered_phase(self, trial: Trial) -> bool:
        """Return ``True`` if a trial is in another phase than when it was grouped."""
        return self._phases.get(trial.trial_id) != self._phase(trial)

    def _layers_to_read(self, trials: Sequence[Trial]) -> tuple[str, ...]:
        return self._plan_layers([(trial.params, self._epoch(trial, trial.epoch)) for trial in trials])[0]

    def _plan_layers(self, members: Sequence[tuple[Mapping[str, Any], int]]) -> tuple[tuple[str, ...], int]:
        """Return the layers that a group reads, and the FLOPs of the frozen layers that it computes for one record."""
        opened = [(self._candidates.open(params), epoch) for params, epoch in members]
        key = frozenset((configuration_key(candidate.params), candidate.phase(epoch)) for candidate, epoch in opened)
        if key not in self._planned_layers:
            candidates = [each.candidate(f"c{place:03d}", epoch) for place, (each, epoch) in enumerate(opened)]
            plan = replace(self._planning, workers=1).group(candidates, self._records, self._stored)
            loads = dict.fromkeys(plan.trunk.expression(name) for group in plan.groups for name in group.loads)
            computed = dict.fromkeys(name for group in plan.groups for name in group.computes)
            self._planned_layers[key] = tuple(loads), sum(plan.trunk[name].flops for name in computed)
        return self._planned_layers[key]

    def _candidate(self, trial: Trial) -> Candidate:
        return self._candidates.open(trial.params).candidate(trial.trial_id, self._epoch(trial, trial.epoch))
