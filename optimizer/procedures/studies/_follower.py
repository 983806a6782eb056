"""An Optuna study that follows the ledger of a procedure."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from ._optuna import load_optuna, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._trial import Trial

    from ._translation import Translation

__all__ = ["Follower", "new_study"]

# Some pruners deal trials to brackets by the study's name.
_NAME = "cerebro"


def new_study(mode: str, **settings: Any) -> Any:
    """Make a study in memory, whose name is always the same.

    Parameters
    ----------
    mode : {"min", "max"}
    **settings
        Of ``optuna.create_study``.
    """
    optuna = load_optuna("a study")
    with quiet(optuna):
        return optuna.create_study(study_name=_NAME, direction=f"{mode}imize", **settings)


class Follower:
    """Tells an Optuna study what a ledger knows: each epoch with its step, from 1 on, and each end with its state.

    Who comes to the end of the procedure's epochs is complete. Who is stopped before is pruned, with its last value.
    Who fails or diverges has failed. Who ended before its first epoch has failed as well, for there is no value.

    Parameters
    ----------
    study : optuna.Study
        New.
    ledger : Ledger
    closes_paused : bool
        Whether one that is paused is told as pruned, since it may stay paused for ever. If it goes on after all, what
        it came to is told by another trial of the same parameters: Optuna's trials are not opened again.
    """

    def __init__(self, study: Any, ledger: Ledger, *, closes_paused: bool) -> None:
        self.study = study
        self._ledger = ledger
        self._closes_paused = closes_paused
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
            self._open[trial.trial_id] = trial, begun(trial)
        self._seen = len(self._ledger)
        for name, (trial, theirs) in list(self._open.items()):
            self._report(trial, theirs)
            if not trial.live or (self._closes_paused and trial.status == "paused"):
                state = state_of(self._optuna, trial, self._ledger)
                value = trial.curve[-1] if state == self._optuna.trial.TrialState.COMPLETE else None
                self.study.tell(theirs, value if value is None else self._ledger.value(value), state=state)
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
    return frozen(
        optuna,
        parameters,
        distributions,
        state_of(optuna, trial, ledger),
        [ledger.value(score) for score in trial.curve],
        {"trial_id": trial.trial_id, "reason": trial.reason},
    )


def frozen(
    optuna: Any,
    parameters: Mapping[str, Any],
    distributions: Mapping[str, Any],
    state: Any,
    values: Sequence[float],
    attributes: Mapping[str, Any],
) -> Any:
    """Make an Optuna trial that has ended, of the metric's value after each epoch."""
    steps = {step: value for step, value in enumerate(values, 1) if math.isfinite(value)}
    return optuna.trial.create_trial(
        state=state,
        value=None if state == optuna.trial.TrialState.FAIL else values[-1],
        params=dict(parameters),
        distributions=dict(distributions),
        intermediate_values=steps,
        user_attrs=dict(attributes),
    )
