"""``ASHA``: successive halving that waits for nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._sampled import SampledSearch
from optimizer import procedures
from udfs.driver import hint_keywords

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ASHA"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class ASHA(SampledSearch):
    """Promote a configuration as soon as it is among the best 1 / ``eta`` that have reached its rung (Li et al., 2020).

    The search has no end of its own: give ``max_configurations``, ``max_total_epochs``, ``max_seconds`` or
    ``max_cost``.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    sampler, study, study_trials
        Of :class:`SampledSearch`: who draws the configurations, ``"random"`` by default or ``"tpe"``.
    max_epochs : int
        Of the last rung (R).
    min_epochs : int
        Fewest epochs of the first rung (r). Default 1.
    eta : int
        Default 3.
    rungs : {"milestones", "additive"}
        Epochs in all at each rung, 1, 3 and 9 (the default), or epochs that each rung adds, 1 + 3 + 9, as in the seeds.
    concurrency : int, optional
        Configurations beside each other; by default as many as find a worker idle.
    schedule : str
        As of :class:`Search`; default ``"longest-remaining-elsewhere"``.
    **settings
        Of :class:`Search`.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, there is no limit, or there is no such parameter.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> from optimizer.space import choice, log_uniform
    >>> search = ASHA(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": log_uniform(1e-5, 1e-1), "batch": choice([32, 128])},
    ...     max_epochs=9,
    ...     max_configurations=20,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> search.plan().epochs_each
    9
    """

    max_epochs: int
    min_epochs: int = 1
    eta: int = 3
    rungs: str = "milestones"
    concurrency: int | None = None
    # New configurations would keep the last rung waiting, and no limit of configurations ends that.
    schedule: str = "longest-remaining-elsewhere"

    def procedure(self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min") -> procedures.ASHA:
        """See :meth:`Search.procedure`."""
        limits = (self.max_configurations, self.max_total_epochs, self.max_seconds, self.max_cost)
        if all(limit is None for limit in limits):
            raise InvalidArgumentError(
                "ASHA starts configurations as long as it may: give max_configurations, max_total_epochs, "
                "max_seconds or max_cost"
            )
        return procedures.ASHA(
            self._sampler(),
            max_epochs=self.max_epochs,
            min_epochs=self.min_epochs,
            eta=self.eta,
            rungs=self.rungs,
            concurrency=self.concurrency,
            **self._rules(metric, mode),
        )
