"""Columns of a LightGBM model that were categoricals of pandas, ordered ones included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vista_spark.compiling._refusals import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.compiling.lightgbm._text import ModelText

__all__ = ["columns_of"]


def columns_of(model: ModelText, categories: Sequence[Sequence[object]]) -> list[int]:
    """Return the column of each list of categories, in their order.

    LightGBM splits unordered categoricals by sets, and its model text names them. It splits ordered ones by their codes
    as numbers, and does not name them: they are the columns whose numbers may be codes.

    Raises
    ------
    UnsupportedOperatorError
        Several choices of columns fit.
    """
    choices = _assignments(model, categories, 0)
    if len(choices) == 1:
        return choices[0]
    ordered = len(categories) - len(model.categorical)
    raise refusal(
        f"LightGBM with {ordered} ordered categorical columns of pandas",
        "the model does not say which columns they are",
        "Fit on their codes as numbers (series.cat.codes), and pass codes to predict.",
    )


def _assignments(model: ModelText, categories: Sequence[Sequence[object]], start: int) -> list[list[int]]:
    """Return at most two lists of ascending columns, from `start`, that hold the codes of the lists."""
    if not categories:
        return [] if any(column >= start for column in model.categorical) else [[]]
    choices: list[list[int]] = []
    for column in range(start, model.n_features_in_):
        if _may_hold(model, column, len(categories[0])):
            choices += [[column, *rest] for rest in _assignments(model, categories[1:], column + 1)]
        if column in model.categorical or len(choices) > 1:
            break
    return choices[:2]


def _may_hold(model: ModelText, column: int, count: int) -> bool:
    limits = model.ranges[column] if column < len(model.ranges) else None
    if limits is None:  # constant, so that no tree reads it
        return column in model.categorical
    low, high = limits
    return low.is_integer() and high.is_integer() and -1 <= low <= high < count
