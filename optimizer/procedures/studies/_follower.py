"""An Optuna study that follows the ledger of a procedure."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from optimizer.procedures.studies._optuna import load_optuna, quiet
from optimizer.procedures.studies._translation import Translation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import optuna

    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._trial import Trial
    from optimizer.space import Space

__all__ = ["Follower", "new_study", "study_of"]

# Some pruners deal trials to brackets by the study's name.
_NAME = "cerebro"


def new_study(modes: Sequence[str], **settings: Any) -> Any:
    """Make a study in memory, whose name is always the same.

    Parameters
    ----------
    modes : sequence of {"min", "max"}
        Of each objective.
    **settings
        Of ``optuna.create_study``.
    """
    optuna = load_optuna("a study")
    with quiet(optuna):
        return optuna.create_study(study_name=_NAME, directions=[f"{mode}imize" for mode in modes], **settings)


class Follower:
    """Tells an Optuna study what a ledger knows: each epoch with its step, from 1 on, and each end with its state.

    Who comes to the end of the procedure's epochs is complete. Who is stopped before is pruned, with its last value.
    Who fails or diverges has failed. Who ended before its first epoch has failed as well, for there is no value. With
    several objectives Optuna takes no values of single epochs: who is pruned is told without values.

    Parameters
    ----------
    study : optuna.Study
        New.
    ledger : Ledger
    closes_paused : bool
        Whether one that is paused is told as pruned, since it may stay paused for ever. If it goes on after all, what
        it came to is told by another trial of the same parameters: Optuna's trials are not opened again.
    guests : bool
        Whether it is told of the configurations that the user added, which may have other parameters.
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

    def follow(self, begun: Callable[[Trial], Any]) -> None:
        """Bring the study up to date.

        Parameters
        ----------
        begun : callable
            Gives the Optuna trial of a configuration that has started since the last time.
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

    def again(self, translation: Translation) -> None:
        """Tell of those that were paused, went on, and are paused again or have ended."""
        for name, (trial, epochs) in list(self._closed.items()):
            if len(trial.curve) > epochs and not trial.running:
                self.study.add_trial(finished(self._optuna, translation, trial, self._ledger))
                self._closed[name] = trial, len(trial.curve)
            if not trial.live:
                del self._closed[name]

    def optuna_trial(self, trial: Trial) -> Any:
        """Give the Optuna trial of a configuration that has not ended."""
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
    """Say in which of Optuna's states a configuration is that has ended, or is paused."""
    states = optuna.trial.TrialState
    if not trial.curve or not (trial.live or trial.status.startswith("stopped")):
        return states.FAIL
    return (
        states.COMPLETE if ledger.epochs_each is not None and len(trial.curve) >= ledger.epochs_each else states.PRUNED
    )


def finished(optuna: Any, translation: Translation, trial: Trial, ledger: Ledger) -> Any:
    """Make an Optuna trial of a configuration that has ended, or is paused."""
    parameters, distributions = translation.parameters(trial.params)
    # Optuna has values of single epochs for one objective alone.
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
    """Make an Optuna study of all configurations of a search, for its pictures and importances.

    Parameters
    ----------
    space : Space
        Of the search.
    ledger : Ledger
        Of a search that is over, as ``simulate(...).ledger``.

    Returns
    -------
    optuna.Study
        In memory; the trials in the order of their starts, with their metric by epoch, from step 1 on, and ``trial_id``
        and ``reason`` as user attributes. With several objectives it has as many directions, and the trials have the
        values of their last epochs alone. Those that came to the end are complete, those that were stopped before are
        pruned, the others have failed.

    Raises
    ------
    InvalidArgumentError
        Optuna is not installed.
    SpaceError
        A configuration does not belong to the space.

    Examples
    --------
    >>> from optimizer.procedures import RandomSampler, Sequential, simulate
    >>> from optimizer.space import Space, uniform
    >>> space = Space({"x": uniform(0, 1)})
    >>> search = Sequential(RandomSampler(space), configurations=9, epochs=2)
    >>> study = study_of(space, simulate(search, lambda trial, epoch: trial.params["x"] / epoch, 1.0, 2).ledger)
    >>> len(study.trials), study.best_trial.last_step
    (9, 2)
    """
    package = load_optuna("a study")
    translation = Translation(space)
    study: optuna.Study = new_study([each.mode for each in ledger.objectives])
    study.add_trials([finished(package, translation, trial, ledger) for trial in ledger])
    return study
