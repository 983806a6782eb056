"""Windowed epsilon-greedy algorithm (Algorithm 5.1): which model answers the next frame of a stream."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from optimizer.errors import InvalidArgumentError
from optimizer.specialization._choice import choose_known, choose_larger, choose_new
from optimizer.specialization._evidence import frequencies, share_in, silence
from optimizer.specialization._exit import is_over, passes_trial
from optimizer.specialization._state import MOST_LABELS, OTHER, Expert, SpecializationState

if TYPE_CHECKING:
    from optimizer.specialization._choice import Choice
    from optimizer.specialization._policy import Policy

__all__ = ["Decision", "Need", "WindowedGreedy"]

_CHECKS = 8  # last checks that are kept
_WINDOWS = 3  # windows of answers that the end of a phase is decided by
_GROWTH = 2  # factor between the reviews of an epoch
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
    [('explore', 6), ('trial', 5), ('specialized', 49)]
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
        is_checked = state.burst > ahead or self._is_checked(state.frame + ahead)
        return Need(state.expert, state.phase == "trial" or is_checked)

    def certain(self) -> int:
        """Return the number of next frames whose need of the oracle is known, whatever the models answer.

        While exploring, in training and on trial, each of these frames needs the oracle, unless the training fails. In
        the specialised phase, :meth:`need` with `ahead` holds until the phase ends or a checked answer is wrong, which
        only the frames themselves show: the number is larger than any stream.
        """
        state, policy = self.state, self.policy
        if state.phase == "specialized":
            return _FAR
        if state.phase == "trial":
            return policy.trial_frames - len(state.recent)
        # A trial or training after the next decision needs the oracle too.
        decision = min(policy.recall_frames, policy.window_size) - len(state.labels)
        if state.phase == "train":
            decision = state.ready - state.frame
        return max(decision, 1) + policy.trial_frames

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
        if phase == "specialized" and compact is not None:
            # An answer of the oracle ahead of its need must not count as a check.
            return self._specialized(oracle if need.oracle or compact == OTHER else None, compact)
        assert oracle is not None
        state.epoch += 1
        state.labels = [*state.labels, oracle][-MOST_LABELS:]
        if phase == "explore":
            self._explore()
        elif phase == "train" and state.frame >= state.ready:
            self._begin_trial()
        elif phase == "trial":
            self._try(oracle, OTHER if compact is None else compact)
        return Decision(oracle, None, phase)

    def fail_training(self) -> None:
        """Report that the expert in training cannot be used: the oracle continues.

        Raises
        ------
        InvalidArgumentError
            The stream has no expert.
        """
        state = self.state
        if state.expert is None:
            raise InvalidArgumentError(
                f"phase must be one with an expert, got {state.phase!r}. "
                "Call fail_training only for an expert that observe() began to train."
            )
        state.experts = [expert for expert in state.experts if expert != state.expert]
        self._explore_again(failures=state.failures + 1)

    def _explore(self) -> None:
        """Recall an expert, or train a new one, if that is worthwhile."""
        state, policy = self.state, self.policy
        if len(state.labels) < min(policy.recall_frames, policy.window_size):
            return
        known = choose_known(policy, state)
        choice = None if known else choose_new(policy, state)
        if known or choice:
            state.epoch = min(len(state.labels), policy.window_size)
            state.review = _GROWTH * policy.window_size
        if known:
            state.expert = known
            self._begin_trial()
        elif choice:
            self._train(choice)

    def _train(self, choice: Choice) -> None:
        state, profile = self.state, self.policy.compacts[choice.compact]
        state.trained += 1
        state.debt = profile.training_seconds
        name, labels = f"{profile.name} {state.trained}", state.labels[-choice.labels :]
        state.expert = Expert(name, choice.compact, choice.dominant, frequencies(labels))
        state.phase, state.ready = "train", state.frame + self.policy.frames_of_training(choice.compact)
        if state.ready == state.frame:
            self._begin_trial()

    def _begin_trial(self) -> None:
        state, policy = self.state, self.policy
        assert state.expert is not None
        state.phase, state.recent, state.hits = "trial", [], 0
        state.entry_skew = policy.skew(share_in(state.labels[-policy.window_size :], state.expert.dominant))
        known = [*(expert for expert in state.experts if expert != state.expert), state.expert]
        state.experts = known[max(len(known) - policy.experts, 0) :]

    def _try(self, oracle: int, compact: int) -> None:
        """Compare the expert with the oracle; use it, or go on exploring."""
        state, policy, expert = self.state, self.policy, self.state.expert
        assert expert is not None
        state.recent.append(compact != OTHER)
        state.hits += compact == oracle
        if len(state.recent) < policy.trial_frames:
            return
        if passes_trial(policy, state, expert):
            state.phase, state.checks, state.burst, state.answered = "specialized", [], 0, 0
            return
        state.refused.append(expert.name)
        is_new = state.ready == state.frame - policy.trial_frames
        self._explore_again(failures=state.failures + is_new)

    def _specialized(self, oracle: int | None, compact: int) -> Decision:
        """Answer with the expert, and end its use if the inputs changed (lines 16 to 25)."""
        state, policy, expert = self.state, self.policy, self.state.expert
        assert expert is not None
        answered = compact != OTHER
        state.answered += answered
        if oracle is not None and answered:
            self._count_check(is_wrong=oracle != compact)
        state.recent = [*state.recent, answered][-_WINDOWS * policy.window_size :]
        decision = Decision(compact if oracle is None else oracle, expert if oracle is None else None, "specialized")
        state.labels = [*state.labels, decision.label][-MOST_LABELS:]
        state.epoch += 1
        if is_over(policy, state, expert):
            state.labels = state.labels[-(silence(state.recent) or policy.recall_frames) :]
            state.refused = []
            self._explore_again(failures=self._count_failures(expert))
        elif policy.refines and state.epoch >= state.review:
            state.review = _GROWTH * state.epoch
            choice = choose_larger(policy, state, expert)
            if choice:
                state.failures = self._count_failures(expert)
                self._train(choice)
        return decision

    def _count_check(self, *, is_wrong: bool) -> None:
        """Count a check; after a wrong answer, the next answers are checked too."""
        state, least = self.state, self.policy.least_checks
        state.checks = [*state.checks, is_wrong][-max(_CHECKS, least) :]
        if state.burst:
            state.burst -= 1
        elif is_wrong:
            state.burst = least - 1

    def _explore_again(self, failures: int) -> None:
        state = self.state
        state.phase, state.expert, state.stable = "explore", None, 0
        state.failures, state.debt = failures, 0.0

    def _count_failures(self, expert: Expert) -> int:
        """Return the number of useless trainings: the answers of such an expert saved less time than it took."""
        state, policy = self.state, self.policy
        saved = state.answered * (policy.seconds - policy.compacts[expert.compact].seconds)
        return state.failures + 1 if saved < state.debt else 0

    def _is_checked(self, frame: int) -> bool:
        """Return whether the oracle checks a frame: a hash decides, so that a replay checks the same ones."""
        digest = hashlib.blake2b(f"{self.policy.seed}:{self._stream}:{frame}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) < self.policy.epsilon * 2**64
