"""Stages of Spark ML that look numbers up: bounds, categories, what is missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Arithmetic,
    Bins,
    Cast,
    Choose,
    CodeLookup,
    Combine,
    Concatenate,
    Constant,
    Function,
    Impute,
    Select,
)
from vista_spark.compiling.sparkml._assembling import POLICIES
from vista_spark.compiling.sparkml._stages import refuse, stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_binarizer", "lower_bucketizer", "lower_encoder", "lower_imputer", "lower_indexer"]


@stage("Binarizer")
def lower_binarizer(model: Any, columns: Columns) -> None:
    """Lower thresholds of columns of numbers or vectors. What is missing is not above."""
    pairs = list(_pairs(model))
    own = model.getThresholds() if model.isSet("thresholds") else [model.getThreshold()] * len(pairs)
    for (column, made), limit in zip(pairs, own, strict=True):
        node = columns.value(column)
        above = columns.add(Combine("greater"), node, columns.add(Constant(np.full(1, float(limit))), node))
        columns.give(made, above, flat=not columns.is_vector(column), role="transform")


@stage("Bucketizer")
def lower_bucketizer(model: Any, columns: Columns) -> None:
    """Lower buckets. A number out of bounds is bad; NaN is, is dropped, or has a bucket of its own."""
    handle = model.getHandleInvalid()
    pairs = list(_pairs(model))
    several = model.isSet("splitsArray")
    for (column, made), splits in zip(pairs, model.getSplitsArray() if several else [model.getSplits()], strict=True):
        node = columns.number(column)
        if handle == "keep" and columns.is_read(column):
            raise refuse(model, f"handleInvalid='keep' and the column {column!r}", "keeps nulls apart from NaN")
        if handle != "keep":
            node = columns.finite(node, "Bucketizer", POLICIES[handle])
        # Of two zeros the library sorts the negative one first.
        if any(split == 0 and math.copysign(1, split) > 0 for split in splits[:-1]):
            node = _before_zero(columns, node)
        place = _bucket(columns, node, splits)
        if math.isfinite(splits[0]) or math.isfinite(splits[-1]):
            place = _in_bounds(columns, node, place, splits)
        columns.give(made, place, flat=True, role="transform")


def _bucket(columns: Columns, node: str, splits: list[float]) -> str:
    """Give the place of ``[bound, next bound)``; the last one has its upper bound, and NaN the place after it."""
    count = len(splits) - 1
    inner = np.asarray(splits[1:-1], np.float64)
    place = columns.add(Cast("float64"), columns.add(Bins(inner, np.array([len(inner)])), node))
    if node in columns.whole:
        return place
    after = columns.add(Constant(np.full(1, float(count))), node)
    return columns.add(Choose(), columns.add(Function("is_nan"), node), after, place)


def _before_zero(columns: Columns, node: str) -> str:
    zero = columns.add(Function("not"), node)
    nothing, least = (columns.add(Constant(np.full(1, limit)), node) for limit in (0.0, -math.ulp(0.0)))
    negative = columns.add(Combine("less"), columns.add(Function("reciprocal"), node), nothing)
    return columns.add(Choose(), columns.add(Combine("and"), zero, negative), least, node)


def _in_bounds(columns: Columns, node: str, place: str, splits: list[float]) -> str:
    def limit(value: float) -> str:
        return columns.add(Constant(np.full(1, float(value))), node)

    below = columns.add(Combine("less"), node, limit(splits[0]))
    above = columns.add(Combine("greater"), node, limit(splits[-1]))
    flags = columns.add(Combine("or"), below, above)
    return columns.reject(place, flags, "a number out of the bounds of Bucketizer", "raise")


@stage("ImputerModel")
def lower_imputer(model: Any, columns: Columns) -> None:
    """Lower values for what is missing. Spark ML rounds them to the column's type, so they have to be whole."""
    if not math.isnan(model.getMissingValue()):
        raise refuse(model, f"missingValue={model.getMissingValue()}", "keeps nulls apart from NaN")
    values = model.surrogateDF.first().asDict()
    for column, made in _pairs(model):
        value = float(values[column])
        node = columns.number(column)
        if columns.is_read(column) and value != round(value) and column not in columns.doubles:
            raise refuse(
                model, f"the value {value} for {column!r}", "would be cut in a column of whole numbers: give example="
            )
        columns.give(made, columns.add(Impute(np.full(1, value), math.nan), node), flat=True, role="transform")


@stage("OneHotEncoderModel")
def lower_encoder(model: Any, columns: Columns) -> None:
    """Lower indicators of categories. A category is the number without its fraction."""
    keep, drop = model.getHandleInvalid() == "keep", bool(model.getDropLast())
    for (column, made), size in zip(_pairs(model), model.categorySizes, strict=True):
        node = columns.number(column)
        if keep and columns.is_read(column):
            raise refuse(model, f"handleInvalid='keep' and the column {column!r}", "keeps nulls apart from NaN")
        from_zero = columns.add(Combine("greater_equal"), node, columns.add(Constant(np.zeros(1)), node))
        below = columns.add(Combine("less"), node, columns.add(Constant(np.full(1, float(size))), node))
        seen = columns.add(Combine("and"), from_zero, below)
        wrong = columns.add(Function("not"), seen)
        count = size - 1 if drop and not keep else size
        whole = columns.add(Function("floor"), node)
        marks = columns.add(Combine("equal"), whole, columns.add(Constant(np.arange(count, dtype=np.float64)), node))
        if keep and not drop:
            marks = columns.add(Concatenate(), marks, wrong)
        if not keep:
            marks = columns.reject(marks, wrong, "a category that OneHotEncoderModel has not seen", "raise")
        if not count:
            raise refuse(model, f"one category in {column!r}")
        columns.give(made, marks, role="transform")


@stage("VectorIndexerModel")
def lower_indexer(model: Any, columns: Columns) -> None:
    """Lower indices of categories; other features pass."""
    handle, parts = model.getHandleInvalid(), []
    table = columns.vector(model.getInputCol(), model.numFeatures)
    maps = {
        int(column): {float(key): float(index) for key, index in own.items()}
        for column, own in model.categoryMaps.items()
    }
    flags = []
    for column in range(model.numFeatures):
        part = columns.add(Select(np.array([column])), table)
        if column in maps:
            other = float(len(maps[column])) if handle == "keep" else -1.0
            part = columns.add(CodeLookup.of_tables([0], [maps[column]], [other], missing=[other]), part)
            flags.append(columns.add(Arithmetic("add", np.ones(1)), part))
        parts.append(part)
    node = columns.concatenate(parts)
    if flags and handle != "keep":
        wrong = columns.add(Function("not"), columns.concatenate(flags))
        node = columns.reject(node, wrong, "a category that VectorIndexerModel has not seen", POLICIES[handle])
    if table in columns.whole:
        columns.whole.add(node)
    columns.give(model.getOutputCol(), node, role="transform")


def _pairs(model: Any) -> Iterator[tuple[str, str]]:
    """Columns that are read, and those that are added."""
    if model.isSet("inputCols"):
        yield from zip(model.getInputCols(), model.getOutputCols(), strict=True)
    else:
        yield model.getInputCol(), model.getOutputCol()
