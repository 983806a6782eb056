"""Early stopping rules for the configurations of any procedure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._trial import Trial

__all__ = ["MedianRule", "Patience", "Stopper", "Threshold", "needing_ends"]


class Stopper(Protocol):
    """Rule that ends configurations early, as a function of the ledger without a state.

    A rule that compares only with finished configurations has an attribute ``needs_ends``: it would stop none if all
    trained at the same time, so procedures start configurations one after the other. A rule for a single objective has
    an attribute ``needs_one_objective``; other rules look at the first objective.
    """

    def reason(self, trial: Trial, ledger: Ledger) -> str:
        """Return the reason to end a configuration that has just finished an epoch; ``""`` lets it continue."""


def needing_ends(stoppers: Iterable[Stopper]) -> list[str]:
    """Name the rules that compare only with finished configurations."""
    return [str(stopper) for stopper in stoppers if getattr(stopper, "needs_ends", False)]


@dataclass(frozen=True, slots=True)
class Patience:
    """Stop a configuration whose metric has not improved for some epochs.

    Parameters
    ----------
    epochs : int
        Number of consecutive epochs without a better value.
    min_delta : float
        Smallest difference that counts as an improvement. Default 0.

    Raises
    ------
    InvalidArgumentError
        ``epochs`` is below 1, or ``min_delta`` negative.

    Examples
    --------
    >>> from optimizer.procedures import EpochResult, Listed
    >>> search = Listed([{"lr": 0.1}], epochs=9, stoppers=[Patience(2)])
    >>> _ = search.ask([])
    >>> search.ask([EpochResult("c000", epoch, {"loss": 1.0}) for epoch in (1, 2, 3)])
    [Stop(trial_id='c000', reason='patience: no better loss than 1 for 2 epochs')]
    """

    epochs: int
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, why="It is the number of consecutive epochs without a better value.")
        real("min_delta", self.min_delta, 0)

    def reason(self, trial: Trial, ledger: Ledger) -> str:
        """See :meth:`Stopper.reason`."""
        best, since = trial.scores[0], 0
        for score in trial.scores[1:]:
            if score > best + self.min_delta:
                best, since = score, 0
            else:
                since += 1
        if since < self.epochs:
            return ""
        return f"patience: no better {ledger.metric} than {ledger.value(best):g} for {since} epochs"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Stop a configuration that is good enough, or that is still too bad after some epochs.

    Parameters
    ----------
    reach : float, optional
        Value of the metric that is good enough.
    floor : float, optional
        Value that a configuration must reach after ``after`` epochs.
    after : int
        Epochs before ``floor`` applies. Default 1.

    Raises
    ------
    InvalidArgumentError
        Both values are missing, one is not a number, or ``after`` is below 1.
    """

    reach: float | None = None
    floor: float | None = None
    after: int = 1

    def __post_init__(self) -> None:
        if self.reach is None and self.floor is None:
            raise InvalidArgumentError("reach or floor must be a number, got None for both")
        for name in ("reach", "floor"):
            if (value := getattr(self, name)) is not None:
                real(name, value)
        whole("after", self.after)

    def reason(self, trial: Trial, ledger: Ledger) -> str:
        """See :meth:`Stopper.reason`."""
        score = trial.scores[-1]
        if self.reach is not None and score >= ledger.score(self.reach):
            return f"threshold: {ledger.metric} has reached {self.reach:g}"
        if self.floor is not None and trial.finished >= self.after and score < ledger.score(self.floor):
            return f"threshold: {ledger.metric} is worse than {self.floor:g} after {trial.finished} epochs"
        return ""


@dataclass(frozen=True, slots=True)
class MedianRule:
    """Stop a configuration whose best value is worse than the median of the running means of others.

    The others are all configurations that have reached its epoch; each counts with the mean of its values up to that
    epoch (Golovin et al., Google Vizier, 2017, Section 3.2.2). A clone's epochs count from the start of its lineage.

    Parameters
    ----------
    warm_up : int
        First epochs, in which no configuration is stopped. Default 1.
    min_trials : int
        Number of other configurations that must have reached the epoch. Default 4.

    Raises
    ------
    InvalidArgumentError
        ``warm_up`` is negative, or ``min_trials`` below 1.
    """

    warm_up: int = 1
    min_trials: int = 4

    def __post_init__(self) -> None:
        whole("warm_up", self.warm_up, 0)
        whole("min_trials", self.min_trials)

    def reason(self, trial: Trial, ledger: Ledger) -> str:
        """See :meth:`Stopper.reason`."""
        epoch = len(trial.curve)
        if epoch <= self.warm_up:
            return ""
        means = ledger.means(epoch)
        others = len(means) - 1
        if others < self.min_trials:
            return ""
        middle = _median_without(means, trial.sums[epoch - 1] / epoch)
        best = max(trial.curve)
        if best >= middle:
            return ""
        return (
            f"median rule: best {ledger.metric} {ledger.value(best):g} is worse than {ledger.value(middle):g}, "
            f"the median of {others} others at epoch {epoch}"
        )


def _median_without(ordered: Sequence[float], value: float) -> float:
    """Compute the median of sorted numbers without one of them."""
    place, count = bisect_left(ordered, value), len(ordered) - 1
    lower, upper = ((middle + (middle >= place)) for middle in ((count - 1) // 2, count // 2))
    return (ordered[lower] + ordered[upper]) / 2
