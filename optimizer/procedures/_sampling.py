"""Samplers, which suggest the params of the next configuration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._plain_data import plain
from optimizer.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._objectives import Objective
    from optimizer.procedures._trial import Trial

__all__ = ["ListedSampler", "RandomSampler", "Sampler", "check_space"]


def check_space(space: Any) -> Space:
    """Validate a search space."""
    if not isinstance(space, Space):
        raise InvalidArgumentError(
            f'space must be a Space, such as Space({{"lr": log_uniform(1e-5, 1e-1)}}), got {space!r}'
        )
    return space


class Sampler(ABC):
    """Source of configurations, with the ask and tell interface of an optimizer.

    Its calls follow the log of the search, so a replay repeats a sampler exactly that depends only on its seed and on
    these calls.

    Attributes
    ----------
    learns : bool
        True if a suggestion depends on earlier results: a procedure then draws it as late as possible.
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
            Number of earlier suggestions.
        ledger : Ledger
            Configurations so far, for reading only. The next one that starts has this suggestion.

        Returns
        -------
        mapping or None
            Configuration as plain data; None where there are no more.
        """

    def admit(self, objectives: Sequence[Objective]) -> None:  # noqa: B027 - a sampler need not know them
        """Validate the objectives of a search before it starts.

        Raises
        ------
        InvalidArgumentError
            The sampler does not support them.
        """

    def hear(self, trial: Trial) -> None:  # noqa: B027 - a sampler need not learn
        """Observe a trial that has finished epochs or has ended.

        The same trial may come several times with the same number of epochs.
        """


class RandomSampler(Sampler):
    """Independent random draws from a space.

    Parameters
    ----------
    seed : int
        Seed of the draws. Default 0.

    Raises
    ------
    InvalidArgumentError
        ``space`` is not a space, or ``seed`` is not an integer.
    """

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._space = check_space(space)
        self._seed = whole("seed", seed, 0)

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any]:  # draws are independent
        """See :meth:`Sampler.suggest`."""
        return self._space.sample(self._seed, number)


class ListedSampler(Sampler):
    """Configurations of a list, in their order.

    Raises
    ------
    InvalidArgumentError
        There is none, or one is not plain data.
    """

    def __init__(self, configurations: Iterable[Mapping[str, Any]]) -> None:
        self.configurations = tuple(plain(params) for params in configurations)
        if not self.configurations:
            raise InvalidArgumentError("configurations must have at least one configuration, got none")

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any] | None:  # they are given
        """See :meth:`Sampler.suggest`."""
        return self.configurations[number] if number < len(self.configurations) else None
