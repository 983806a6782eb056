"""Grouping of trials that train together, as one unit, with one read and one pass through shared layers.

Nautilus, section 4.3: a fused group of candidates. A search without one has groups of one trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.hopper._trial import Trial

__all__ = ["Group", "Grouping", "Singles"]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Trials that visit the shards of one epoch together.

    They read the outputs of the layers ``loads`` in place of a shard's inputs. With ``schedule="fixed"``, ``order`` is
    the id of the trial in whose order they visit the shards, by default the first of them. Where it depends on nothing
    but the seed, so do the models.

    Examples
    --------
    >>> from cerebro_spark.hopper import Group, Trial
    >>> Group((Trial("c001", {}), Trial("c002", {})), loads=("a3f0",)).group_id
    'c001'
    """

    trials: tuple[Trial, ...]
    loads: tuple[str, ...] = ()
    order: str = ""

    @property
    def group_id(self) -> str:
        """Id of the first trial, under which the group is scheduled."""
        return self.trials[0].trial_id


class Grouping(Protocol):
    """Decision which trials train together."""

    def groups(self, trials: Sequence[Trial]) -> Sequence[Group]:
        """Group trials that enter an epoch together.

        One call at a time, with the run's lock free: it may take its time, and workers go on with other trials. The
        trials have visited the same shards of the epoch, and are in the order of their starts. Each of them is in one
        group.
        """

    def record_failure(self, group: Group, why: str) -> None:
        """Record that a group of several trials lost its worker, or ran out of memory.

        Its trials train one by one until the end of the epoch, and come to :meth:`groups` again for their next epoch,
        where they may form smaller groups. The caller holds the run's lock, maybe during a call of :meth:`groups`:
        return at once.
        """


class Singles:
    """Groups of one trial each: an ordinary search.

    Examples
    --------
    >>> from cerebro_spark.hopper import Singles, Trial
    >>> [group.group_id for group in Singles().groups([Trial("c000", {}), Trial("c001", {})])]
    ['c000', 'c001']
    """

    def groups(self, trials: Sequence[Trial]) -> Sequence[Group]:
        """Make a group of each."""
        return [Group((trial,)) for trial in trials]

    def record_failure(self, group: Group, why: str) -> None:
        """Do nothing: groups of one trial cannot be smaller."""
