"""Grouping of the trials of a run by a plan over the layers on disk."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper import Group
from optimizer.errors import CerebroError
from udfs.hopper import WarmStart, configuration_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cerebro_spark.adaptation._candidates import Candidates
    from cerebro_spark.adaptation._planning import Planning
    from cerebro_spark.hopper import Trial
    from optimizer.adaptation import AdaptationPlan, Candidate

__all__ = ["PlannedGroups"]

# First trial of any run. With schedule="fixed" all groups visit the shards in its order: an order of a group would
# depend on its members, and so on measured rates.
_FIRST = "c000"

# Later than any phase of a freezing schedule begins.
_END = sys.maxsize


class PlannedGroups:
    """Grouping of trials at the start of their epochs, by a plan over the layers on disk.

    A trial that stops leaves its group, and a new trial joins those that enter an epoch with it. Groups stay together,
    since a group that enters an epoch before the others would otherwise be split over all workers. A group that lost
    its worker is halved, and its members do not train all together again. ``stored`` are the expressions of the layers
    on disk, and ``plan`` is the first plan of the run.
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
        self._together: dict[str, int] = {}
        # Phase of the freezing schedule in which a trial was grouped, by trial id.
        self._phases: dict[str, int] = {}
        self._count = 0
        self._runs: dict[frozenset[tuple[str, int]], tuple[tuple[str, ...], int]] = {}
        # Trial ids of groups that lost their worker or its memory. The scheduler appends while groups are planned.
        self._too_large: list[frozenset[str]] = []
        self.plan: AdaptationPlan | None = None

    def groups(self, trials: Sequence[Trial]) -> list[Group]:
        """See :class:`cerebro_spark.hopper.Grouping`."""
        opened, alone = self._opened(trials)
        groups = [Group((trial,), order=_FIRST) for trial in alone]
        if not opened:
            return groups
        numbers = {self._together.get(trial.trial_id) for trial in opened}
        # A trial in another phase reads other layers: plan the groups again.
        if None in numbers or len(numbers) > 1 or any(self._has_moved(trial) for trial in opened):
            self._plan(opened)
        by_number: dict[int, list[Trial]] = {}
        for trial in opened:
            by_number.setdefault(self._together[trial.trial_id], []).append(trial)
        parts = [part for members in by_number.values() for part in self._small_enough(members)]
        return groups + [Group(tuple(members), self._read_by(members), _FIRST) for members in parts]

    def frozen_flops(self, members: Sequence[Trial], epoch: int) -> int:
        """Count the FLOPs of the frozen layers of a group for one record."""
        return self._run([(trial.params, self._epoch(trial, epoch)) for trial in members])[1]

    def split(self, group: Group, why: str) -> None:
        """Record a group as too large for a worker."""
        self._too_large.append(frozenset(trial.trial_id for trial in group.trials))

    def _small_enough(self, members: Sequence[Trial]) -> list[Sequence[Trial]]:
        """Halve a group until no part contains a group that was too large."""
        ids = {trial.trial_id for trial in members}
        if not any(known <= ids for known in tuple(self._too_large)):
            return [members]
        half = (len(members) + 1) // 2
        parts = [*self._small_enough(members[:half]), *self._small_enough(members[half:])]
        for part in parts:
            self._number([trial.trial_id for trial in part])
        return parts

    def _number(self, trial_ids: Iterable[str]) -> None:
        self._count += 1
        self._together |= dict.fromkeys(trial_ids, self._count)

    def _opened(self, trials: Sequence[Trial]) -> tuple[list[Trial], list[Trial]]:
        """Separate trials whose model cannot be opened, for which the worker reports the error."""
        opened, alone = [], []
        for trial in trials:
            try:
                self._candidates.open(trial.params)
            except CerebroError:
                alone.append(trial)
            else:
                opened.append(trial)
        return opened, alone

    def _plan(self, trials: Sequence[Trial]) -> None:
        made = self._planning.group([self._candidate(trial) for trial in trials], self._records, self._stored)
        self.plan = self.plan or made
        self._phases |= {trial.trial_id: self._phase(trial) for trial in trials}
        for group in made.groups:
            self._number(group.members)

    def _phase(self, trial: Trial) -> int:
        return self._candidates.open(trial.params).phase(self._epoch(trial, trial.epoch))

    def _epoch(self, trial: Trial, epoch: int) -> int:
        """Return the epoch of a trial's freezing schedule, that of the last phase for weights of another trial.

        Layers that are frozen here so far may have trained in the other trial, except those that no phase trains.
        """
        has_other_weights = trial.source is not None or self._warm.of(trial.params) is not None
        return _END if has_other_weights else epoch

    def _has_moved(self, trial: Trial) -> bool:
        return self._phases.get(trial.trial_id) != self._phase(trial)

    def _read_by(self, trials: Sequence[Trial]) -> tuple[str, ...]:
        return self._run([(trial.params, self._epoch(trial, trial.epoch)) for trial in trials])[0]

    def _run(self, members: Sequence[tuple[Mapping[str, Any], int]]) -> tuple[tuple[str, ...], int]:
        """Return the layers that a group reads, and the FLOPs of the frozen layers that it runs for one record."""
        # Configurations that differ only in their rates read the same layers.
        opened = [(self._candidates.open(params), epoch) for params, epoch in members]
        key = frozenset((configuration_key(each.params), each.phase(epoch)) for each, epoch in opened)
        if key not in self._runs:
            candidates = [each.candidate(f"c{place:03d}", epoch) for place, (each, epoch) in enumerate(opened)]
            made = replace(self._planning, workers=1).group(candidates, self._records, self._stored)
            loads = dict.fromkeys(made.trunk.expression(name) for group in made.groups for name in group.loads)
            computed = dict.fromkeys(name for group in made.groups for name in group.computes)
            self._runs[key] = tuple(loads), sum(made.trunk[name].flops for name in computed)
        return self._runs[key]

    def _candidate(self, trial: Trial) -> Candidate:
        return self._candidates.open(trial.params).candidate(trial.trial_id, self._epoch(trial, trial.epoch))
