"""Successive halving: only the better part of the configurations continues after each rung."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.tune._sampled_search import SampledSearch
from optimizer import procedures
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from cerebro_spark.tune._strategy import Strategy

__all__ = ["SuccessiveHalving"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class SuccessiveHalving(SampledSearch):
    """Train many configurations for a few epochs, and the best 1 / ``eta`` of them further, again and again.

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
        Number of configurations at the start.
    max_epochs : int
        Number of epochs of the configurations that reach the end.
    min_epochs : int
        Smallest number of epochs before the first comparison. Default 1.
    eta : int
        Factor between rungs: one configuration in ``eta`` continues. Default 3.

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

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        return self._sampled(
            procedures.SuccessiveHalving,
            configurations=self.num_configurations,
            max_epochs=self.max_epochs,
            min_epochs=self.min_epochs,
            eta=self.eta,
        )
