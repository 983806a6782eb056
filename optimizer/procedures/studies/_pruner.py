"""Optuna's pruners as stoppers of a procedure."""

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

    The pruner sees a study of all configurations: their metric by epoch, with steps from 1 on, and which of them have
    come to the end, were stopped or failed. Who waits at a rung is running to it.

    Optuna's median, percentile, patient and Wilcoxon pruners compare with none but trials that have come to the end;
    its halving and Hyperband pruners take the epochs of their rungs from them, unless they are given. Where all train
    beside each other, such a pruner prunes nothing: a search of one stage therefore trains in waves, which its plan
    says; give it ``concurrency``. With rungs it compares with those that reached the last one.

    Parameters
    ----------
    pruner : optuna.pruners.BasePruner
        It is copied: one object serves any number of searches. They have one objective: procedures of several refuse
        it.

    Raises
    ------
    InvalidArgumentError
        Optuna is not installed, or it is no pruner.

    Examples
    --------
    >>> from optuna.pruners import MedianPruner
    >>> from optimizer.procedures import Listed
    >>> rates = [{"lr": rate} for rate in (0.1, 0.2, 0.3, 0.4)]
    >>> rule = OptunaPruner(MedianPruner(n_startup_trials=1))
    >>> print(Listed(rates, epochs=9, concurrency=2, stoppers=[rule]).plan())
    Listed: 4 configurations, 36 epochs in all, at most 9 each
      all: 4 x 9 epochs, up to epoch 9
      at most 2 beside each other
      in waves, 2 beside each other: MedianPruner compares with configurations that have come to the end
    """

    needs_one_objective = True

    def __init__(self, pruner: Any) -> None:
        pruners = load_optuna(f"OptunaPruner({pruner!r})").pruners
        if not isinstance(pruner, pruners.BasePruner):
            raise InvalidArgumentError(f"OptunaPruner({pruner!r}): a pruner of Optuna, as MedianPruner()")
        self._pruner = pruner
        # A patient pruner asks another one only after a while; without one it looks at the trial alone.
        inner = pruner
        while isinstance(inner, pruners.PatientPruner):
            inner = inner._wrapped_pruner  # noqa: SLF001 - there is no other way to ask
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
        # Whoever has come to the end is complete, whatever the pruner thinks of the last epoch.
        ended = ledger.epochs_each is not None and len(trial.curve) >= ledger.epochs_each
        if ended or not follower.optuna_trial(trial).should_prune():
            return ""
        return f"{self}: pruned with {ledger.metric} {ledger.value(trial.scores[-1]):g} after {len(trial.curve)} epochs"


def _automatic(pruner: Any) -> bool:
    """Tell whether a pruner learns the epochs of its rungs from trials that have come to the end."""
    missing = ("_min_resource", None), ("_max_resource", "auto")
    return any(hasattr(pruner, name) and getattr(pruner, name) == value for name, value in missing)
