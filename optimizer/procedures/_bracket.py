"""Bracket of synchronous successive halving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.procedures._plan import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._sampled_procedure import Sampled
    from optimizer.procedures._trial import Trial

__all__ = ["Bracket"]


class Bracket:
    """Bracket whose configurations all reach a rung before the best of them go on.

    Parameters
    ----------
    name : str
        Name of the bracket in reasons; may be empty.
    rungs : sequence of tuple of int
        Configurations of each rung, and the epochs that they reach there.
    """

    def __init__(self, name: str, rungs: Sequence[tuple[int, int]]) -> None:
        self.name = name
        self.rungs = tuple(rungs)
        self._rung = 0
        self._members: list[Trial] = []
        self._climbing: set[str] = set()
        self._opened = False

    @property
    def started(self) -> bool:
        """True once its configurations were started."""
        return self._opened

    def open(self, procedure: Sampled) -> None:
        """Start the configurations of the first rung."""
        self._opened = True
        count, epochs = self.rungs[0]
        while len(self._members) < count:
            trial = procedure.draw(epochs, self._at(0))
            if trial is None:
                break
            self._members.append(trial)
        self._climbing = {trial.trial_id for trial in self._members}

    def decide(self, procedure: Sampled, fresh: Sequence[Trial]) -> None:
        """Pause configurations at the rung; once all have reached it, continue the best and stop the others."""
        ours = [trial for trial in fresh if trial.trial_id in self._climbing]
        for trial in ours:
            if trial.waiting or not trial.competes:
                self._climbing.discard(trial.trial_id)
        if not self._climbing:
            self._close(procedure)
        for trial in ours:
            if trial.waiting:
                procedure.pause(trial, f"{self._at(self._rung)}: waits for {len(self._climbing)} others")

    def _close(self, procedure: Sampled) -> None:
        if self._rung + 1 == len(self.rungs):
            for trial in self._members:
                if trial.competes:
                    procedure.stop(trial, f"finished its {self.rungs[-1][1]} epochs")
            self._members = []
            return
        ranked = procedure.ledger.ranked(trial for trial in self._members if trial.competes)
        count = self.rungs[self._rung + 1][0]
        more = self.rungs[self._rung + 1][1] - self.rungs[self._rung][1]
        here = self._at(self._rung)
        size = len(self._members)
        for place, trial in enumerate(ranked[count:], count + 1):
            procedure.stop(trial, f"{here}: place {place} of {size}, {count} go on")
        self._rung += 1
        self._members = [
            trial
            for place, trial in enumerate(ranked[:count], 1)
            if procedure.carry_on(trial, more, f"{here}: place {place} of {size}, promoted")
        ]
        self._climbing = {trial.trial_id for trial in self._members}

    def _at(self, rung: int) -> str:
        return f"{self.name}, rung {rung}" if self.name else f"rung {rung}"

    def stages(self) -> tuple[Stage, ...]:
        """List its rungs as stages of a plan."""
        before = (0, *(reaches for _, reaches in self.rungs))
        return tuple(
            Stage(self._at(rung), count, reaches - before[rung], reaches)
            for rung, (count, reaches) in enumerate(self.rungs)
        )
