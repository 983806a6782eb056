"""End of a specialised phase: whether the inputs have changed (line 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.specialization._accuracy import corrected_skew
from optimizer.specialization._evidence import contradicts, silence, upper_share

if TYPE_CHECKING:
    from optimizer.specialization._policy import Policy
    from optimizer.specialization._state import Expert, SpecializationState

__all__ = ["is_over", "passes_trial"]

_FEWEST = 10


def passes_trial(policy: Policy, state: SpecializationState, expert: Expert) -> bool:
    """Return whether the answers in the trial are cheaper than the oracle's, and as often confirmed as expected."""
    answered, seconds = sum(state.recent), policy.compacts[expert.compact].seconds
    is_cheaper = not policy.counts_cost or policy.is_cheaper(seconds, answered / len(state.recent))
    return is_cheaper and not contradicts(state.hits, answered, _agreement(policy, state, expert))


def is_over(policy: Policy, state: SpecializationState, expert: Expert) -> bool:
    """Return whether the expert no longer fits the inputs: by its checks, its silence, its accuracy or its cost."""
    if _is_wrong(policy, state, expert) or silence(state.recent):
        return True
    if len(state.recent) < _FEWEST:
        return False
    profile = policy.compacts[expert.compact]
    confusion = profile.curve.at(len(expert.dominant))
    if policy.exit == "skew":
        return corrected_skew(sum(state.recent) / len(state.recent), confusion) < state.entry_skew
    share = upper_share(state.recent)
    if policy.counts_cost and not policy.is_cheaper(profile.seconds, share):
        return True
    estimate = policy.estimate(expert.compact, len(expert.dominant), corrected_skew(share, confusion))
    return estimate.accuracy < policy.accuracy + policy.margin


def _is_wrong(policy: Policy, state: SpecializationState, expert: Expert) -> bool:
    """Return whether checked answers are wrong more often than the limit, and than the oracle's errors explain."""
    # A few checks in a row show a change sooner than all that are kept.
    for checks in (state.checks, state.checks[-policy.least_checks :]):
        wrong = sum(checks)
        if len(checks) >= policy.least_checks and wrong > policy.error_limit * len(checks):
            agreements = len(checks) - wrong
            if contradicts(agreements, len(checks), _agreement(policy, state, expert)):
                return True
    return False


def _agreement(policy: Policy, state: SpecializationState, expert: Expert) -> float:
    return policy.agreement(expert.compact, len(expert.dominant), state.entry_skew)
