"""Source of models: what a search file defines, from a built-in model or an uploaded script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from optimizer.space import Space
    from udfs.handlers import ModelTrainer

__all__ = ["ModelSource", "unchanged"]


def unchanged(df: DataFrame) -> DataFrame:
    """Return the table as it is."""
    return df


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Trainer, search space and settings, under the names that they have in a search file.

    Parameters
    ----------
    trainer_fn : callable
        Function that creates the model of a configuration.
    search_space : mapping or Space
        Hyperparameters to try.
    settings : mapping
        Settings of the search, such as ``feature_columns`` and ``num_epochs``.
    convert_table : callable
        Function that converts the user's table to the columns that the model reads. It leaves other columns as they
        are; the search and its model both read the converted table.
    """

    trainer_fn: Callable[[dict[str, Any]], ModelTrainer]
    search_space: Mapping[str, Any] | Space
    settings: Mapping[str, Any] = field(default_factory=dict)
    convert_table: Callable[[DataFrame], DataFrame] = unchanged
