"""``RandomSearch``: configurations drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.tune._sampled import SampledSearch
from optimizer import procedures
from udfs.driver import hint_keywords

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RandomSearch"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class RandomSearch(SampledSearch):
    """Train configurations that a sampler draws, at random by default, each for the same number of epochs.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    sampler, study, study_trials
        Of :class:`SampledSearch`: who draws the configurations, ``"random"`` by default or ``"tpe"``.
    num_configurations : int
        The first are those of a smaller search.
    num_epochs : int
        Of each.
    concurrency : int, optional
        Most configurations beside each other; by default all, or as many as find a worker idle where the sampler learns
        or a stopper compares with configurations that have come to the end.
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
    >>> search = RandomSearch(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": log_uniform(1e-5, 1e-1), "batch": choice([32, 128])},
    ...     num_configurations=8,
    ...     num_epochs=5,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> search.plan().epochs
    40
    """

    num_configurations: int
    num_epochs: int
    concurrency: int | None = None

    def procedure(
        self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min"
    ) -> procedures.Sequential:
        """See :meth:`Search.procedure`."""
        sampler = self._sampler()
        settings = {
            "configurations": self.num_configurations,
            "epochs": self.num_epochs,
            "concurrency": self.concurrency,
            **self._rules(metric, mode),
        }
        if isinstance(sampler, procedures.RandomSampler):
            return procedures.RandomSearch(self.space, seed=self.seed, **settings)
        return procedures.Sequential(sampler, **settings)
