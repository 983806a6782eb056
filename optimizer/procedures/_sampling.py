"""Samplers: where the params of the next configuration come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._plain import plain
from optimizer.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._objectives import Objective
    from optimizer.procedures._trial import Trial

__all__ = ["ListedSampler", "RandomSampler", "Sampler", "check_space"]


def check_space(space: Any) -> Space:
    """Check that a value is a search space."""
    if not isinstance(space, Space):
        raise InvalidArgumentError(f'space={space!r}: a Space, as Space({{"lr": log_uniform(1e-5, 1e-1)}})')
    return space


class Sampler(ABC):
    """Source of configurations, fit for an optimizer that is asked and told.

    Its calls follow the log of the search, so a sampler that is a function of its seed and of these calls is repeated
    exactly by a replay.

    Attributes
    ----------
    learns : bool
        Whether a suggestion depends on what others have measured: a procedure draws it as late as it can.
    notes : tuple of str
        Sentences for the plan.
    """

    learns = False
    notes: tuple[str, ...] = ()

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

    def admit(self, objectives: Sequence[Objective]) -> None:  # noqa: B027 - a sampler need not know them
        """Refuse a search that it cannot sample for, before anything starts.

        Parameters
        ----------
        objectives : sequence of Objective
            Of the search.

        Raises
        ------
        InvalidArgumentError
            It cannot.
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
        It is no space, or the seed is no whole number.
    """

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._space = check_space(space)
        self._seed = whole("seed", seed, 0)

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any]:  # draws are independent
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

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any] | None:  # they are given
        """See :meth:`Sampler.suggest`."""
        return self.configurations[number] if number < len(self.configurations) else None
