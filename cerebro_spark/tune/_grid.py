"""Grid search: every configuration of a search space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._search import Search
from cerebro_spark.tune._space import grid
from cerebro_spark.tune._strategy import Strategy
from optimizer.procedures import Listed
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.space import Space

__all__ = ["GridSearch"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class GridSearch(Search):
    """Train every configuration of a search space for the same number of epochs.

    All settings of :class:`Search` are keyword arguments too.

    Parameters
    ----------
    search_space : mapping of str to sequence, sequence of mapping, or Space
        Values by name, or the configurations themselves, as plain data: strings, numbers, lists. A
        :class:`optimizer.space.Space`, which may have branches, needs domains that can be listed.
    num_epochs : int
        Number of epochs of each configuration.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or the search has no such parameter.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> search = GridSearch(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": [1e-2, 1e-3], "hidden": [32, 64]},
    ...     num_epochs=5,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> len(search.configurations)
    4
    """

    search_space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Space
    num_epochs: int

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """The params of each configuration."""
        return grid(self.search_space)

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        if isinstance(self.num_epochs, bool) or not isinstance(self.num_epochs, int) or self.num_epochs < 1:
            raise InvalidArgumentError(f"num_epochs must be a positive integer, got {self.num_epochs!r}")
        configurations = self.configurations
        return Strategy(partial(Listed, configurations, epochs=self.num_epochs), lambda: configurations)
