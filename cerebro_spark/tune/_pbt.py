"""Population-based training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.tune._search import Search
from cerebro_spark.tune._strategy import Strategy, as_space
from optimizer import procedures
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from optimizer.space import Space

__all__ = ["PBT"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class PBT(Search):
    """Train a population; now and then its worst members go on as changed clones of its best (Jaderberg et al., 2017).

    A clone takes over weights, buffers, the optimizer's moments and step counts from the last finished epoch of its
    source; its hyperparameters are new ones, and its random numbers those of its own seed. What shapes the network
    cannot change in a clone: name the others in ``only``.

    All settings of :class:`Search` are keyword arguments too.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    population : int
        Number of members at any time, at least 2.
    num_epochs : int
        Number of epochs of each member, along its lineage.
    ready : int
        Number of epochs between decisions. Default 1.
    quantile : float
        Share of the members that are replaced, which is also the share that is cloned: above 0, at most 0.5. Default
        0.25.
    resample : float
        Probability from 0 to 1 that a value of a clone is drawn anew instead of multiplied by a factor. Default 0.25.
    factors : sequence of float
        Factors by which values of a clone change. Default 0.8 and 1.2.
    only : collection of str, optional
        Names of the values that change. By default all.
    generations : {"together", "rolling"}
        Time of the decisions: once all members are ready (``"together"``, the default), so that the result does not
        depend on their speed; or about each member as soon as it is ready (``"rolling"``).

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or the search has no such parameter.
    SpaceError
        The space has no dimension of a name in ``only``.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> from optimizer.space import log_uniform
    >>> search = PBT(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": log_uniform(1e-5, 1e-1), "hidden": 64},
    ...     population=8,
    ...     num_epochs=10,
    ...     only=["lr"],
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> search.plan().configurations, search.plan().clones
    (8, 18)
    """

    search_space: Mapping[str, Any] | Space
    population: int
    num_epochs: int
    ready: int = 1
    quantile: float = 0.25
    resample: float = 0.25
    factors: Sequence[float] = (0.8, 1.2)
    only: Collection[str] | None = None
    generations: str = "together"

    @property
    def space(self) -> Space:
        """The search space."""
        return as_space(self.search_space)

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        return Strategy(
            partial(
                procedures.PBT,
                self.space,
                population=self.population,
                epochs=self.num_epochs,
                ready=self.ready,
                quantile=self.quantile,
                resample=self.resample,
                factors=self.factors,
                only=self.only,
                generations=self.generations,
                seed=self.seed,
            ),
            lambda: [self.space.sample(self.seed, 0)],
        )
