"""``GridSearch``: every configuration of a search space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._search import Search
from cerebro_spark.tune._space import grid
from optimizer.procedures import Listed
from udfs.driver import hint_keywords

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.space import Space

__all__ = ["GridSearch"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class GridSearch(Search):
    """Train every configuration of a search space for the same number of epochs.

    Parameters
    ----------
    search_space : mapping of str to sequence, sequence of mapping, or Space
        Values by name, or the configurations themselves. Plain data: strings, numbers, lists. Or an
        :class:`optimizer.space.Space` whose domains can be listed, with branches for example.
    num_epochs : int
    **settings
        Of :class:`Search`.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or there is no such parameter.
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

    def procedure(self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min") -> Listed:
        """See :meth:`Search.procedure`."""
        if isinstance(self.num_epochs, bool) or not isinstance(self.num_epochs, int) or self.num_epochs < 1:
            raise InvalidArgumentError(f"num_epochs={self.num_epochs!r}: a whole number from 1 on")
        return Listed(
            self.configurations,
            epochs=self.num_epochs,
            **self._rules(metric, mode),
        )

    def sample(self) -> dict[str, Any]:
        """See :meth:`Search.sample`."""
        return self.configurations[0]

    def _configs(self) -> list[dict[str, Any]]:
        return self.configurations
