"""Asynchronous successive halving."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from optimizer.arguments import one_of, whole_or_none
from optimizer.procedures._plan import Plan, Stage
from optimizer.procedures._rung import FrontRung, Rung
from optimizer.procedures._rungs import check_rungs, rung_epochs, whole_log
from optimizer.procedures._sampled_procedure import Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._sampling import Sampler
    from optimizer.procedures._trial import Trial

__all__ = ["ASHA"]


class ASHA(Sampled):
    """Asynchronous successive halving: a free slot promotes the best waiting configuration at once (Li et al., 2020).

    For each free slot the highest rung is looked at first: the best configuration that waits there is promoted if it is
    among the best 1 / ``eta`` of all that have reached the rung. Where there is none, a new one starts. The search does
    not end by itself: set ``limits``, or a time limit in the code that drives it.

    Parameters
    ----------
    max_epochs : int
        Epochs of the last rung (R).
    min_epochs : int
        Fewest epochs of the first rung (r). Default 1.
    eta : int
        Reduction factor between two rungs. Default 3.
    rungs : {"milestones", "additive"}
        Epochs that a configuration has reached at a rung, for R = 9: with ``"milestones"`` (default) 1, 3 and 9, with
        ``"additive"`` 1, 4 and 13, for each rung trains its epochs anew as in the seeds (Section 3.6.3).
    concurrency : int, optional
        Configurations that train at the same time; the number of workers emulates the seed papers. By default as many
        as there are idle slots.
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Examples
    --------
    >>> from optimizer.procedures import Limits, ListedSampler
    >>> rates = ListedSampler({"lr": 10.0**-power} for power in range(9))
    >>> search = ASHA(rates, max_epochs=9, rungs="additive", limits=Limits(max_configurations=9))
    >>> print(search.plan())
    ASHA: 9 configurations, 27 epochs in all, at most 13 each
      rung 0: 9 x 1 epochs, up to epoch 1
      rung 1: 3 x 3 epochs, up to epoch 4
      rung 2: 1 x 9 epochs, up to epoch 13
      ends with 9 configurations
      configurations of the higher rungs are those expected: more may be promoted
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        max_epochs: int,
        min_epochs: int = 1,
        eta: int = 3,
        rungs: str = "milestones",
        concurrency: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(sampler, **settings)
        check_rungs(max_epochs, eta, min_epochs)
        self.eta = eta
        self.concurrency = whole_or_none("concurrency", concurrency, why="None trains as many as there are idle slots.")
        reached = rung_epochs(max_epochs, eta, whole_log(max_epochs // min_epochs, eta))
        additive = one_of("rungs", rungs, ("milestones", "additive")) == "additive"
        self._reached = tuple(accumulate(reached)) if additive else reached
        several = len(self.ledger.objectives) > 1
        self._rungs = [FrontRung(eta) if several else Rung(eta) for _ in self._reached]
        self._climbs: dict[str, int] = {}

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:
        """See :meth:`Procedure.decide`."""
        for trial in fresh:
            self._note(trial)
        free = idle if self.concurrency is None else self.concurrency - self.training
        while free > 0 or not self.training:
            if not self._promote() and not self._open():
                break
            free -= 1

    def _note(self, trial: Trial) -> None:
        if trial.trial_id not in self._climbs or (trial.competes and not trial.waiting):
            return
        rung = self._climbs.pop(trial.trial_id)
        # A trial that ended on its way to a rung counts there as the worst.
        self._rungs[rung].reach(trial, trial.points[-1] if trial.competes else self.ledger.worst)
        if not trial.competes:
            return
        if rung + 1 == len(self._rungs):
            self.stop(trial, f"finished its {self._reached[-1]} epochs")
        else:
            self.pause(trial, f"rung {rung}: waits until it is among the best 1 / {self.eta} there")

    def _promote(self) -> bool:
        for rung in range(len(self._rungs) - 2, -1, -1):
            while (promoted := self._rungs[rung].promote()) is not None:
                trial, place = promoted
                more = self._reached[rung + 1] - self._reached[rung]
                reason = f"rung {rung}: place {place} of {len(self._rungs[rung])}, promoted"
                if self.carry_on(trial, more, reason):
                    self._climbs[trial.trial_id] = rung + 1
                    return True
        return False

    def _open(self) -> bool:
        trial = self.draw(self._reached[0], "rung 0")
        if trial is not None:
            self._climbs[trial.trial_id] = 0
        return trial is not None

    def plan(self) -> Plan:
        """See :meth:`Procedure.plan`."""
        count = self.limits.max_configurations
        before = (0, *self._reached)
        stages = tuple(
            Stage(f"rung {rung}", (count or 0) // self.eta**rung, reaches - before[rung], reaches)
            for rung, reaches in enumerate(self._reached)
        )
        times = " -> ".join(str(reaches) for reaches in self._reached)
        note = (
            f"rungs at epochs {times}; goes on until time is over"
            if count is None
            else "configurations of the higher rungs are those expected: more may be promoted"
        )
        return Plan(
            procedure=type(self).__name__,
            stages=() if count is None else stages,
            epochs_each=self._reached[-1],
            chain=self._reached[0 if count is None else min(whole_log(count, self.eta), len(self._reached) - 1)],
            configurations=count,
            clones=0,
            most_epochs=None if count is None else count * self._reached[-1],
            concurrency=self.concurrency,
            limits=self.limits,
            notes=self.notes(note),
        )
