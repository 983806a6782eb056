"""Aging evolution."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import whole, whole_or_none
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._decisions import Source
from optimizer.procedures._plan import Plan, Stage
from optimizer.procedures._sampled_procedure import Sampled
from optimizer.procedures._sampling import RandomSampler
from optimizer.procedures._trial import WORST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures._trial import Trial
    from optimizer.space import Space

__all__ = ["AgingEvolution"]

# Changes of a parent that are drawn until one was not trained before.
_ATTEMPTS = 100


class AgingEvolution(Sampled):
    """Mutate the best of a random sample, and drop the oldest (Real et al., regularized evolution, 2019).

    The first ``population`` configurations are random. Each later one changes one value of its parent, the best of
    ``sample`` that are drawn with replacement from the last ``population`` to have ended. A change that makes a
    configuration that was trained before is drawn again, unless all of a hundred do.

    Parameters
    ----------
    population : int
        Number of possible parents, at least 2.
    configurations : int
        Total number, with the first population.
    epochs : int
        Epochs of each configuration.
    sample : int
        Configurations among which the parent is the best; at most ``population``. Default 2.
    inherit_weights : bool
        Whether a changed configuration begins with the weights of its parent's last epoch that fit its network, and
        not with new ones. The parent has to have finished an epoch with a finite metric. Default False.
    concurrency : int, optional
        Configurations that train at the same time. By default as many as there are idle slots.
    seed : int
        Seed of samples and mutations. Default 0.
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.
    """

    def __init__(
        self,
        space: Space,
        *,
        population: int,
        configurations: int,
        epochs: int,
        sample: int = 2,
        inherit_weights: bool = False,
        concurrency: int | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(RandomSampler(space, seed), **settings)
        self._space = space
        self.population = whole("population", population, 2, "A parent is the best of several members.")
        self.configurations = whole("configurations", configurations)
        if configurations < population:
            raise InvalidArgumentError(
                f"configurations must be at least population={population}, the random first ones, got {configurations}"
            )
        self.epochs = whole("epochs", epochs)
        self.sample = whole("sample", sample)
        if sample > population:
            raise InvalidArgumentError(f"sample must be at most population={population}, got {sample}")
        self.inherit_weights = inherit_weights
        self.concurrency = whole_or_none("concurrency", concurrency, why="None trains as many as there are idle slots.")
        self._seed = whole("seed", seed, 0)
        self._parents: deque[Trial] = deque(maxlen=population)

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:
        """See :meth:`Procedure.decide`."""
        for trial in fresh:
            if trial.waiting:
                self.stop(trial, f"finished its {self.epochs} epochs")
            if not trial.competes:
                self._parents.append(trial)
        free = idle if self.concurrency is None else self.concurrency - self.training
        while self.started < self.configurations and (free > 0 or not self.training):
            if self._open() is None:
                break
            free -= 1

    def _open(self) -> Trial | None:
        number = self.started
        if number < self.population:
            return self.draw(self.epochs, "one of the first population")
        if not self._parents:
            return None
        places = np.random.default_rng([self._seed, number]).integers(len(self._parents), size=self.sample)
        drawn = {self._parents[place] for place in places.tolist()}
        # Ranks within the whole population: with several objectives, most pairs do not dominate each other.
        parent = next(trial for trial in self.ledger.ranked(self._parents) if trial in drawn)
        inherits = self.inherit_weights and parent.score > WORST
        source = Source(parent.trial_id, parent.finished, weights_only=True) if inherits else None
        params = self._mutation(parent, number)
        return self.start(params, self.epochs, source=source, reason=f"mutation of {parent.trial_id}")

    def _mutation(self, parent: Trial, number: int) -> dict[str, Any]:
        """Return a change of the parent that was not trained before; in a small space it may have been."""
        trained = [trial.params for trial in self.ledger]
        # Numbers beyond those of the configurations, so that no other change has the same draws.
        numbers = range(number, number + _ATTEMPTS * self.configurations, self.configurations)
        mutations = (self._space.mutate(parent.params, self._seed, each) for each in numbers)
        first = next(mutations)
        return next((params for params in chain([first], mutations) if params not in trained), first)

    def plan(self) -> Plan:
        """See :meth:`Procedure.plan`."""
        later = self.configurations - self.population
        stages = [Stage("first population", self.population, self.epochs, self.epochs)]
        if later:
            stages.append(Stage("mutations", later, self.epochs, self.epochs))
        waves = 1 if self.concurrency is None else -(-self.configurations // self.concurrency)
        return Plan(
            procedure=type(self).__name__,
            stages=tuple(stages),
            epochs_each=self.epochs,
            chain=self.epochs * max(waves, 1 + bool(later)),
            configurations=self.configurations,
            clones=0,
            most_epochs=self.configurations * self.epochs,
            concurrency=self.concurrency,
            limits=self.limits,
            notes=("mutations begin with the weights of their parents that fit",) if self.inherit_weights else (),
        )
