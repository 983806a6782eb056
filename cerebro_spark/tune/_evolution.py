"""``AgingEvolution``: mutations of the better ones of a population that forgets its oldest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.tune._sampled import SampledSearch
from optimizer import procedures
from udfs.driver import hint_keywords

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AgingEvolution"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class AgingEvolution(SampledSearch):
    """Mutate the best of a random few; the oldest dies, however good (Real et al., regularized evolution, 2019).

    The first ``population`` configurations are random. Each later one changes one value of its parent, and trains from
    new weights: so architectures may change as well.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    population : int
        Parents come from the last so many to have ended; at least 2.
    num_configurations : int
        In all, the first population included.
    num_epochs : int
        Of each.
    sample_size : int
        A parent is the best of so many, drawn with replacement; at most ``population``. Default 2.
    concurrency : int, optional
        Configurations beside each other; by default as many as find a worker idle.
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

    population: int
    num_configurations: int
    num_epochs: int
    sample_size: int = 2
    concurrency: int | None = None

    def procedure(
        self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min"
    ) -> procedures.AgingEvolution:
        """See :meth:`Search.procedure`."""
        return procedures.AgingEvolution(
            self.space,
            population=self.population,
            configurations=self.num_configurations,
            epochs=self.num_epochs,
            sample=self.sample_size,
            concurrency=self.concurrency,
            seed=self.seed,
            **self._rules(metric, mode),
        )
