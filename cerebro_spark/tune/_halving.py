"""``SuccessiveHalving``: the better part of the configurations goes on, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.tune._sampled import SampledSearch
from optimizer import procedures
from udfs.driver import hint_keywords

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SuccessiveHalving"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class SuccessiveHalving(SampledSearch):
    """Train many configurations for a few epochs, and the best 1 / ``eta`` of them further, again and again.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    sampler, study, study_trials
        Of :class:`SampledSearch`: who draws the configurations, ``"random"`` by default or ``"tpe"``.
    num_configurations : int
    max_epochs : int
        Of those that come to the end.
    min_epochs : int
        Fewest epochs before the first comparison. Default 1.
    eta : int
        Default 3.
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
    >>> search = SuccessiveHalving(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": log_uniform(1e-5, 1e-1), "batch": choice([32, 128])},
    ...     num_configurations=9,
    ...     max_epochs=9,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> [(stage.configurations, stage.reaches) for stage in search.plan().stages]
    [(9, 1), (3, 3), (1, 9)]
    """

    num_configurations: int
    max_epochs: int
    min_epochs: int = 1
    eta: int = 3

    def procedure(
        self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min"
    ) -> procedures.SuccessiveHalving:
        """See :meth:`Search.procedure`."""
        return procedures.SuccessiveHalving(
            self._sampler(),
            configurations=self.num_configurations,
            max_epochs=self.max_epochs,
            min_epochs=self.min_epochs,
            eta=self.eta,
            **self._rules(metric, mode),
        )
