"""Bucketizers, encoders, indexers and imputers of Spark ML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import EXAMPLE, refuse
from vista_spark.compiling.sparkml._assembling import POLICIES
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vista_spark.compiling.sparkml._columns import Columns


@stage("Binarizer")
def lower_binarizer(model: Any, columns: Columns) -> None:
    """Lower thresholds of columns of numbers or vectors. What is missing is not above."""
    pairs = list(_pairs(model))
    limits = model.getThresholds() if model.isSet("thresholds") else [model.getThreshold()] * len(pairs)
    for (column, made), limit in zip(pairs, limits, strict=True):
        node = columns.value(column)
        above = columns.add(ops.Combine("greater"), node, columns.add(ops.Constant(np.full(1, float(limit))), node))
        columns.add_column(made, above, flat=not columns.is_vector(column), role="transform")


@stage("Bucketizer")
def lower_bucketizer(model: Any, columns: Columns) -> None:
    """Lower buckets. A number out of bounds is bad; NaN is, is dropped, or has a bucket of its own."""
    handle = model.getHandleInvalid()
    pairs = list(_pairs(model))
    several = model.isSet("splitsArray")
    for (column, made), splits in zip(pairs, model.getSplitsArray() if several else [model.getSplits()], strict=True):
        node = columns.number(column)
        if handle == "keep" and columns.is_read(column):
            raise refuse(
                model, f"handleInvalid='keep' and the column {column!r}", "Spark ML keeps nulls apart from NaN"
            )
        if handle != "keep":
            node = columns.finite(node, "Bucketizer", POLICIES[handle])
        # Of two zeros the library sorts the negative one first.
        if any(split == 0 and math.copysign(1, split) > 0 for split in splits[:-1]):
            node = _before_zero(columns, node)
        place = _bucket(columns, node, splits)
        if math.isfinite(splits[0]) or math.isfinite(splits[-1]):
            place = _in_bounds(columns, node, place, splits)
        columns.add_column(made, place, flat=True, role="transform")


def _bucket(columns: Columns, node: str, splits: list[float]) -> str:
    """Return the index of ``[bound, next bound)``. The last bucket includes its upper bound, and NaN comes after it."""
    count = len(splits) - 1
    inner = np.asarray(splits[1:-1], np.float64)
    place = columns.add(ops.Cast("float64"), columns.add(ops.Bins(inner, np.array([len(inner)])), node))
    if node in columns.whole:
        return place
    after = columns.add(ops.Constant(np.full(1, float(count))), node)
    return columns.add(ops.Choose(), columns.add(ops.Function("is_nan"), node), after, place)


def _before_zero(columns: Columns, node: str) -> str:
    zero = columns.add(ops.Function("not"), node)
    nothing, least = (columns.add(ops.Constant(np.full(1, limit)), node) for limit in (0.0, -math.ulp(0.0)))
    negative = columns.add(ops.Combine("less"), columns.add(ops.Function("reciprocal"), node), nothing)
    return columns.add(ops.Choose(), columns.add(ops.Combine("and"), zero, negative), least, node)


def _in_bounds(columns: Columns, node: str, place: str, splits: list[float]) -> str:
    def limit(value: float) -> str:
        return columns.add(ops.Constant(np.full(1, float(value))), node)

    below = columns.add(ops.Combine("less"), node, limit(splits[0]))
    above = columns.add(ops.Combine("greater"), node, limit(splits[-1]))
    flags = columns.add(ops.Combine("or"), below, above)
    return columns.reject(place, flags, "a number out of the bounds of Bucketizer", "raise")


@stage("ImputerModel")
def lower_imputer(model: Any, columns: Columns) -> None:
    """Lower values for what is missing. Spark ML rounds them to the column's type, so they have to be whole."""
    if not math.isnan(model.getMissingValue()):
        raise refuse(model, f"missingValue={model.getMissingValue()}", "Spark ML keeps nulls apart from NaN")
    values = model.surrogateDF.first().asDict()
    for column, made in _pairs(model):
        value = float(values[column])
        node = columns.number(column)
        if columns.is_read(column) and value != round(value) and column not in columns.doubles:
            raise refuse(
                model, f"the value {value} for {column!r}", "Spark ML rounds it in a column of integers", EXAMPLE
            )
        columns.add_column(
            made, columns.add(ops.Impute(np.full(1, value), math.nan), node), flat=True, role="transform"
        )


@stage("OneHotEncoderModel")
def lower_encoder(model: Any, columns: Columns) -> None:
    """Lower indicators of categories. A category is the number without its fraction."""
    keep, drop = model.getHandleInvalid() == "keep", bool(model.getDropLast())
    for (column, made), size in zip(_pairs(model), model.categorySizes, strict=True):
        node = columns.number(column)
        if keep and columns.is_read(column):
            raise refuse(
                model, f"handleInvalid='keep' and the column {column!r}", "Spark ML keeps nulls apart from NaN"
            )
        from_zero = columns.add(ops.Combine("greater_equal"), node, columns.add(ops.Constant(np.zeros(1)), node))
        below = columns.add(ops.Combine("less"), node, columns.add(ops.Constant(np.full(1, float(size))), node))
        seen = columns.add(ops.Combine("and"), from_zero, below)
        wrong = columns.add(ops.Function("not"), seen)
        count = size - 1 if drop and not keep else size
        whole = columns.add(ops.Function("floor"), node)
        marks = columns.add(
            ops.Combine("equal"), whole, columns.add(ops.Constant(np.arange(count, dtype=np.float64)), node)
        )
        if keep and not drop:
            marks = columns.add(ops.Concatenate(), marks, wrong)
        if not keep:
            marks = columns.reject(marks, wrong, "a category that OneHotEncoderModel has not seen", "raise")
        if not count:
            raise refuse(model, f"one category in {column!r}")
        columns.add_column(made, marks, role="transform")


@stage("VectorIndexerModel")
def lower_indexer(model: Any, columns: Columns) -> None:
    """Lower indices of categories; other features pass."""
    handle, parts = model.getHandleInvalid(), []
    table = columns.vector(model.getInputCol(), model.numFeatures)
    maps = {
        int(column): {float(key): float(index) for key, index in codes.items()}
        for column, codes in model.categoryMaps.items()
    }
    flags = []
    for column in range(model.numFeatures):
        part = columns.add(ops.Select(np.array([column])), table)
        if column in maps:
            other = float(len(maps[column])) if handle == "keep" else -1.0
            part = columns.add(ops.CodeLookup.of_tables([0], [maps[column]], [other], missing=[other]), part)
            flags.append(columns.add(ops.Arithmetic("add", np.ones(1)), part))
        parts.append(part)
    node = columns.concatenate(parts)
    if flags and handle != "keep":
        wrong = columns.add(ops.Function("not"), columns.concatenate(flags))
        node = columns.reject(node, wrong, "a category that VectorIndexerModel has not seen", POLICIES[handle])
    if table in columns.whole:
        columns.whole.add(node)
    columns.add_column(model.getOutputCol(), node, role="transform")


def _pairs(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the columns that are read, and those that are added."""
    if model.isSet("inputCols"):
        yield from zip(model.getInputCols(), model.getOutputCols(), strict=True)
    else:
        yield model.getInputCol(), model.getOutputCol()
