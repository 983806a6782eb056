"""Polynomials of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Products
from vista_spark.compiling.sparkml._stages import refuse, stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_polynomial"]


@stage("PolynomialExpansion")
def lower_polynomial(model: Any, columns: Columns) -> None:
    """Lower all products of up to some factors, in the library's order, without the empty one."""
    column, degree = model.getInputCol(), int(model.getDegree())
    node = columns.value(column)
    if not columns.is_vector(column):
        raise refuse(model, f"inputCol={column!r}", "needs the length of its vectors: give example=")
    terms = list(_terms(columns.widths[node] - 1, degree))[1:]
    factors = np.full((len(terms), degree), -1, np.int64)
    for place, term in enumerate(terms):
        factors[place, : len(term)] = term
    columns.give(model.getOutputCol(), columns.add(Products(factors), node), role="transform")


def _terms(last: int, degree: int) -> Iterator[tuple[int, ...]]:
    """Columns of each product: the last column's powers outermost."""
    if degree == 0 or last < 0:
        yield ()
        return
    for power in range(degree + 1):
        for rest in _terms(last - 1, degree - power):
            yield (last,) * power + rest
