"""ONNX operators on texts of the input, and on maps of names: the host looks them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Bag, Encode, HasText, Known, Recode
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.compiling.onnx._graph import Graph

__all__ = ["codes_of", "lower_dictionary", "marks_of"]


def codes_of(graph: Graph, node: Any, table: Table, keys: Sequence[str], *, unknown: bool = True) -> Table:
    """Give the place of each text among some keys, the first of equals; their count for another one.

    Parameters
    ----------
    unknown : bool
        Whether another text may come; a row with one is bad otherwise. ONNX has no missing text: such a row is bad.
    """
    first = list(dict.fromkeys(keys))
    count, width = len(first), table.width
    codes = graph.build.add(Encode(np.array(table.texts, np.int64), ((*first, None),) * width))
    places = np.array([*(list(keys).index(key) for key in first), len(keys) + 1, len(keys)], np.int64)
    own = graph.build.add(Recode(np.tile(places, width)[:, None], np.full(width, count + 2, np.int64)), codes)
    held = Known(np.full(width, len(keys) + unknown, np.int64), f"ONNX's {node.op_type}")
    return Table(graph.build.add(held, own), table.shape, "int64")


def marks_of(graph: Graph, node: Any, table: Table, keys: Sequence[str], *, zeros: bool) -> Table:
    """Give a column for each key: one where a text is that key."""
    codes = codes_of(graph, node, table, keys, unknown=zeros)
    count = len(keys) + zeros
    marks = np.eye(count, len(keys), dtype=np.float32)
    sizes = np.full(table.width, count, np.int64)
    found = graph.build.add(Recode(np.tile(marks, (table.width, 1)), sizes), codes.node)
    return Table(found, (*table.shape, len(keys)), "float32")


@operator("ai.onnx.ml.DictVectorizer")
def lower_dictionary(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a column for each name of a map; a name that is not there is zero."""
    names, table = attributes.get("string_vocabulary"), given[0]
    if not names or not isinstance(table, Table) or table.texts is None or table.dtype not in {"float32", "float64"}:
        raise refuse(node, "of other maps than those of texts to numbers")
    bag = Bag(
        columns=np.array(table.texts, np.int64),
        analyzer="pairs",
        terms=tuple(names),
        dtype=table.dtype,
    )
    held = graph.build.add(HasText("ONNX's DictVectorizer", "no names with numbers, or NaN"), graph.build.add(bag))
    return Table(held, (len(names),), table.dtype)
