"""Procedure that trains each configuration of a sampler to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole, whole_or_none
from optimizer.procedures._plan import Plan, Stage
from optimizer.procedures._sampled_procedure import Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._sampling import Sampler
    from optimizer.procedures._trial import Trial

__all__ = ["Sequential"]


class Sequential(Sampled):
    """Train configurations of a sampler for the same number of epochs.

    A sampler that learns is asked for the next configuration as late as possible: when a slot is idle, or with
    ``concurrency`` when one has ended; a concurrency of the number of workers emulates task-parallel HyperOpt (Section
    3.6.3). With stoppers that compare only with finished configurations, the configurations train in waves.

    Parameters
    ----------
    epochs : int
        Epochs of each configuration.
    concurrency : int, optional
        Most configurations that train at the same time. By default all; as many as there are idle slots where the
        sampler learns, or a stopper needs finished configurations.
    **settings
        Settings of :class:`Procedure`: ``metric``, ``mode``, ``stoppers``, ``limits``.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Examples
    --------
    >>> from optimizer.procedures import EpochResult, ListedSampler
    >>> rates = ListedSampler([{"lr": 0.1}, {"lr": 0.01}])
    >>> search = Sequential(rates, configurations=2, epochs=1, concurrency=1)
    >>> search.ask()
    [Start(trial_id='c000', params={'lr': 0.1}, epochs=1, source=None, reason='')]
    >>> for decision in search.ask([EpochResult("c000", 1, {"loss": 0.7})]):
    ...     print(decision)
    Stop(trial_id='c000', reason='finished its 1 epochs')
    Start(trial_id='c001', params={'lr': 0.01}, epochs=1, source=None, reason='')
    """

    def __init__(
        self, sampler: Sampler, *, configurations: int, epochs: int, concurrency: int | None = None, **settings: Any
    ) -> None:
        super().__init__(sampler, **settings)
        self.configurations = whole("configurations", configurations)
        self.epochs = whole("epochs", epochs)
        self.concurrency = whole_or_none("concurrency", concurrency, why="None trains all at the same time.")

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:
        """See :meth:`Procedure.decide`."""
        for trial in fresh:
            if trial.waiting:
                self.stop(trial, f"finished its {self.epochs if trial.cut else trial.granted} epochs")
        free = self.configurations if self.concurrency is None else self.concurrency - self.training
        if self.concurrency is None and self.draws_late:
            free = idle
        while self.started < self.configurations and (free > 0 or not self.training):
            if self.draw(self.epochs_of(self.drawn)) is None:
                break
            free -= 1

    def plan(self) -> Plan:
        """See :meth:`Procedure.plan`."""
        count = min(self.configurations, self.limits.max_configurations or self.configurations)
        waves = -(-count // (self.concurrency or count))
        return Plan(
            procedure=type(self).__name__,
            stages=self.stages(count),
            epochs_each=self.epochs,
            chain=waves * self.epochs,
            configurations=count,
            clones=0,
            most_epochs=sum(stage.configurations * stage.epochs for stage in self.stages(count)),
            concurrency=self.concurrency,
            limits=self.limits,
            notes=self.notes(*self._order()),
        )

    def epochs_of(self, number: int) -> int:
        """Return the epochs of a configuration of the sampler, by its number from 0."""
        return self.epochs

    def stages(self, count: int) -> tuple[Stage, ...]:
        """Lay out the first configurations."""
        return (Stage("all", count, self.epochs, self.epochs),)

    def _order(self) -> list[str]:
        late = self.concurrency is None and self.sampler.learns
        return ["the next one starts when a slot is idle"] if late else []

    def comparison(self, rules: str) -> str:
        """See :meth:`Sampled.comparison`."""
        size = "as many as there are idle slots" if self.concurrency is None else f"{self.concurrency} at the same time"
        return f"in waves, {size}: {rules} compares with finished configurations"
