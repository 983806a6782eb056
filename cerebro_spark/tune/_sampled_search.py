"""Settings of the searches whose configurations a sampler draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._search import Search
from cerebro_spark.tune._strategy import Strategy, as_space
from optimizer.procedures import RandomSampler
from optimizer.procedures.studies import OptunaSampler, ended_trials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import optuna

    from optimizer.procedures import Procedure, Sampler
    from optimizer.space import Space

__all__ = ["SampledSearch"]


@dataclass(kw_only=True, eq=False)
class SampledSearch(Search):
    """Search whose configurations a sampler draws from a search space; :class:`RandomSearch` documents its fields."""

    search_space: Mapping[str, Any] | Space
    sampler: str | optuna.samplers.BaseSampler = "random"
    study: optuna.Study | None = None
    study_trials: int | None = None

    def __post_init__(self) -> None:
        if self.study is not None and self.study_trials is None:
            self.study_trials = len(ended_trials(self.study))
        super().__post_init__()

    @property
    def space(self) -> Space:
        """The search space."""
        return as_space(self.search_space)

    def _sampled(self, make: Callable[..., Procedure], **settings: Any) -> Strategy:
        """Return the strategy of a procedure whose first argument is a sampler."""

        def procedure(**rules: Any) -> Procedure:
            return make(self._sampler(), **settings, **rules)

        return Strategy(procedure, lambda: [self.space.sample(self.seed, 0)])

    def _sampler(self) -> Sampler:
        """Return a new sampler of configurations."""
        if self.sampler != "random":
            return OptunaSampler(
                self.space, self.sampler, seed=self.seed, study=self.study, study_trials=self.study_trials
            )
        if self.study is not None:
            raise InvalidArgumentError(
                'sampler must learn from the trials of study, got "random". Give sampler="tpe", or leave study out'
            )
        return RandomSampler(self.space, self.seed)
