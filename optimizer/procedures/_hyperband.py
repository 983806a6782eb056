"""Hyperband."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.arguments import one_of
from optimizer.procedures._bracket import Bracket
from optimizer.procedures._plan import Plan
from optimizer.procedures._rungs import bracket_rungs, check_rungs, whole_log
from optimizer.procedures._sampled_procedure import Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._sampling import Sampler
    from optimizer.procedures._trial import Trial

__all__ = ["Hyperband"]


class Hyperband(Sampled):
    """Brackets of successive halving, from many configurations of few epochs to few of many (Li et al., 2018).

    Bracket ``s``, from ``s_max = floor(log_eta R)`` down to 0, starts ``n = ceil((s_max + 1) eta^s / (s + 1))``
    configurations; ``floor(n eta^-i)`` of them reach rung ``i``, which is ``floor(R eta^(i - s))`` epochs. With a
    sampler that learns, and the brackets in turn, this is BOHB's loop.

    Parameters
    ----------
    max_epochs : int
        Epochs of the best configurations (R).
    eta : int
        Reduction factor between two rungs. Default 3.
    brackets : {"together", "in turn"}, optional
        ``"together"`` starts all brackets at once, so that no worker waits. ``"in turn"`` starts the next bracket when
        a slot is idle: the default for a sampler that learns, which then knows the earlier brackets.
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        ``max_epochs`` below 1, ``eta`` below 2, or another value that is not allowed.

    Examples
    --------
    The seeds' search (Section A.4.1):

    >>> from optimizer.procedures import ListedSampler
    >>> print(Hyperband(ListedSampler([{"lr": 0.1}]), max_epochs=25, eta=3).plan())
    Hyperband: 17 configurations, 185 epochs in all, at most 25 each
      bracket 2, rung 0: 9 x 2 epochs, up to epoch 2
      bracket 2, rung 1: 3 x 6 epochs, up to epoch 8
      bracket 2, rung 2: 1 x 17 epochs, up to epoch 25
      bracket 1, rung 0: 5 x 8 epochs, up to epoch 8
      bracket 1, rung 1: 1 x 17 epochs, up to epoch 25
      bracket 0, rung 0: 3 x 25 epochs, up to epoch 25
    """

    def __init__(
        self, sampler: Sampler, *, max_epochs: int, eta: int = 3, brackets: str | None = None, **settings: Any
    ) -> None:
        super().__init__(sampler, **settings)
        check_rungs(max_epochs, eta)
        default = "in turn" if sampler.learns else "together"
        self._together = one_of("brackets", brackets or default, ("together", "in turn")) == "together"
        self._brackets = [
            Bracket(f"bracket {number}", bracket_rungs(max_epochs, eta, number))
            for number in range(whole_log(max_epochs, eta), -1, -1)
        ]

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:
        """See :meth:`Procedure.decide`."""
        for bracket in self._brackets:
            if bracket.started:
                bracket.decide(self, fresh)
        for bracket in self._brackets:
            if not bracket.started and (self._together or idle or not self.training):
                bracket.open(self)
                idle = 0

    def plan(self) -> Plan:
        """See :meth:`Procedure.plan`."""
        stages = tuple(stage for bracket in self._brackets for stage in bracket.stages())
        most = self._brackets[0].rungs[-1][1]
        return Plan(
            procedure=type(self).__name__,
            stages=stages,
            epochs_each=most,
            chain=most,
            configurations=sum(bracket.rungs[0][0] for bracket in self._brackets),
            clones=0,
            most_epochs=sum(stage.configurations * stage.epochs for stage in stages),
            limits=self.limits,
            notes=self.notes(*self._order()),
        )

    def _order(self) -> list[str]:
        if not self._together:
            return ["brackets in turn: the next one starts when a slot is idle"]
        return ["brackets together: the sampler draws all before the first has trained"] if self.sampler.learns else []
