"""Checks of products, pulled back to their factors.

No product of a row is greater than the same power of its greatest factor: rounding keeps the order. So where the power
of each factor is asked to be finite, as the squares of a polynomial are, this is all that is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._facts import Facts
from ._floats import greatest
from ._monotone import FLOATS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling._curves import Monomials

__all__ = ["pulled_products"]

_MOST = 2**24  # numbers of the table of exponents


def pulled_products(
    operator: Monomials, columns: NDArray[np.int64], rule: Facts, given: Facts, dtype: str | None
) -> tuple[NDArray[np.int64], Facts] | None:
    """Give the factors that are to be held, and to what; ``None`` where a rule for products is none for factors.

    Parameters
    ----------
    operator : Monomials
    columns : int64 array
        Products that are asked for.
    rule : Facts
        What is asked of them.
    given : Facts
        What is known of the factors.
    dtype : str or None
        Of the factors.
    """
    limit = float(rule.high[0])
    same = (rule.high == limit) & (rule.low == -limit) & ~rule.nan
    width = len(given.nan)
    # An infinity that may pass is NaN times zero: then a factor alone says nothing.
    finite = same.all() and 1 <= limit < np.inf
    if dtype not in FLOATS or not finite or (1 + width + len(operator.left)) * width > _MOST:
        return None
    exponents = _exponents(operator, width)[columns]
    degree = int(exponents.sum(axis=1).max())
    factors = exponents.any(axis=0)
    powers = (exponents == degree).any(axis=0)
    small = ~given.nan & (given.low >= -1) & (given.high <= 1)  # they make no product greater
    if degree == 0 or not (powers | small)[factors].all():
        return None
    bound = float(_root(degree, limit, dtype))
    found = np.flatnonzero(factors & powers)
    return found, Facts(np.full(len(found), -bound), np.full(len(found), bound), np.zeros(len(found), np.bool_))


def _exponents(operator: Monomials, width: int) -> NDArray[np.int16]:
    rows = np.zeros((1 + width + len(operator.left), width), np.int16)
    rows[1 : 1 + width] = np.eye(width, dtype=np.int16)
    for place, (one, other) in enumerate(zip(operator.left, operator.right, strict=True), 1 + width):
        rows[place] = rows[one]
        rows[place, other] += 1
    return rows


def _root(degree: int, limit: float, dtype: str) -> np.floating:
    """Give the greatest number whose power, multiplied up and rounded as the products are, is within the limit."""

    def passes(x: NDArray[np.floating]) -> NDArray[np.bool_]:
        own = np.maximum(x, 0)
        power = own.copy()
        with np.errstate(over="ignore", under="ignore"):
            for _ in range(degree - 1):
                power *= own
        # In float64: numpy rounds a limit beyond float32 to infinity, which an infinite power would pass.
        return np.asarray(power.astype(np.float64) <= limit)

    root: np.floating = greatest(passes, 1, dtype)[0]
    return root
