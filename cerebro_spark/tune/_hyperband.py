"""Hyperband: successive halving in brackets, from many short trials to few long ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.tune._sampled_search import SampledSearch
from optimizer import procedures
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from cerebro_spark.tune._strategy import Strategy

__all__ = ["Hyperband"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class Hyperband(SampledSearch):
    """Run successive halving in several brackets, from many configurations at once to a few trained in full.

    Bracket ``s`` starts ``n = ceil((s_max + 1) eta^s / (s + 1))`` configurations for ``floor(R eta^-s)`` epochs
    (Li et al., 2018).

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
        Number of epochs of the best configurations (R).
    eta : int
        Factor between rungs: one configuration in ``eta`` continues. Default 3.
    brackets : {"together", "in turn"}, optional
        Order of the brackets. By default ``"together"``, so that workers have more configurations to choose from, and
        ``"in turn"`` with a sampler that learns, so that it has learned from the brackets before.

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
    >>> search = Hyperband(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     search_space={"lr": log_uniform(1e-5, 1e-1), "batch": choice([32, 128])},
    ...     max_epochs=9,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> search.plan().configurations, search.plan().epochs_each
    (17, 9)
    """

    max_epochs: int
    eta: int = 3
    brackets: str | None = None

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        return self._sampled(procedures.Hyperband, max_epochs=self.max_epochs, eta=self.eta, brackets=self.brackets)
