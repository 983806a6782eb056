"""A stage and what its contract has to know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["StageSample"]


@dataclass(frozen=True, slots=True)
class StageSample:
    """A stage that :class:`StageContract` tests, and what is known of it.

    Parameters
    ----------
    name : str
        Name of the case.
    make : callable
        Returns the stage, ready to transform ``frame`` or to be fitted to it.
    frame : callable
        ``frame(spark, count)`` has ``count`` good rows with the columns ``id``, ``label`` and those that the stage
        reads. Its first rows stay the same as ``count`` grows.
    reads : str
        The column that it reads.
    reads_param : str or None
        The Param that names it; None for a model that has learned its columns.
    adds : tuple of str
        The columns that it, or its model, adds, in their order.
    renamed : mapping
        Params that name the first of those columns, with other names, in their order.
    feature : str
        The added column that a classifier can learn from.
    tuned : tuple of str and list, or None
        A Param and values of it that make other features of the same frame, where it has one.
    defaults : mapping
        Every Param that has a default.
    values : mapping
        For every Param, a value other than its default.
    refused : mapping
        For some Params, a bad value and a regular expression for the message.
    built : bool
        Whether users build it, by keywords; not a model that a search gives them.
    label : str or None
        The column that an estimator learns from beside the one that it reads; one that only looks at a sample has none,
        nor one whose label no Param names.
    blank : callable, optional
        Makes the stage with no Param set; by default its class, called without arguments.
    own_params : tuple of str
        Params of the instance alone, which have no getter and no setter. Default none.
    saves : bool
        Whether it can be saved before it is fitted. Default true.
    """

    name: str
    make: Callable[[], Any]
    frame: Callable[[SparkSession, int], DataFrame]
    reads: str
    reads_param: str | None
    adds: tuple[str, ...]
    renamed: Mapping[str, str | list[str]]
    feature: str
    tuned: tuple[str, list[Any]] | None
    defaults: Mapping[str, Any]
    values: Mapping[str, Any]
    refused: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    built: bool = True
    label: str | None = "label"
    blank: Callable[[], Any] | None = None
    own_params: tuple[str, ...] = ()
    saves: bool = True

    def fresh(self) -> Any:
        """Make the stage with no Param set."""
        return type(self.make())() if self.blank is None else self.blank()
