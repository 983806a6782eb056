"""Samplers: where the params of the next configuration come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from optimizer.errors import InvalidArgumentError

from ._arguments import plain, whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ._ledger import Ledger
    from ._trial import Trial

__all__ = ["ListedSampler", "RandomSampler", "Sampler", "Space"]


class Space(Protocol):
    """What procedures need of a search space, as of :class:`optimizer.space.Space`; most need ``sample`` alone."""

    def sample(self, seed: int, number: int) -> Mapping[str, Any]:
        """Draw configuration ``number`` of a seed."""

    def grid(self, points: int | Mapping[str, int] | None = None) -> Sequence[Mapping[str, Any]]:
        """List all configurations, with some points of each continuous dimension."""

    def perturb(
        self,
        params: Mapping[str, Any],
        seed: int,
        number: int,
        *,
        factors: Sequence[float],
        resample: float,
        only: Collection[str] | None = None,
    ) -> Mapping[str, Any]:
        """Change values by a factor or to a neighbour, or draw them anew (PBT), never out of bounds."""

    def mutate(self, params: Mapping[str, Any], seed: int, number: int) -> Mapping[str, Any]:
        """Change one value (aging evolution), never out of bounds."""


class Sampler(ABC):
    """Source of configurations, fit for an optimizer that is asked and told.

    Its calls follow the log of the search, so a sampler that is a function of its seed and of these calls is repeated
    exactly by a replay.
    """

    @abstractmethod
    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any] | None:
        """Suggest the next configuration.

        Parameters
        ----------
        number : int
            How many were suggested before.
        ledger : Ledger
            All configurations so far; to be read only. The next one that starts has this suggestion.

        Returns
        -------
        mapping or None
            Plain data; None where there are no more.
        """

    def hear(self, trial: Trial) -> None:  # noqa: B027 - a sampler need not learn
        """Hear of a trial that has finished epochs, or has ended.

        A trial may come several times with the same number of epochs: only what is new counts.

        Parameters
        ----------
        trial : Trial
        """


class RandomSampler(Sampler):
    """Independent draws from a space: the first k of 2k are the k.

    Parameters
    ----------
    space : Space
    seed : int
        Default 0.

    Raises
    ------
    InvalidArgumentError
        The space cannot be sampled, or the seed is no whole number.
    """

    def __init__(self, space: Space, seed: int = 0) -> None:
        if not callable(getattr(space, "sample", None)):
            raise InvalidArgumentError(f"space={space!r}: a search space, or ListedSampler(configurations)")
        self._space = space
        self._seed = whole("seed", seed, 0)

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any]:  # noqa: ARG002 - draws are independent
        """See :meth:`Sampler.suggest`."""
        return self._space.sample(self._seed, number)


class ListedSampler(Sampler):
    """Given configurations, in their order.

    Parameters
    ----------
    configurations : iterable of mapping

    Raises
    ------
    InvalidArgumentError
        There is none, or one is no plain data.
    """

    def __init__(self, configurations: Iterable[Mapping[str, Any]]) -> None:
        self.configurations = tuple(plain(params) for params in configurations)
        if not self.configurations:
            raise InvalidArgumentError("configurations is empty: give at least one")

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any] | None:  # noqa: ARG002 - they are given
        """See :meth:`Sampler.suggest`."""
        return self.configurations[number] if number < len(self.configurations) else None
