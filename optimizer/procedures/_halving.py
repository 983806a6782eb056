"""Successive halving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole
from optimizer.procedures._bracket import Bracket
from optimizer.procedures._plan import Plan
from optimizer.procedures._rungs import check_rungs, rung_epochs, whole_log
from optimizer.procedures._sampled_procedure import Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._sampling import Sampler
    from optimizer.procedures._trial import Trial

__all__ = ["SuccessiveHalving"]


class SuccessiveHalving(Sampled):
    """Train many configurations for a few epochs, and the best 1 / ``eta`` of each rung further.

    The rungs end with ``max_epochs`` and become fewer by ``eta`` downwards, while at least ``min_epochs`` remain and
    the configurations suffice (Jamieson and Talwalkar, 2016). A promoted configuration goes on from what it has
    trained.

    Parameters
    ----------
    max_epochs : int
        Epochs of the configurations that reach the last rung (R).
    min_epochs : int
        Fewest epochs of the first rung (r). Default 1.
    eta : int
        Reduction factor between two rungs. Default 3.
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Examples
    --------
    >>> from optimizer.procedures import ListedSampler
    >>> rates = ListedSampler({"lr": 10.0**-power} for power in range(9))
    >>> print(SuccessiveHalving(rates, configurations=9, max_epochs=9).plan())
    SuccessiveHalving: 9 configurations, 21 epochs in all, at most 9 each
      rung 0: 9 x 1 epochs, up to epoch 1
      rung 1: 3 x 2 epochs, up to epoch 3
      rung 2: 1 x 6 epochs, up to epoch 9
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        configurations: int,
        max_epochs: int,
        min_epochs: int = 1,
        eta: int = 3,
        **settings: Any,
    ) -> None:
        super().__init__(sampler, **settings)
        check_rungs(max_epochs, eta, min_epochs)
        whole("configurations", configurations)
        top = min(whole_log(max_epochs // min_epochs, eta), whole_log(configurations, eta))
        reached = rung_epochs(max_epochs, eta, top)
        self._bracket = Bracket("", [(configurations // eta**rung, epochs) for rung, epochs in enumerate(reached)])

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:  # the number is set
        """See :meth:`Procedure.decide`."""
        if self._bracket.started:
            self._bracket.decide(self, fresh)
        else:
            self._bracket.open(self)

    def plan(self) -> Plan:
        """See :meth:`Procedure.plan`."""
        stages = self._bracket.stages()
        return Plan(
            procedure=type(self).__name__,
            stages=stages,
            epochs_each=stages[-1].reaches,
            chain=stages[-1].reaches,
            configurations=stages[0].configurations,
            clones=0,
            most_epochs=sum(stage.configurations * stage.epochs for stage in stages),
            limits=self.limits,
            notes=self.notes(
                *(["the sampler draws all configurations before the first has trained"] if self.sampler.learns else [])
            ),
        )
