"""Procedure that trains a list of configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._plan import Stage
from optimizer.procedures._sampling import ListedSampler
from optimizer.procedures._sequential import Sequential

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Listed"]


class Listed(Sequential):
    """Train the configurations of a list, each for a common or an individual number of epochs.

    Parameters
    ----------
    epochs : int or sequence of int
        Epochs of all configurations, or of each.
    concurrency : int, optional
        Most configurations that train at the same time; by default all.
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        There is no configuration, one is not plain data, or the numbers of epochs and configurations differ.

    Examples
    --------
    >>> rates = [{"lr": 0.1}, {"lr": 0.01}]
    >>> [(start.params["lr"], start.epochs) for start in Listed(rates, epochs=[5, 10]).ask()]
    [(0.1, 5), (0.01, 10)]
    """

    def __init__(
        self,
        configurations: Iterable[Mapping[str, Any]],
        *,
        epochs: int | Sequence[int],
        concurrency: int | None = None,
        **settings: Any,
    ) -> None:
        sampler = ListedSampler(configurations)
        count = len(sampler.configurations)
        each = [whole("epochs", number) for number in epochs] if isinstance(epochs, Sequence) else [epochs] * count
        if len(each) != count:
            raise InvalidArgumentError(
                f"epochs must have a number for each of the {count} configurations, got {len(each)}"
            )
        super().__init__(sampler, configurations=count, epochs=max(each), concurrency=concurrency, **settings)
        self._each = each

    def epochs_of(self, number: int) -> int:
        """See :meth:`Sequential.epochs_of`."""
        return self._each[number]

    def stages(self, count: int) -> tuple[Stage, ...]:
        """See :meth:`Sequential.stages`."""
        by_epochs = Counter(self._each[:count])
        if len(by_epochs) == 1:
            return super().stages(count)
        return tuple(Stage(f"of {epochs} epochs", by_epochs[epochs], epochs, epochs) for epochs in sorted(by_epochs))
