"""Optuna studies that mirror the ledger of a procedure."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from optimizer.procedures.studies._optuna import load_optuna, quiet
from optimizer.procedures.studies._translation import Translation
from optimizer.space import SpaceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import optuna

    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._trial import Trial
    from optimizer.space import Space

__all__ = ["Follower", "new_study", "study_of"]

# Some pruners assign trials to brackets by a hash of the study's name.
_NAME = "cerebro"


def new_study(modes: Sequence[str], **settings: Any) -> Any:
    """Create a study in memory with a constant name, from modes and settings of ``optuna.create_study``."""
    optuna = load_optuna("a study")
    with quiet(optuna):
        return optuna.create_study(study_name=_NAME, directions=[f"{mode}imize" for mode in modes], **settings)


class Follower:
    """Mirror of a ledger in an Optuna study: epochs become steps from 1, ends become trial states.

    A configuration that trains all epochs of the procedure is complete. One that is stopped before is pruned, with its
    last value. One that fails, diverges or ends before its first epoch has failed. With several objectives Optuna
    accepts no values of single epochs, so a pruned trial has no values.

    Parameters
    ----------
    study : optuna.Study
        New study.
    closes_paused : bool
        Whether a paused configuration counts as pruned, since it may never continue. If it does continue, another
        trial of the same parameters has its result, since a finished trial of Optuna cannot be opened again.
    guests : bool
        Whether to follow configurations that the user added from their starts, which may have other parameters. The
        alternative is :meth:`add_guests`.
    """

    def __init__(self, study: Any, ledger: Ledger, *, closes_paused: bool, guests: bool) -> None:
        self.study = study
        self._ledger = ledger
        self._closes_paused = closes_paused
        self._guests = guests
        self._optuna = load_optuna("a study")
        self._seen = 0
        self._open: dict[str, tuple[Trial, Any]] = {}
        self._told: dict[str, int] = {}
        self._closed: dict[str, tuple[Trial, int]] = {}
        self._known_guests: set[str] = set()

    def follow(self, begun: Callable[[Trial], Any]) -> None:
        """Update the study.

        Parameters
        ----------
        begun : callable
            Function that returns the Optuna trial of a configuration that has started since the last call.
        """
        for trial in islice(self._ledger, self._seen, None):
            if self._guests or not trial.guest:
                self._open[trial.trial_id] = trial, begun(trial)
        self._seen = len(self._ledger)
        for name, (trial, theirs) in list(self._open.items()):
            self._report(trial, theirs)
            if not trial.live or (self._closes_paused and trial.status == "paused"):
                state = state_of(self._optuna, trial, self._ledger)
                complete = state == self._optuna.trial.TrialState.COMPLETE
                self.study.tell(theirs, self._ledger.values(trial.last) if complete else None, state=state)
                del self._open[name]
                if trial.live:
                    self._closed[name] = trial, len(trial.curve)

    def add_continued(self, translation: Translation) -> None:
        """Add trials for paused configurations that continued and have paused again or ended."""
        for name, (trial, epochs) in list(self._closed.items()):
            if len(trial.curve) > epochs and not trial.running:
                self.study.add_trial(finished(self._optuna, translation, trial, self._ledger))
                self._closed[name] = trial, len(trial.curve)
            if not trial.live:
                del self._closed[name]

    def add_guests(self, translation: Translation) -> None:
        """Add trials for configurations of the user that have ended and belong to the space."""
        for trial in self._ledger.guests:
            over = trial.waiting or not trial.live
            if not over or trial.trial_id in self._known_guests:
                continue
            self._known_guests.add(trial.trial_id)
            with suppress(SpaceError):
                self.study.add_trial(finished(self._optuna, translation, trial, self._ledger))

    def optuna_trial(self, trial: Trial) -> Any:
        """Return the Optuna trial of a configuration that has not ended."""
        return self._open[trial.trial_id][1]

    def _report(self, trial: Trial, theirs: Any) -> None:
        if len(self._ledger.objectives) > 1:
            return
        told = self._told.get(trial.trial_id, 0)
        for step, score in enumerate(islice(trial.curve, told, None), told + 1):
            if math.isfinite(score):
                theirs.report(self._ledger.value(score), step)
        self._told[trial.trial_id] = len(trial.curve)


def state_of(optuna: Any, trial: Trial, ledger: Ledger) -> Any:
    """Return Optuna's state of a configuration that has ended or is paused."""
    states = optuna.trial.TrialState
    if not trial.curve or not (trial.live or trial.status.startswith("stopped")):
        return states.FAIL
    return (
        states.COMPLETE if ledger.epochs_each is not None and len(trial.curve) >= ledger.epochs_each else states.PRUNED
    )


def finished(optuna: Any, translation: Translation, trial: Trial, ledger: Ledger) -> Any:
    """Create an Optuna trial of a configuration that has ended or is paused."""
    parameters, distributions = translation.parameters(trial.params)
    # Optuna accepts values of single epochs only with one objective.
    curve = trial.curve if len(ledger.objectives) == 1 else ()
    values = {step: ledger.value(score) for step, score in enumerate(curve, 1) if math.isfinite(score)}
    state = state_of(optuna, trial, ledger)
    return optuna.trial.create_trial(
        state=state,
        values=None if state == optuna.trial.TrialState.FAIL else ledger.values(trial.last),
        params=parameters,
        distributions=distributions,
        intermediate_values=values,
        user_attrs={"trial_id": trial.trial_id, "reason": trial.reason},
    )


def study_of(space: Space, ledger: Ledger) -> optuna.Study:
    """Create an Optuna study of all configurations of a search, for plots and importances.

    Parameters
    ----------
    space : Space
        Space of the search.
    ledger : Ledger
        Ledger of a finished search.

    Returns
    -------
    optuna.Study
        Study in memory. Its trials are in the order of their starts, with the metric by epoch as steps from 1, and with
        ``trial_id`` and ``reason`` as user attributes. With several objectives the trials have only the values of their
        last epochs. Finished trials are complete, stopped ones are pruned, the others have failed.

    Raises
    ------
    InvalidArgumentError
        Optuna is not installed.
    SpaceError
        A configuration does not belong to the space.

    Examples
    --------
    >>> from optimizer.procedures import EpochResult, RandomSampler, Sequential
    >>> from optimizer.space import Space, uniform
    >>> space = Space({"x": uniform(0, 1)})
    >>> search = Sequential(RandomSampler(space), configurations=9, epochs=2)
    >>> starts = search.ask()
    >>> _ = search.ask([EpochResult(each.trial_id, epoch, {"loss": 1 / epoch}) for each in starts for epoch in (1, 2)])
    >>> study = study_of(space, search.ledger)
    >>> len(study.trials), study.best_trial.last_step
    (9, 2)
    """
    package = load_optuna("a study")
    translation = Translation(space)
    study: optuna.Study = new_study([each.mode for each in ledger.objectives])
    study.add_trials([finished(package, translation, trial, ledger) for trial in ledger])
    return study
