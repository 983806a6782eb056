"""``SampledSearch``: base of the searches that draw their configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._search import Search
from optimizer.procedures import RandomSampler
from optimizer.procedures.studies import OptunaSampler
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
        Its complete and pruned trials are known to the sampler from the start. They are copied when the search is made;
        to resume a run, give a study with the same trials.
    **settings
        Of :class:`Search`.
    """

    search_space: Mapping[str, Any] | Space
    sampler: str | optuna.samplers.BaseSampler = _RANDOM
    study: optuna.Study | None = None

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
        return OptunaSampler(self.space, self.sampler, seed=self.seed, study=self.study)
