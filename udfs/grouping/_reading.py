"""Read the groups of a chunk from their shard, by their offsets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from udfs.grouping._grouped_data import index_path
from udfs.shards import SPLITS, Tensors, group_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from optimizer.grouping import Chunk
    from udfs.grouping._grouped_data import GroupedData
    from udfs.shards import PreparedData

__all__ = ["Group", "read_groups"]


@dataclass(frozen=True, slots=True)
class Group:
    """Group of rows.

    Parameters
    ----------
    key : str
        Key as JSON, such as ``'["CA"]'``; ``"[]"`` for all rows.
    level : int
        Number of columns of the key.
    train, held_out : Tensors
        Rows to train on, and rows to evaluate.
    left_out : mapping of str to int
        Numbers of rows that were left out, by reason.
    """

    key: str
    level: int
    train: Tensors
    held_out: Tensors
    left_out: Mapping[str, int]


def read_groups(data: GroupedData, chunk: Chunk) -> Iterator[Group]:
    """Read the groups of a chunk; the shard's row groups that they lie in are read once.

    Raises
    ------
    ShardError, udfs.store.StoreError
        The shard or its index is damaged or gone.
    """
    prepared = data.prepared
    with prepared.store.open_input(*index_path(prepared.name, chunk.shard)) as file:
        index = pq.read_table(file).slice(chunk.first, chunk.groups).to_pylist()
    start = index[0]["offset"]
    rows = sum(entry["rows"] + entry["held_out"] for entry in index)
    arrays = _read(prepared, chunk.shard, start, rows)
    for entry in index:
        begin = entry["offset"] - start
        middle, end = begin + entry["rows"], begin + entry["rows"] + entry["held_out"]
        parts = (
            _tensors(prepared, [array[slice(*bounds)] for array in arrays])
            for bounds in ((begin, middle), (middle, end))
        )
        train, held_out = parts
        yield Group(entry["key"], entry["level"], train, held_out, json.loads(entry["left_out"]))


def _read(prepared: PreparedData, shard: int, start: int, rows: int) -> list[NDArray[Any]]:
    if not rows:  # the shard may have no file
        return [np.empty((0, *group.shape), group.dtype) for group in prepared.groups]
    names = [column.name for column in prepared.columns]
    with prepared.store.open_input(*prepared.path(prepared.shard(SPLITS[0], shard))) as source:
        file = pq.ParquetFile(source)
        ends = np.cumsum([file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)])
        first, last = np.searchsorted(ends, [start, start + rows - 1], side="right")
        before = int(ends[first - 1]) if first else 0
        table = file.read_row_groups(list(range(first, last + 1)), columns=names)
    table = table.slice(start - before, rows)
    return [group_array(table, group) for group in prepared.groups]


def _tensors(prepared: PreparedData, arrays: list[NDArray[Any]]) -> Tensors:
    inputs, labels = len(prepared.inputs), len(prepared.labels)
    weights = None if prepared.weights is None else arrays[-1]
    return Tensors(tuple(arrays[:inputs]), tuple(arrays[inputs : inputs + labels]), len(arrays[0]), weights)
