"""Random search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.tune._sampled_search import SampledSearch
from optimizer import procedures
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from cerebro_spark.tune._strategy import Strategy
    from optimizer.procedures import Sampler

__all__ = ["RandomSearch"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class RandomSearch(SampledSearch):
    """Train configurations that a sampler draws, at random by default, each for the same number of epochs.

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
    num_configurations : int
        Number of configurations. The first ones are those of a smaller search.
    num_epochs : int
        Number of epochs of each configuration.
    concurrency : int, optional
        Largest number of configurations at a time. By default all start at once; if the sampler learns, or a stopper
        compares with configurations that have finished, a configuration starts whenever a worker is idle.

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

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        return self._sampled(
            self._drawn,
            configurations=self.num_configurations,
            epochs=self.num_epochs,
            concurrency=self.concurrency,
        )

    def _drawn(self, sampler: Sampler, **settings: Any) -> procedures.Sequential:
        if isinstance(sampler, procedures.RandomSampler):
            return procedures.RandomSearch(self.space, seed=self.seed, **settings)
        return procedures.Sequential(sampler, **settings)
