"""Groups of a run: who trains together in an epoch, and what they read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper import Group
from optimizer.errors import CerebroError
from udfs.hopper import configuration_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cerebro_spark.adaptation._candidates import Candidates
    from cerebro_spark.adaptation._planning import Planning
    from cerebro_spark.hopper import Trial
    from optimizer.adaptation import AdaptationPlan, Candidate

__all__ = ["PlannedGroups"]

# Of the first trial of any run. With schedule="fixed" all visit the shards in its order: one of a group's own would
# depend on who trains together, and so on measured rates.
_FIRST = "c000"


class PlannedGroups:
    """Groups trials as they enter an epoch, by a plan over the layers that lie on disk.

    A trial that stops leaves its group, and one that comes joins those that enter an epoch with it. Who trained
    together goes on together, for a group that enters an epoch before the others would else be cut for all workers.
    Those that came to nothing together never train together again, nor do more: a group that has them is halved.

    Parameters
    ----------
    candidates : Candidates
    planning : Planning
    records : int
    stored : sequence of str
        Expressions of the layers on disk.

    Attributes
    ----------
    plan : AdaptationPlan or None
        The first one of the run.
    """

    def __init__(self, candidates: Candidates, planning: Planning, *, records: int, stored: Sequence[str]) -> None:
        self._candidates = candidates
        self._planning = planning
        self._records = records
        self._stored = tuple(stored)
        # By trial id, the number of its group.
        self._together: dict[str, int] = {}
        self._count = 0
        self._runs: dict[frozenset[str], tuple[tuple[str, ...], int]] = {}
        # Ids of groups that lost their worker or their memory. The scheduler adds to it while groups are made.
        self._too_large: list[frozenset[str]] = []
        self.plan: AdaptationPlan | None = None

    def groups(self, trials: Sequence[Trial]) -> list[Group]:
        """See :class:`cerebro_spark.hopper.Grouping`."""
        opened, alone = self._opened(trials)
        groups = [Group((trial,), order=_FIRST) for trial in alone]
        if not opened:
            return groups
        numbers = {self._together.get(trial.trial_id) for trial in opened}
        if None in numbers or len(numbers) > 1:
            self._plan(opened)
        by_number: dict[int, list[Trial]] = {}
        for trial in opened:
            by_number.setdefault(self._together[trial.trial_id], []).append(trial)
        parts = [part for members in by_number.values() for part in self._small_enough(members)]
        return groups + [Group(tuple(members), self._read_by(members), _FIRST) for members in parts]

    def frozen_flops(self, members: Sequence[Mapping[str, Any]]) -> int:
        """Count the FLOPs of the frozen layers that run where configurations train together, for one record."""
        return self._run(members)[1]

    def split(self, group: Group, why: str) -> None:  # noqa: ARG002 - a kill has any reason, and is never tried twice
        """Remember a group as too large for a worker."""
        self._too_large.append(frozenset(trial.trial_id for trial in group.trials))

    def _small_enough(self, members: Sequence[Trial]) -> list[Sequence[Trial]]:
        """Halve those that train together until no part has all of a group that was too large."""
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
        """Set apart those whose model cannot be opened: their worker will say why."""
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
        for group in made.groups:
            self._number(group.members)

    def _read_by(self, trials: Sequence[Trial]) -> tuple[str, ...]:
        return self._run([trial.params for trial in trials])[0]

    def _run(self, members: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], int]:
        """Give what a group reads, and the FLOPs of the frozen layers that it runs for one record."""
        # Configurations alike but for their rates read the same.
        key = frozenset(configuration_key(params) for params in members)
        if key not in self._runs:
            opened = [self._candidates.open(params) for params in members]
            candidates = [one.candidate(f"c{place:03d}", 1) for place, one in enumerate(opened)]
            made = replace(self._planning, workers=1).group(candidates, self._records, self._stored)
            loads = dict.fromkeys(made.trunk.expression(name) for group in made.groups for name in group.loads)
            computed = dict.fromkeys(name for group in made.groups for name in group.computes)
            self._runs[key] = tuple(loads), sum(made.trunk[name].flops for name in computed)
        return self._runs[key]

    def _candidate(self, trial: Trial) -> Candidate:
        return self._candidates.open(trial.params).candidate(trial.trial_id, 1)
