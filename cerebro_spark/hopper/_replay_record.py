"""Record of an earlier run that a replay follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cerebro_spark.hopper._trial import Trial
    from optimizer.hopper import Placement
    from optimizer.procedures import Source

__all__ = ["Recorded"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Visits and ends of an earlier run's trials.

    Parameters
    ----------
    placements : mapping of int to sequence of Placement
        By epoch, the units to train again, where and in which order.
    trials : mapping of str to Trial
        The earlier run's, by id.
    """

    placements: Mapping[int, Sequence[Placement]]
    trials: Mapping[str, Trial]

    def end_of(self, trial: Trial) -> Trial | None:
        """Return the earlier trial if it ended within an epoch, or failed, and this one has come as far.

        A trial that ended with a finished epoch is granted that epoch as its last, and ends by itself.
        """
        first = self.trials[trial.trial_id]
        reached = trial.version >= first.version and trial.epoch >= first.epoch
        return first if reached and trial.epoch < trial.granted else None

    def sources_to_come(self, begun: Iterable[str]) -> Iterator[Source]:
        """List the sources of clones that have not begun: their states have to stay until then."""
        for trial_id in self.trials.keys() - set(begun):
            source = self.trials[trial_id].source
            if source is not None:
                yield source
