"""Decision by measurement whether sessions of an architecture train as a stack or one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["StackDecision"]

# Rounds of measurement, each of some steps one by one and as many as a stack; the fastest of each count.
_ROUNDS = 3

# The first round also loads code and compares results: it is not measured.
_WARM_UP = 1

# A stack that is slower by this factor in one round needs no further round.
_HOPELESS = 1.3

# A stack that is faster by less may be slower on the next shard.
_MARGIN = 1.05


@dataclass(slots=True)
class StackDecision:
    """Times of both ways to train the sessions of an architecture, and the choice.

    Parameters
    ----------
    models : int
        Number of models that train together.
    refusal : str
        Reason to train one by one whatever the times are, such as an operation without a batched form. Default ``""``.

    Examples
    --------
    >>> decision = StackDecision(8)
    >>> for _ in range(4):
    ...     decision.record(alone=0.8, stacked=0.2, setup=0.01)
    >>> decision.is_stacked(steps=10), decision.is_stacked(steps=1)
    (True, True)
    >>> print(decision.explain())
    a stack of 8 models: 100 ms a step and model one by one, 25 ms as a stack, 4.0 times as fast
    """

    models: int
    refusal: str = ""
    _alone: list[float] = field(default_factory=list)
    _stacked: list[float] = field(default_factory=list)
    _setups: list[float] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """True as long as more rounds of measurement are due."""
        return not self.refusal and len(self._alone) < _WARM_UP + _ROUNDS and not self._is_slow

    @property
    def _is_slow(self) -> bool:
        """True if a round leaves no doubt that the stack is slower, so that more rounds would cost time."""
        return any(stacked > _HOPELESS * alone for alone, stacked in self._rounds())

    @property
    def is_first_round(self) -> bool:
        """True before the first round, which compares the results."""
        return not self._alone

    def record(self, *, alone: float, stacked: float, setup: float) -> None:
        """Record a round of measurement.

        Parameters
        ----------
        alone, stacked : float
            Seconds of a step of all models, one by one and as a stack.
        setup : float
            Seconds in which a unit copies states into the stack and back.
        """
        self._alone.append(alone)
        self._stacked.append(stacked)
        self._setups.append(setup)

    def is_stacked(self, steps: int) -> bool:
        """Return whether a unit of a number of steps is faster as a stack."""
        if self.is_open or self.refusal:
            return False
        alone, stacked, setup = self._times()
        return alone * steps >= _MARGIN * (stacked * steps + setup)

    def explain(self) -> str:
        """Describe the decision in a line."""
        if self.refusal:
            return f"one by one: {self.refusal}"
        if self.is_open:
            return "not measured yet"
        alone, stacked, _ = (1000 * seconds / self.models for seconds in self._times())
        return (
            f"a stack of {self.models} models: {alone:.3g} ms a step and model one by one, "
            f"{stacked:.3g} ms as a stack, {alone / stacked:.1f} times as fast"
        )

    def _times(self) -> tuple[float, float, float]:
        alone, stacked = zip(*self._rounds(), strict=True)
        return min(alone), min(stacked), min(self._setups[_WARM_UP:])

    def _rounds(self) -> list[tuple[float, float]]:
        return list(zip(self._alone[_WARM_UP:], self._stacked[_WARM_UP:], strict=True))
