"""``PBT``: population-based training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.tune._sampled import SampledSearch
from optimizer import procedures
from udfs.driver import hint_keywords

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["PBT"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class PBT(SampledSearch):
    """Train a population; now and then its worst members go on as changed clones of its best (Jaderberg et al., 2017).

    A clone takes over weights, buffers, the optimizer's moments and step counts from the last finished epoch of its
    source; its hyperparameters are new ones, and its random numbers those of its own seed. What shapes the network
    cannot change in a clone: name the others in ``only``.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    population : int
        Members at any time, at least 2.
    num_epochs : int
        Of each member, along its lineage.
    ready : int
        Epochs between decisions. Default 1.
    quantile : float
        Share of the members that are replaced, and share of those that are cloned: above 0, at most 0.5. Default 0.25.
    resample : float
        Probability from 0 to 1 that a value of a clone is drawn anew, not multiplied by a factor. Default 0.25.
    factors : sequence of float
        Default 0.8 and 1.2.
    only : collection of str, optional
        Names of the values that change. By default all.
    generations : {"together", "rolling"}
        Decide once all members are ready (``"together"``, the default), so that the result does not depend on their
        speed; or about each as soon as it is ready.
    **settings
        Of :class:`Search`.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or there is no such parameter.
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

    population: int
    num_epochs: int
    ready: int = 1
    quantile: float = 0.25
    resample: float = 0.25
    factors: Sequence[float] = (0.8, 1.2)
    only: Collection[str] | None = None
    generations: str = "together"

    def procedure(self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min") -> procedures.PBT:
        """See :meth:`Search.procedure`."""
        return procedures.PBT(
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
            **self._rules(metric, mode),
        )
