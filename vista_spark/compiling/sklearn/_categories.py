"""Splits by categories of histogram gradient boosting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import CodeLookup, Concatenate, Finite, Select
from vista_spark.compiling._vocabularies import with_codes
from vista_spark.compiling.sklearn._checks import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = ["lower_sets"]


def lower_sets(
    model: Any,
    build: Builder,
    table: str,
    feature: NDArray[np.int64],
    nodes: NDArray[np.int64],
    sets: Sequence[NDArray[np.uint32]],
) -> tuple[str, NDArray[np.int64]]:
    """Add a column for each set of categories: 0 for those on the left, 1 for others, NaN for what is not known.

    Parameters
    ----------
    feature : int64 array
        Per node, as the library counts: the categorical columns come first.
    nodes : int64 array
        Those that split by categories.
    sets : sequence of uint32 arrays
        Of each of these nodes, the bits of the categories on the left.

    Returns
    -------
    table : str
        Columns of numbers, then one for each set.
    feature : int64 array
        Columns of that table.
    """
    categorical = np.flatnonzero(model.is_categorical_)
    numeric = np.flatnonzero(~np.asarray(model.is_categorical_))
    encoder = model._preprocessor.named_transformers_["encoder"]  # it has no public name
    known = [np.asarray(values) for values in encoder.categories_]
    texts = {}
    for place, values in enumerate(known):
        if values.dtype.kind not in "biuf":
            # The encoder numbers texts, and what is missing comes behind them.
            named = [value for value in values.tolist() if isinstance(value, str)]
            if named != values.tolist()[: len(named)] or len(values) - len(named) > 1:
                raise refuse(model, f"categories {values.tolist()[:3]} that are neither numbers nor texts")
            texts[int(categorical[place])] = named
            known[place] = np.arange(len(named))
    table = with_codes(type(model).__name__, build, table, texts, known=False)
    bits, place = model._bin_mapper.make_known_categories_bitsets()  # known while it was fitted
    columns: dict[tuple[int, bytes], int] = {}
    tables: list[dict[float, float]] = []
    found = np.array(feature)
    for node, left in zip(nodes.tolist(), sets, strict=True):
        own = int(feature[node])
        key = own, np.asarray(left).tobytes()
        if key not in columns:
            columns[key] = len(tables)
            seen = bits[place[own]]
            tables.append(
                {
                    float(value): 0.0 if _has(left, code) else 1.0
                    for code, value in enumerate(known[own])
                    if not np.isnan(value) and (_has(left, code) or _has(seen, code))
                }
            )
        found[node] = len(numeric) + columns[key]
    others = np.setdiff1d(np.arange(len(feature)), nodes)
    found[others] = np.maximum(feature[others] - len(categorical), 0)
    # The library's encoder takes NaN, and no infinity.
    codes = build.add(Finite("as given", True, type(model).__name__), build.add(Select(categorical), table))
    if not columns and not len(numeric):
        return codes, found
    parts = [build.add(Select(numeric), table)] if len(numeric) else []
    looked_up = CodeLookup.of_tables([own for own, _ in columns], tables, [np.nan] * len(tables))
    return build.add(Concatenate(), *parts, build.add(looked_up, codes)), found


def _has(bits: NDArray[np.uint32], code: int) -> bool:
    return bool(int(bits[code // 32]) >> (code % 32) & 1)
