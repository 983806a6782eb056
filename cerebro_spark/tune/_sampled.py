"""``SampledSearch``: base of the searches that draw their configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._search import Search
from optimizer.procedures import RandomSampler
from optimizer.procedures.studies import OptunaSampler, ended_trials
from optimizer.space import Space

if TYPE_CHECKING:
    from collections.abc import Mapping

    import optuna

    from optimizer.procedures import Sampler

__all__ = ["SampledSearch"]

_RANDOM = "random"


@dataclass(kw_only=True, eq=False)
class SampledSearch(Search):
    """Base of the searches that draw their configurations from a search space.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    sampler : str or optuna.samplers.BaseSampler
        Who draws: ``"random"`` (default); ``"tpe"`` or ``"nsgaii"``, which learn from the configurations before, with
        the search's seed; or a sampler of Optuna with a seed of its own.
    study : optuna.Study, optional
        Its complete and pruned trials are known to the sampler from the start: a study of the same hyperparameters,
        such as :meth:`Selection.study` of an earlier search.
    study_trials : int, optional
        How many of them, in the order in which they ended. By default all that there are when the search is made. To
        resume a run whose study has grown since, give the number that the run began with.
    **settings
        Of :class:`Search`.
    """

    search_space: Mapping[str, Any] | Space
    sampler: str | optuna.samplers.BaseSampler = _RANDOM
    study: optuna.Study | None = None
    study_trials: int | None = None

    def __post_init__(self) -> None:
        if self.study is not None and self.study_trials is None:
            self.study_trials = len(ended_trials(self.study))
        super().__post_init__()

    @property
    def space(self) -> Space:
        """The search space."""
        return self.search_space if isinstance(self.search_space, Space) else Space(self.search_space)

    def sample(self) -> dict[str, Any]:
        """See :meth:`Search.sample`."""
        return self.space.sample(self.seed, 0)

    def _sampler(self) -> Sampler:
        if self.sampler == _RANDOM:
            if self.study is not None:
                raise InvalidArgumentError('study: a random sampler learns from no trials; with it, sampler="tpe"')
            return RandomSampler(self.space, self.seed)
        return OptunaSampler(self.space, self.sampler, seed=self.seed, study=self.study, study_trials=self.study_trials)
