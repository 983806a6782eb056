"""Cross-fitting: a model for each fold of the rows, all trained in one run over one copy of the shards."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError, NoModelError
from cerebro_spark.tune import GridSearch, Search, Selection
from udfs.training import HELD_OUT_FOLD, Folds, TrainerError, TrainingFunctions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from cerebro_spark.hopper import Probed, RunContext, RunResult
    from cerebro_spark.tune import TunedModel

__all__ = ["configuration_of", "fold_models"]

# Settings that decide which configurations train and which of them is best.
_OTHER = {
    "metric",
    "mode",
    "test_fraction",
    "stoppers",
    "keep",
    "checkpoints",
    "callbacks",
    "experiment",
    "tensorboard",
}
_OTHER |= {"max_configurations", "max_total_epochs", "max_seconds", "max_cost", "price"}


def configuration_of(
    search: Search, params: Mapping[str, Any] | None, num_epochs: int | None
) -> tuple[dict[str, Any], int]:
    """Return the configuration to train, and its number of epochs.

    Raises
    ------
    InvalidArgumentError
        The search has several configurations and ``params`` names none, or it has no ``num_epochs``.
    """
    if params is None:
        configurations = search.configurations if isinstance(search, GridSearch) else []
        if len(configurations) != 1:
            count = len(configurations) or "many"
            raise InvalidArgumentError(
                f"params must be a configuration of the search, got None with {count} configurations. Pass "
                "selection.best_params of a finished search"
            )
        params = configurations[0]
    if num_epochs is None:
        if not isinstance(search, GridSearch):
            raise InvalidArgumentError(
                f"num_epochs must be set for a {type(search).__name__}, got None. Pass selection.best.epoch of a "
                "finished search"
            )
        num_epochs = search.num_epochs
    return dict(params), num_epochs


def fold_models(
    search: Search, df: DataFrame, folds: Folds, params: Mapping[str, Any], num_epochs: int
) -> tuple[TunedModel, ...]:
    """Train a model for each fold, on the rows of the other folds, and return the models in the order of the folds.

    Raises
    ------
    NoModelError
        A model did not finish; the message has its error.
    """
    settings = {each.name: getattr(search, each.name) for each in fields(Search) if each.name not in _OTHER}
    configurations = [{**params, HELD_OUT_FOLD: fold} for fold in range(folds.count)]
    grid = GridSearch(
        **settings | {"trainer_fn": _without_fold(search.trainer_fn)},
        search_space=configurations,
        num_epochs=num_epochs,
        test_fraction=0,
        checkpoints="end",
    )
    selection = grid.extended(_CrossFit(folds)).fit(df)
    by_fold = {trial.params[HELD_OUT_FOLD]: trial for trial in selection.trials}
    for fold, trial in by_fold.items():
        if trial.status != "finished":
            why = (trial.traceback.strip().splitlines() or [trial.reason])[-1]
            raise NoModelError(
                f"the model without fold {fold} must finish its training, got {trial.status!r}: {why}. Correct the "
                "trainer or params; a last batch of one row needs ModelTrainer(drop_last=True)"
            )
    return tuple(selection.model(by_fold[fold].trial_id) for fold in range(folds.count))


def _without_fold(trainer_fn: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """Wrap a user's function so that it does not see the fold among the params."""

    @functools.wraps(trainer_fn)
    def build(params: dict[str, Any]) -> Any:
        params.pop(HELD_OUT_FOLD)
        trainer = trainer_fn(params)
        if isinstance(trainer, TrainingFunctions):
            raise TrainerError(
                "trainer_fn must return a ModelTrainer for find_label_errors, got TrainingFunctions, whose train_fn "
                "reads all rows of a shard. Score a held-out table with a TunedModel instead"
            )
        return trainer

    return build


@dataclass(frozen=True)
class _CrossFit:
    """Extension of a search whose trials each leave one fold out; see :class:`cerebro_spark.tune.RunExtension`."""

    folds: Folds
    probed: Probed | None = None
    campaign: tuple[str, int] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def extend(self, context: RunContext) -> RunContext:
        """See :meth:`cerebro_spark.tune.RunExtension.extend`."""
        return replace(context, folds=self.folds)

    def result(self, run: RunResult, trainer_fn: Callable[[dict[str, Any]], Any]) -> Selection:
        """See :meth:`cerebro_spark.tune.RunExtension.result`."""
        return Selection(run, trainer_fn)
