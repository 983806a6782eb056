"""Aging evolution: mutations of the better members of a population whose oldest members leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.tune._search import Search
from cerebro_spark.tune._strategy import Strategy, as_space
from optimizer import procedures
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.space import Space

__all__ = ["AgingEvolution"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class AgingEvolution(Search):
    """Mutate the best of some random members; the oldest member leaves (Real et al., regularized evolution, 2019).

    The first ``population`` configurations are random. Each later one changes one value of its parent. It trains from
    new weights, or with ``inherit_weights`` from those of its parent that fit, so architectures may change as well.

    All settings of :class:`Search` are keyword arguments too.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    population : int
        Size of the population, the configurations that ended last; parents come from it. At least 2.
    num_configurations : int
        Number of configurations, the first population included.
    num_epochs : int
        Number of epochs of each configuration.
    sample_size : int
        Number of members that are drawn with replacement, of which the best becomes a parent; at most ``population``.
        Default 2.
    inherit_weights : bool
        Whether a changed configuration begins with the weights of its parent: those with equal names and numbers of
        axes, and of tensors of another size the part that both have. Other weights and the optimizer are new.
        :attr:`TrialResult.inherited` counts the tensors. Default false.
    concurrency : int, optional
        Largest number of configurations at a time. By default a configuration starts whenever a worker is idle.

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
    >>> from optimizer.space import choice, log_uniform
    >>> search = AgingEvolution(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": log_uniform(1e-5, 1e-1), "layers": choice([1, 2, 3])},
    ...     population=10,
    ...     num_configurations=40,
    ...     num_epochs=3,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ... )
    >>> search.plan().configurations
    40
    """

    search_space: Mapping[str, Any] | Space
    population: int
    num_configurations: int
    num_epochs: int
    sample_size: int = 2
    inherit_weights: bool = False
    concurrency: int | None = None

    @property
    def space(self) -> Space:
        """The search space."""
        return as_space(self.search_space)

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        return Strategy(
            partial(
                procedures.AgingEvolution,
                self.space,
                population=self.population,
                configurations=self.num_configurations,
                epochs=self.num_epochs,
                sample=self.sample_size,
                inherit_weights=self.inherit_weights,
                concurrency=self.concurrency,
                seed=self.seed,
            ),
            lambda: [self.space.sample(self.seed, 0)],
        )
