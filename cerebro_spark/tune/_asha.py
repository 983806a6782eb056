"""ASHA: asynchronous successive halving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._sampled_search import SampledSearch
from optimizer import procedures
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from cerebro_spark.tune._strategy import Strategy

__all__ = ["ASHA"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class ASHA(SampledSearch):
    """Promote a configuration as soon as it is among the best 1 / ``eta`` that have reached its rung (Li et al., 2020).

    The search starts configurations until a limit ends it: give ``max_configurations``, ``max_total_epochs``,
    ``max_seconds`` or ``max_cost``.

    All settings of :class:`Search` are keyword arguments too.

    Parameters
    ----------
    search_space : mapping or Space
        Domains by name, of :mod:`optimizer.space`; lists are choices, other values constants.
    sampler : str or optuna.samplers.BaseSampler
        Sampler of configurations: ``"random"`` (default); ``"tpe"`` or ``"nsgaii"``, which learn from the
        configurations before, with the search's seed; or a sampler of Optuna with a seed of its own.
    study : optuna.Study, optional
        Study whose complete and pruned trials the sampler knows from the start. It has the same hyperparameters, as
        :meth:`Selection.study` of an earlier search.
    study_trials : int, optional
        Number of those trials to use, in the order in which they ended; by default all when the search is made. To
        resume a run whose study has grown since, give the number that the run began with.
    max_epochs : int
        Number of epochs at the last rung (R).
    min_epochs : int
        Smallest number of epochs at the first rung (r). Default 1.
    eta : int
        Factor between rungs: one configuration in ``eta`` continues. Default 3.
    rungs : {"milestones", "additive"}
        Meaning of a rung's epochs: ``"milestones"`` (default) are totals, as in 1, 3 and 9; ``"additive"`` epochs are
        added to those before, as in 1 + 3 + 9.
    concurrency : int, optional
        Largest number of configurations at a time. By default a configuration starts whenever a worker is idle.
    schedule : str
        Scheduling policy, as for :class:`Search`. Default ``"longest-remaining-elsewhere"``.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, there is no limit, or the search has no such parameter.
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

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        limits = (self.max_configurations, self.max_total_epochs, self.max_seconds, self.max_cost)
        if all(limit is None for limit in limits):
            raise InvalidArgumentError(
                "ASHA must have a limit, got none. Give max_configurations, max_total_epochs, max_seconds or max_cost"
            )
        return self._sampled(
            procedures.ASHA,
            max_epochs=self.max_epochs,
            min_epochs=self.min_epochs,
            eta=self.eta,
            rungs=self.rungs,
            concurrency=self.concurrency,
        )
