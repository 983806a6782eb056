"""Ledger of a procedure: its configurations and their results."""

from __future__ import annotations

from bisect import insort
from itertools import groupby
from numbers import Real
from typing import TYPE_CHECKING

from optimizer.errors import nearest
from optimizer.procedures._errors import ProcedureError
from optimizer.procedures._pareto import best_first
from optimizer.procedures._requests import Added, Extended, Stopped
from optimizer.procedures._results import Ended, EpochResult, OutOfTime
from optimizer.procedures._trial import WORST, Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from optimizer.procedures._decisions import Source
    from optimizer.procedures._objectives import Objective
    from optimizer.procedures._results import Result

__all__ = ["Ledger"]


class Ledger:
    """Configurations of a search by id, in the order of their starts.

    Parameters
    ----------
    objectives : sequence of Objective
        At least one; the first is the metric that decides.
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.objectives = tuple(objectives)
        self._trials: dict[str, Trial] = {}
        self._running: dict[str, Trial] = {}
        # By epoch of a lineage, the means of the scores up to there, sorted.
        self._means: dict[int, list[float]] = {}
        #: Epochs that were granted; of ended trials, those that were finished.
        self.epochs = 0
        #: Trials that the user added, which the procedure does not decide about.
        self.guests: list[Trial] = []
        #: Trials that train, or have trained, epochs that the user asked for after those of the procedure.
        self.extended: list[Trial] = []
        #: Epochs of a configuration that comes to the end, along its lineage; None before the first call.
        self.epochs_each: int | None = None

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials.values())

    def __getitem__(self, trial_id: str) -> Trial:
        if trial_id not in self._trials:
            known = ", ".join(list(self._trials)[-5:]) or "none"
            close = nearest(trial_id, self._trials)
            raise ProcedureError(
                f"trial_id must be the id of a trial, such as the last ones {known}, got {trial_id!r}{close}"
            )
        return self._trials[trial_id]

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return self.objectives[0].metric

    @property
    def mode(self) -> str:
        """``"min"`` or ``"max"``: which way it is better."""
        return self.objectives[0].mode

    @property
    def running(self) -> tuple[Trial, ...]:
        """Trials that train or wait for a decision, in the order of their starts."""
        return tuple(sorted(self._running.values(), key=lambda trial: trial.number))

    @property
    def runs(self) -> int:
        """Number of running trials."""
        return len(self._running)

    @property
    def best(self) -> Trial | None:
        """Trial with the best epoch by the metric that decides, stopped ones included; or None."""
        measured = [trial for trial in self if trial.best_score > WORST]
        return min(measured, key=lambda trial: (-trial.best_score, trial.number), default=None)

    def score(self, value: float) -> float:
        """Turn a value of the metric that decides into a score; see :meth:`Objective.score`."""
        return self.objectives[0].score(value)

    def value(self, score: float) -> float:
        """Turn a score back into a value of the metric that decides."""
        return self.objectives[0].value(score)

    def values(self, point: Sequence[float]) -> list[float]:
        """Turn a point back into values of the objectives."""
        return [objective.value(score) for objective, score in zip(self.objectives, point, strict=True)]

    def means(self, epoch: int) -> Sequence[float]:
        """List the mean score up to an epoch of each trial whose lineage has reached it, in ascending order.

        Parameters
        ----------
        epoch : int
            Along the lineage, counted from 1.
        """
        return self._means.get(epoch, ())

    def _reach(self, trial: Trial, epoch: int) -> None:
        insort(self._means.setdefault(epoch, []), trial.sums[epoch - 1] / epoch)

    def ranked(self, trials: Iterable[Trial]) -> list[Trial]:
        """Sort trials by their last epoch, the best first; of equal ones the one that was started first.

        With several objectives the order is that of :func:`best_first`.
        """
        if len(self.objectives) == 1:
            return sorted(trials, key=lambda trial: (-trial.score, trial.number))
        listed = sorted(trials, key=lambda trial: trial.number)
        return [listed[place] for place in best_first([trial.point or self.worst for trial in listed])]

    @property
    def worst(self) -> tuple[float, ...]:
        """Point of a failed trial."""
        return (WORST,) * len(self.objectives)

    def lineage(self, trial_id: str) -> list[tuple[Trial, int]]:
        """List the trials whose epochs led to a trial, the first ancestor first, each with the epochs it gave.

        The last is the trial itself, with all that it has finished. A trial that took over weights only has no
        ancestors, because it began training anew.
        """
        trial = self[trial_id]
        line = [(trial, trial.finished)]
        while trial.source is not None and not trial.source.weights_only:
            epoch = trial.source.epoch
            trial = self[trial.source.trial_id]
            line.append((trial, epoch))
        return line[::-1]

    def check_source(self, source: Source) -> Trial:
        """Return the trial of a source, after checking that it has finished that epoch."""
        parent = self[source.trial_id]
        if not 1 <= source.epoch <= parent.finished:
            raise ProcedureError(
                f"source must be a finished epoch of {source.trial_id}, 1 to {parent.finished}, got epoch "
                f"{source.epoch}"
            )
        return parent

    def start(self, params: dict[str, Any], epochs: int, source: Source | None, reason: str) -> Trial:
        """Add a trial."""
        number = len(self._trials)
        trial = Trial(f"c{number:03d}", number, params, epochs, source, reason=reason)
        parent = None if source is None else self.check_source(source)
        if parent is not None and source is not None and not source.weights_only:
            trial.inherit(parent, source.epoch)
            for epoch in range(1, len(trial.sums) + 1):
                self._reach(trial, epoch)
        self._trials[trial.trial_id] = self._running[trial.trial_id] = trial
        self.epochs += epochs
        return trial

    def carry_on(self, trial: Trial, epochs: int, reason: str) -> None:
        """Grant a trial more epochs; one that has ended continues after its last finished one."""
        if not trial.live:
            trial.granted = trial.finished
        trial.granted += epochs
        self.epochs += epochs
        trial.reason = reason
        trial.status = "running"
        self._running[trial.trial_id] = trial

    def rest(self, trial: Trial, status: str, reason: str) -> None:
        """Pause or end a trial."""
        was_live = trial.live
        trial.status = status
        trial.reason = reason
        self._running.pop(trial.trial_id, None)
        if was_live and not trial.live:
            self.epochs -= trial.granted - trial.finished

    def tell(self, results: Sequence[Result]) -> list[Trial]:
        """Record results in any order; all of them, or none if one is impossible.

        Results of trials that have ended are ignored: an epoch in flight when a trial is stopped may still finish.

        Parameters
        ----------
        results : sequence of EpochResult, Ended, OutOfTime, Added, Stopped and Extended
            Requests of the user change nothing here; the procedure carries them out.

        Returns
        -------
        list of Trial
            Trials that finished epochs or ended, in the order of their starts.

        Raises
        ------
        ProcedureError
            An unknown trial, an epoch out of turn or not granted, or one without the metric.
        """
        told = sorted(self._known(results), key=lambda item: item[:3])
        fresh = []
        scored: list[tuple[Trial, list[tuple[EpochResult, tuple[float, ...]]], str]] = []
        for _, group in groupby(told, key=lambda item: item[0]):
            events = [result for *_, result in group]
            trial = self[events[0].trial_id]
            if not trial.live:
                continue
            epochs = [event for event in events if isinstance(event, EpochResult)]
            for due, event in enumerate(epochs, trial.finished + 1):
                self._check_epoch(trial, event, due)
            ends = [event.status for event in events if isinstance(event, Ended)]
            scored.append((trial, [(event, self._measured(event)) for event in epochs], ends[0] if ends else ""))
        for trial, measured, status in scored:
            for event, point in measured:
                trial.add(dict(event.metrics), point)
                self._reach(trial, len(trial.sums))
            if status:
                self.rest(trial, status, status)
            fresh.append(trial)
        return fresh

    def _known(self, results: Sequence[Result]) -> Iterator[tuple[int, bool, int, EpochResult | Ended]]:
        for result in results:
            match result:
                case OutOfTime() | Added() | Stopped() | Extended():
                    continue
                case EpochResult():
                    yield self[result.trial_id].number, False, result.epoch, result
                case Ended():
                    if not result.status or result.status in {"running", "paused"}:
                        raise ProcedureError(
                            f"status of {result.trial_id} must be a final status, got {result.status!r}"
                        )
                    yield self[result.trial_id].number, True, 0, result

    @staticmethod
    def _check_epoch(trial: Trial, event: EpochResult, due: int) -> None:
        if event.epoch != due:
            raise ProcedureError(
                f"epoch of {trial.trial_id} must be {due}, its next one, got {event.epoch}: report each once"
            )
        if due > trial.granted:
            raise ProcedureError(f"epoch of {trial.trial_id} must be at most {trial.granted}, as granted, got {due}")

    def _measured(self, event: EpochResult) -> tuple[float, ...]:
        point = tuple(self._score(event, objective) for objective in self.objectives)
        return self.worst if WORST in point else point

    @staticmethod
    def _score(event: EpochResult, objective: Objective) -> float:
        name = objective.metric
        if name not in event.metrics:
            names = ", ".join(sorted(event.metrics)) or "none"
            hint = nearest(name, event.metrics)
            raise ProcedureError(f"metrics of {event.trial_id} must include {name!r}, got {names}{hint}")
        value: Any = event.metrics[name]
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ProcedureError(f"{name} of {event.trial_id} must be a number, got {value!r}")
        return objective.score(float(value))
