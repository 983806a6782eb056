"""Windowed epsilon-greedy algorithm (Algorithm 5.1): which model answers the next frame of a stream."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from optimizer.errors import InvalidArgumentError
from optimizer.specialization._accuracy import corrected_skew
from optimizer.specialization._dominant import dominant_classes
from optimizer.specialization._state import OTHER, Expert, SpecializationState

if TYPE_CHECKING:
    from collections.abc import Collection

    from optimizer.specialization._policy import Estimate, Policy

__all__ = ["Decision", "Need", "WindowedGreedy"]

_MOST_LABELS = 300
_CHECKS = 8
_PHASES_KEPT = 8
_WRONG_IN_TRIAL = 0.25
_REFINED = 2
_KNOWN = 3
_FAR = 1 << 30


class Need(NamedTuple):
    """Models that must answer the next frame: an expert, if any, and the oracle.

    The oracle is also needed if the expert answers :data:`OTHER`.
    """

    expert: Expert | None
    oracle: bool


class Decision(NamedTuple):
    """Answer of a frame.

    ``label`` is the class; ``expert`` the expert that answered, ``None`` for the oracle; ``phase`` the phase in which
    the frame was answered.
    """

    label: int
    expert: Expert | None
    phase: str


class WindowedGreedy:
    """Decisions for a single stream, frame by frame. It runs no model: the caller does, and reports the answers.

    Call :meth:`need`, run these models on the frame, and call :meth:`observe` with their answers. The state after a
    frame depends on the answers alone, so that a stream may be cut between any two frames.

    Parameters
    ----------
    policy : Policy
        Settings and costs.
    state : SpecializationState, optional
        State of the stream, which changes. Default: that of a new one.
    stream : str
        Name of the stream, which the random checks depend on. Default empty.

    Examples
    --------
    >>> from optimizer.specialization import CompactProfile, Confusion, ConfusionCurve, Policy
    >>> curve = ConfusionCurve((1, 10), (Confusion(0.97, 0.02, 0.97), Confusion(0.9, 0.05, 0.95)))
    >>> policy = Policy(classes=300, accuracy=0.9, seconds=0.4, compacts=[CompactProfile("small", 0.01, curve)])
    >>> stream = WindowedGreedy(policy)
    >>> phases = []
    >>> for frame in range(60):
    ...     need = stream.need()
    ...     phases.append(stream.observe(7 if need.oracle else None, 7 if need.expert else None).phase)
    >>> [(phase, phases.count(phase)) for phase in ("explore", "trial", "specialized")]
    [('explore', 30), ('trial', 8), ('specialized', 22)]
    """

    def __init__(self, policy: Policy, state: SpecializationState | None = None, stream: str = "") -> None:
        self.policy = policy
        self.state = SpecializationState() if state is None else state
        self._stream = stream

    def need(self, ahead: int = 0) -> Need:
        """Return the models for the next frame, or, if no decision comes between, for one that is `ahead` of it."""
        state = self.state
        if state.phase in ("explore", "train"):
            return Need(None, True)
        return Need(state.expert, state.phase == "trial" or self._is_checked(state.frame + ahead))

    def certain(self) -> int:
        """Return the number of next frames that :meth:`need` is certain for.

        In the specialised phase it holds until the phase ends, which no other frame but the next can foresee.
        """
        state, policy = self.state, self.policy
        if state.phase == "train":
            return max(state.ready - state.frame, 1)
        if state.phase == "trial":
            return policy.trial_frames - state.seen
        if state.phase == "explore":
            # A trial or training after the next decision needs the oracle too.
            first = min(policy.recall_frames if state.experts else self._window, self._window)
            return max(first - len(state.labels), 1) + policy.trial_frames
        return _FAR

    def observe(self, oracle: int | None, compact: int | None = None) -> Decision:
        """Take the answers of the models for the next frame, and return its label.

        Parameters
        ----------
        oracle : int or None
            Class of the oracle, ``None`` if it did not run.
        compact : int or None
            Class of the expert or :data:`OTHER`, ``None`` if it did not run.

        Raises
        ------
        InvalidArgumentError
            An answer is missing that :meth:`need` asked for.
        """
        state, need = self.state, self.need()
        if (need.expert is not None and compact is None) or (
            oracle is None and (need.oracle or compact is None or compact == OTHER)
        ):
            raise InvalidArgumentError(
                f"observe must have the answers that need() asks for, got oracle={oracle} and compact={compact} in "
                f"phase {state.phase!r}. Run the models first."
            )
        phase = state.phase
        state.frame += 1
        if phase == "specialized":
            return self._specialized(oracle, compact)
        assert oracle is not None
        state.labels = [*state.labels, oracle][-_MOST_LABELS:]
        if phase == "explore":
            self._explore()
        elif phase == "train" and state.frame >= state.ready:
            self._begin_trial()
        elif phase == "trial":
            self._try(oracle, OTHER if compact is None else compact)
        return Decision(oracle, None, phase)

    def fail_training(self) -> None:
        """Report that the expert in training cannot be used: the oracle continues."""
        state = self.state
        if state.expert is None:
            raise InvalidArgumentError(f"phase must be one with an expert, got {state.phase!r}.")
        state.refused.append(_key(state.expert.dominant))
        state.experts = [expert for expert in state.experts if expert != state.expert]
        state.phase, state.expert = "explore", None

    @property
    def _window(self) -> int:
        return self.state.window or self.policy.window or 0

    def _explore(self) -> None:
        """Recall an expert, or train a new one, if that is worthwhile (lines 5 to 15)."""
        state, policy = self.state, self.policy
        if len(state.labels) >= policy.recall_frames and self._recall():
            return
        if not state.window and len(state.labels) >= self._window:
            self._continue_epoch()
        if not state.window:
            return
        last = state.labels[-state.window :]
        support = policy.support(len(last))
        dominant = dominant_classes(last, support)
        best = self._best_for(dominant, last, support)
        if best is None:
            state.stable = 0
            return
        state.stable += 1
        if not policy.counts_cost or self._pays(best.compact, policy.seconds - policy.compacts[best.compact].seconds):
            self._train(best, dominant)

    def _pays(self, compact: int, saved: float) -> bool:
        """Return whether training pays, if each answer of an expert saves some seconds.

        The past phases show how many answers an expert gives before the inputs change. A distribution that is stable
        for longer than that is expected to last as long as it did.
        """
        state, policy = self.state, self.policy
        answers = [*state.answers] if len(state.answers) >= _KNOWN else [*state.answers, policy.expected_frames]
        expected = sum(answers) / len(answers)
        if state.stable > policy.expected_frames / 4:
            expected = max(expected, state.stable)
        return saved * expected > policy.compacts[compact].training_seconds

    def _best_for(self, dominant: frozenset[int], last: list[int], support: int) -> Estimate | None:
        """Return the best compact model for dominant classes of some labels, if it is worthwhile."""
        if not dominant or len(dominant) > len(last) / 2 or _key(dominant) in self.state.refused:
            return None
        return self.policy.best(len(dominant), _held_out_skew(last, support))

    def _train(self, best: Estimate, dominant: frozenset[int]) -> None:
        state, policy = self.state, self.policy
        state.trained += 1
        name = f"{policy.compacts[best.compact].name} {state.trained}"
        state.expert = Expert(name, best.compact, tuple(sorted(dominant)))
        state.phase = "train"
        state.ready = state.frame + policy.frames_of_training(best.compact)
        if state.ready == state.frame:
            self._begin_trial()

    def _continue_epoch(self) -> None:
        """Join the labels of the epoch before, if its dominant classes are the same (lines 5 to 7)."""
        state, policy = self.state, self.policy
        now, before = (
            dominant_classes(labels, policy.support(len(labels))) if labels else None
            for labels in (state.labels, state.previous)
        )
        if policy.grows_window and now is not None and before is not None and len(now ^ before) <= policy.tolerance:
            state.labels = [*state.previous, *state.labels][-_MOST_LABELS:]
        state.window = len(state.labels) if policy.grows_window else self._window

    def _recall(self) -> bool:
        """Begin the trial of the cheapest known expert that fits the last answers."""
        state, policy = self.state, self.policy
        last = state.labels[-self._window :]
        candidates = []
        for expert in state.experts:
            if expert.name in state.refused:
                continue
            estimate = policy.estimate(expert.compact, len(expert.dominant), _share(last, expert.dominant))
            if policy.is_worthwhile(estimate):
                candidates.append((estimate.seconds, expert.name, expert))
        if not candidates:
            return False
        state.expert = min(candidates)[2]
        self._begin_trial()
        return True

    def _begin_trial(self) -> None:
        state = self.state
        state.phase, state.seen, state.answered, state.hits = "trial", 0, 0, 0
        assert state.expert is not None
        known = [expert for expert in state.experts if expert != state.expert]
        state.experts = [*known, state.expert][-self.policy.experts :]

    def _try(self, oracle: int, compact: int) -> None:
        """Compare the expert with the oracle; use it, or go on exploring."""
        state, policy = self.state, self.policy
        state.seen += 1
        state.answered += compact != OTHER
        state.hits += compact == oracle
        if state.seen < policy.trial_frames:
            return
        expert = state.expert
        assert expert is not None
        wrong = state.answered - state.hits
        seconds = policy.compacts[expert.compact].seconds + policy.seconds * (1 - state.answered / state.seen)
        is_cheaper = not policy.counts_cost or seconds <= policy.saving * policy.seconds
        if wrong > max(1, _WRONG_IN_TRIAL * state.seen) or not is_cheaper:
            state.refused += [expert.name, _key(expert.dominant)]
            state.answers = [*state.answers, 0][-_PHASES_KEPT:]
            state.phase, state.expert = "explore", None
            return
        last = state.labels[-self._window :]
        state.phase, state.checks = "specialized", []
        state.recent = [label in expert.dominant for label in last]
        state.answered, state.entry_skew = 0, _share(last, expert.dominant)

    def _specialized(self, oracle: int | None, compact: int | None) -> Decision:
        """Answer with the expert, and end its use if the inputs changed (lines 16 to 25)."""
        state, policy, expert = self.state, self.policy, self.state.expert
        assert expert is not None
        assert compact is not None
        answered = compact != OTHER
        state.answered += answered
        if oracle is not None and answered:
            state.checks = [*state.checks, oracle != compact][-_CHECKS:]
        state.recent = [*state.recent, answered][-max(self._window, policy.window or 0) :]
        decision = Decision(compact if oracle is None else oracle, expert if oracle is None else None, "specialized")
        state.labels = [*state.labels, decision.label][-_MOST_LABELS:]
        if self._is_over(expert):
            self._record_answers()
            state.previous, state.labels = state.labels, []
            state.stable, state.window = 0, 0
            state.refused, state.recent, state.checks = [], [], []
            state.phase, state.expert = "explore", None
        elif not answered and policy.refines:
            self._refine(expert)
        return decision

    def _refine(self, expert: Expert) -> None:
        """Train an expert for more classes, if the oracle often answers the same other classes."""
        state, policy = self.state, self.policy
        last = state.labels[-_REFINED * self._window :]
        support = policy.support(len(last))
        dominant = dominant_classes(last, support)
        if dominant <= set(expert.dominant):
            return
        best = self._best_for(dominant, last, support)
        if best is None:
            return
        share = _share(last, expert.dominant)
        now = policy.estimate(expert.compact, len(expert.dominant), share).seconds
        if best.seconds <= policy.saving * now and self._pays(best.compact, now - best.seconds):
            self._record_answers()
            self._train(best, dominant)

    def _record_answers(self) -> None:
        state = self.state
        state.answers = [*state.answers, state.answered][-_PHASES_KEPT:]

    def _is_over(self, expert: Expert) -> bool:
        state, policy = self.state, self.policy
        profile = policy.compacts[expert.compact]
        share = sum(state.recent) / len(state.recent)
        confusion = profile.curve.at(len(expert.dominant))
        if len(state.checks) >= policy.least_checks and sum(state.checks) > policy.error_limit * len(state.checks):
            return True
        skew = corrected_skew(share, confusion)
        if policy.exit == "skew":
            return skew < state.entry_skew
        estimate = policy.estimate(expert.compact, len(expert.dominant), skew)
        measured = profile.seconds + policy.seconds * (1 - share + policy.epsilon * share)
        if policy.counts_cost and measured > policy.saving * policy.seconds:
            return True
        return estimate.accuracy < policy.accuracy + policy.margin

    def _is_checked(self, frame: int) -> bool:
        """Return whether the oracle checks a frame: a hash decides, so that a replay checks the same ones."""
        digest = hashlib.blake2b(f"{self.policy.seed}:{self._stream}:{frame}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) < self.policy.epsilon * 2**64


def _key(dominant: Collection[int]) -> str:
    return ",".join(map(str, sorted(dominant)))


def _share(labels: list[int], dominant: Collection[int]) -> float:
    return sum(label in dominant for label in labels) / len(labels)


def _held_out_skew(labels: list[int], support: int) -> float:
    """Return the share of labels whose class would be dominant without them.

    The share of all labels in dominant classes is too high, because these classes were chosen by the same labels.
    """
    return sum(count for count in Counter(labels).values() if count > support) / len(labels)
