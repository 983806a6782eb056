"""Optuna pruners as stoppers of a procedure."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from optimizer.errors import InvalidArgumentError
from optimizer.procedures.studies._follower import Follower, new_study
from optimizer.procedures.studies._optuna import load_optuna

if TYPE_CHECKING:
    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._trial import Trial

__all__ = ["OptunaPruner"]


class OptunaPruner:
    """Stop the configurations that a pruner of Optuna prunes.

    The pruner sees a study of all configurations: their metric by epoch, with steps from 1, and which of them have
    finished, were stopped or failed. A configuration that waits at a rung counts as running.

    Optuna's median, percentile, patient and Wilcoxon pruners compare only with finished trials; its halving and
    Hyperband pruners take the epochs of their rungs from finished trials unless they are set. Where all configurations
    train at the same time, such a pruner prunes nothing. A search of one stage therefore trains in waves, as its plan
    shows; set ``concurrency``. In a search with rungs the pruner compares with trials that reached the last rung.

    Parameters
    ----------
    pruner : optuna.pruners.BasePruner
        Pruner, which is copied, so that one object serves any number of searches. Searches with several objectives
        refuse it.

    Raises
    ------
    InvalidArgumentError
        Optuna is not installed, or ``pruner`` is not a pruner.

    Examples
    --------
    >>> from optuna.pruners import MedianPruner
    >>> from optimizer.procedures import Listed
    >>> rates = [{"lr": rate} for rate in (0.1, 0.2, 0.3, 0.4)]
    >>> rule = OptunaPruner(MedianPruner(n_startup_trials=1))
    >>> print(Listed(rates, epochs=9, concurrency=2, stoppers=[rule]).plan())
    Listed: 4 configurations, 36 epochs in all, at most 9 each
      all: 4 x 9 epochs, up to epoch 9
      at most 2 at the same time
      in waves, 2 at the same time: MedianPruner compares with finished configurations
    """

    needs_one_objective = True

    def __init__(self, pruner: Any) -> None:
        pruners = load_optuna(f"OptunaPruner({pruner!r})").pruners
        if not isinstance(pruner, pruners.BasePruner):
            raise InvalidArgumentError(f"pruner must be a pruner of Optuna, such as MedianPruner(), got {pruner!r}")
        self._pruner = pruner
        # A patient pruner asks the pruner that it wraps; without one it looks only at the trial.
        inner = pruner
        while isinstance(inner, pruners.PatientPruner):
            inner = inner._wrapped_pruner  # noqa: SLF001 - Optuna has no public access
        self.needs_ends = isinstance(inner, pruners.PercentilePruner | pruners.WilcoxonPruner) or _automatic(inner)
        self._followers: WeakKeyDictionary[Ledger, Follower] = WeakKeyDictionary()

    def __str__(self) -> str:
        return type(self._pruner).__name__

    def __repr__(self) -> str:
        return f"OptunaPruner({self._pruner!r})"

    def reason(self, trial: Trial, ledger: Ledger) -> str:
        """See :meth:`Stopper.reason`."""
        follower = self._followers.get(ledger)
        if follower is None:
            study = new_study([ledger.mode], pruner=copy.deepcopy(self._pruner))
            follower = self._followers[ledger] = Follower(study, ledger, closes_paused=False, guests=True)
        study = follower.study
        follower.follow(lambda _: study.ask())
        # A configuration that has finished is complete, so do not ask the pruner about its last epoch.
        ended = ledger.epochs_each is not None and len(trial.curve) >= ledger.epochs_each
        if ended or not follower.optuna_trial(trial).should_prune():
            return ""
        return f"{self}: pruned with {ledger.metric} {ledger.value(trial.scores[-1]):g} after {len(trial.curve)} epochs"


def _automatic(pruner: Any) -> bool:
    """Return True if a pruner takes the epochs of its rungs from finished trials."""
    missing = ("_min_resource", None), ("_max_resource", "auto")
    return any(hasattr(pruner, name) and getattr(pruner, name) == value for name, value in missing)
