"""Settings of sequential specialization: thresholds, costs, and the decision which compact model pays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from optimizer.arguments import one_of, real, whole, whole_or_none
from optimizer.errors import InvalidArgumentError
from optimizer.specialization._accuracy import cascaded_accuracy, cascaded_seconds
from optimizer.specialization._dominant import choose_window, least_support
from optimizer.specialization._state import MOST_LABELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.specialization._accuracy import ConfusionCurve

__all__ = ["CompactProfile", "Estimate", "Policy"]

_EXITS = ("estimate", "skew")


@dataclass(frozen=True, slots=True)
class CompactProfile:
    """Measured costs and accuracy of a compact model.

    Parameters
    ----------
    name : str
        Name of the model.
    seconds : float
        Time of an input, ``r``, in seconds.
    curve : ConfusionCurve
        Shares of its answers for several numbers of dominant classes.
    training_seconds : float
        Time to specialise it, ``R_0``, in seconds. Default 0.

    Raises
    ------
    InvalidArgumentError
        A time is negative.
    """

    name: str
    seconds: float
    curve: ConfusionCurve
    training_seconds: float = 0.0

    def __post_init__(self) -> None:
        real("seconds", self.seconds, 0)
        real("training_seconds", self.training_seconds, 0)


class Estimate(NamedTuple):
    """Expected accuracy and time of an input for a compact model, given by its place in the policy."""

    compact: int
    accuracy: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of the windowed epsilon-greedy algorithm (Algorithm 5.1), with its measured inputs.

    Parameters
    ----------
    classes : int
        Number of classes of the oracle, ``N``.
    accuracy, seconds : float
        Accuracy of the oracle, ``a*``, and its time of an input, ``R``, in seconds.
    compacts : sequence of CompactProfile
        Compact models. The cheapest one that keeps the accuracy is used.
    window : int, optional
        Answers of the oracle before dominant classes are determined. Default: that of :func:`choose_window`. Fewer are
        sufficient where few classes make up nearly all inputs.
    margin : float
        Least difference of the expected accuracy to that of the oracle, ``tau_a``. Default -0.01.
    epsilon : float
        Probability that the oracle checks an answer of a compact model. Default 0.03.
    error_limit : float
        Share of wrong answers among those checked above which specialisation ends, ``tau_FP``, unless the errors of the
        oracle explain it. Default 0.5.
    least_checks : int
        Checked answers before the limit counts. Default 3.
    saving : float
        Largest cost of the specialised classifier, relative to the oracle. Default 0.9.
    trial_frames : int
        Frames on which an expert and the oracle both answer before the expert is used. Default 5.
    recall_frames : int
        Answers of the oracle after which the experts that are kept are considered. Default 6.
    experts : int
        Experts that are kept; 0 trains a new one for each scene. Default 8.
    expected_frames : int
        Answers expected of a new expert: together they must save more time than its training takes. Default 300.
    training_frames : int, optional
        Frames that the oracle answers before a new expert takes over. Default: the frames that it answers in the time
        of the training.
    exit : {"estimate", "skew"}
        End specialisation by the estimated accuracy (default), or as soon as the skew is below that at the start of
        the trial.
    counts_cost : bool
        Specialise only if this is cheaper than the oracle. Default true.
    refines : bool
        Train another expert if the oracle often answers the same other classes. Considered whenever the frames of the
        epoch have doubled. Default true.
    seed : int
        Seed of the checks. Default 0.

    Raises
    ------
    InvalidArgumentError
        A number is out of range, or there is no compact model.

    References
    ----------
    Shen, *System for Serving Deep Neural Networks Efficiently*, section 5.3.2. The thesis considers no costs, so it
    specialises for random inputs too; `saving` and `counts_cost` correct this.
    """

    classes: int
    accuracy: float
    seconds: float
    compacts: Sequence[CompactProfile]
    window: int | None = None
    margin: float = -0.01
    epsilon: float = 0.03
    error_limit: float = 0.5
    least_checks: int = 3
    saving: float = 0.9
    trial_frames: int = 5
    recall_frames: int = 6
    experts: int = 8
    expected_frames: int = 300
    training_frames: int | None = None
    exit: str = "estimate"
    counts_cost: bool = True
    refines: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        whole("classes", self.classes, 2)
        real("accuracy", self.accuracy, 0, 1, above=True)
        real("seconds", self.seconds, 0, above=True)
        if not self.compacts:
            raise InvalidArgumentError("compacts must have at least one model, got none.")
        object.__setattr__(self, "compacts", tuple(self.compacts))
        if self.window is not None and whole("window", self.window, 2) > MOST_LABELS:
            raise InvalidArgumentError(f"window must be at most {MOST_LABELS}, got {self.window}.")
        real("margin", self.margin, -1, 1)
        real("epsilon", self.epsilon, 0, 1)
        real("error_limit", self.error_limit, 0, 1)
        real("saving", self.saving, 0, 1, above=True)
        for name in ("least_checks", "trial_frames", "recall_frames", "expected_frames"):
            whole(name, getattr(self, name))
        whole("experts", self.experts, 0)
        whole_or_none("training_frames", self.training_frames, 0)
        one_of("exit", self.exit, _EXITS)
        if self.window is None:
            object.__setattr__(self, "window", choose_window(classes=self.classes, accuracy=self.accuracy))

    @property
    def window_size(self) -> int:
        """Size of the window."""
        assert self.window is not None
        return self.window

    def support(self, window: int) -> int:
        """Return the answers that make a class dominant in a window."""
        return least_support(self.classes, self.accuracy, window)

    def frames_of_training(self, compact: int) -> int:
        """Return the frames that the oracle answers while a compact model is trained."""
        if self.training_frames is not None:
            return self.training_frames
        return math.ceil(self.compacts[compact].training_seconds / self.seconds)

    def estimate(self, compact: int, dominant: int, skew: float) -> Estimate:
        """Return the expected accuracy and time of an input of a specialised model (equation 5.1)."""
        profile = self.compacts[compact]
        confusion = profile.curve.at(dominant)
        seconds = cascaded_seconds(skew, confusion, profile.seconds, self.seconds)
        return Estimate(compact, cascaded_accuracy(skew, confusion, self.accuracy), seconds)

    def skew(self, share: float) -> float:
        """Return the skew from the share of the oracle's answers in dominant classes: its errors lie outside."""
        return min(1.0, share / self.accuracy)

    def agreement(self, compact: int, dominant: int, skew: float) -> float:
        """Return the expected share of a specialised model's answers that the oracle confirms: both are right."""
        confusion = self.compacts[compact].curve.at(dominant)
        answered = skew * (1 - confusion.e) + (1 - skew) * (1 - confusion.a_out)
        return min(1.0, skew * confusion.a_in * self.accuracy / answered) if answered else 0.0

    def is_cheaper(self, seconds: float, answered: float) -> bool:
        """Return whether a compact model that answers some share of the inputs is cheaper than the oracle."""
        return seconds + self.seconds * (1 - answered + self.epsilon * answered) <= self.saving * self.seconds

    def is_worthwhile(self, estimate: Estimate) -> bool:
        """Return whether a specialised model keeps the accuracy, and is cheaper than the oracle."""
        is_cheaper = not self.counts_cost or estimate.seconds <= self.saving * self.seconds
        return estimate.accuracy >= self.accuracy + self.margin and is_cheaper

    def best(self, dominant: int, skew: float) -> Estimate | None:
        """Return the cheapest compact model that is worthwhile; ``None`` if the oracle is the best choice."""
        estimates = (self.estimate(place, dominant, skew) for place in range(len(self.compacts)))
        return min(filter(self.is_worthwhile, estimates), key=lambda estimate: estimate.seconds, default=None)
