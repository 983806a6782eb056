"""``SampledSearch``: base of the searches that draw their configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.tune._search import Search
from optimizer.procedures import RandomSampler
from optimizer.space import Space

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SampledSearch"]


@dataclass(kw_only=True, eq=False)
class SampledSearch(Search):
    """Base of the searches that draw their configurations at random from a search space.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    **settings
        Of :class:`Search`.
    """

    search_space: Mapping[str, Any] | Space

    @property
    def space(self) -> Space:
        """The search space."""
        return self.search_space if isinstance(self.search_space, Space) else Space(self.search_space)

    def sample(self) -> dict[str, Any]:
        """See :meth:`Search.sample`."""
        return self.space.sample(self.seed, 0)

    def _sampler(self) -> RandomSampler:
        return RandomSampler(self.space, self.seed)
