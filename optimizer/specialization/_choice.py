"""Choice of an expert: which known one to recall, and for which classes to train a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from optimizer.specialization._dominant import dominant_classes
from optimizer.specialization._evidence import held_out_share, share_in

if TYPE_CHECKING:
    from optimizer.specialization._policy import Estimate, Policy
    from optimizer.specialization._state import Expert, SpecializationState

__all__ = ["Choice", "choose_known", "choose_larger", "choose_new"]

_CLEAR = 0.9  # skew from which fewer labels than the window are sufficient
_MOST_FAILURES = 10


class Choice(NamedTuple):
    """Compact model to train, the classes to train it for, and the number of labels that they come from."""

    compact: int
    dominant: tuple[int, ...]
    labels: int


def choose_known(policy: Policy, state: SpecializationState) -> Expert | None:
    """Return the cheapest known expert that is worthwhile for the last labels."""
    last = state.labels[-policy.window_size :]
    candidates = []
    for expert in state.experts:
        if expert.name in state.refused:
            continue
        skew = policy.skew(share_in(last, expert.dominant))
        estimate = policy.estimate(expert.compact, len(expert.dominant), skew)
        if policy.is_worthwhile(estimate):
            candidates.append((estimate.seconds, expert.name, expert))
    return min(candidates)[2] if candidates else None


def choose_new(policy: Policy, state: SpecializationState) -> Choice | None:
    """Return the expert to train, and count the frames for which its classes have been dominant (lines 8 to 15).

    Fewer labels than the window are sufficient if few classes make up nearly all of them.
    """
    last = state.labels[-policy.window_size :]
    dominant, skew, best = _best(policy, last)
    if best is None or (len(last) < policy.window_size and skew < _CLEAR):
        state.stable = 0
        return None
    if not state.stable or len(dominant.intersection(state.candidate)) < len(dominant) / 2:
        state.candidate, state.stable = sorted(dominant), 0
    state.stable += 1
    saved = policy.seconds - policy.compacts[best.compact].seconds
    if not _pays(policy, best, saved, state.stable) or state.stable <= _patience(policy, best, saved, state.failures):
        return None
    return Choice(best.compact, tuple(sorted(dominant)), len(last))


def choose_larger(policy: Policy, state: SpecializationState, expert: Expert) -> Choice | None:
    """Return an expert for more classes than the present one, if the oracle often answers the same other classes."""
    last = state.labels[-state.epoch :]
    dominant, _, best = _best(policy, last)
    if best is None or dominant <= set(expert.dominant):
        return None
    skew = policy.skew(share_in(last, expert.dominant))
    present = policy.estimate(expert.compact, len(expert.dominant), skew).seconds
    if best.seconds > policy.saving * present or not _pays(policy, best, present - best.seconds, state.epoch):
        return None
    return Choice(best.compact, tuple(sorted(dominant)), len(last))


def _best(policy: Policy, labels: list[int]) -> tuple[frozenset[int], float, Estimate | None]:
    """Return the dominant classes of some labels, their skew, and the best compact model if it is worthwhile."""
    support = policy.support(len(labels))
    dominant, skew = dominant_classes(labels, support), policy.skew(held_out_share(labels, support))
    if not dominant or len(dominant) > len(labels) / 2:
        return dominant, skew, None
    return dominant, skew, policy.best(len(dominant), skew)


def _pays(policy: Policy, best: Estimate, saved: float, frames: int) -> bool:
    """Return whether training is expected to pay if each answer of the expert saves some seconds.

    Inputs that have been stable for longer than expected are expected to stay so for as long again.
    """
    training = policy.compacts[best.compact].training_seconds
    return not policy.counts_cost or saved * max(policy.expected_frames, frames) > training


def _patience(policy: Policy, best: Estimate, saved: float, failures: int) -> float:
    """Return the frames for which the same classes must be dominant: exponential backoff after useless training."""
    training = policy.compacts[best.compact].training_seconds
    unit = max(policy.recall_frames, training / saved if saved > 0 else 0)
    return unit * (2.0 ** min(failures, _MOST_FAILURES) - 1)
