"""Shards that GroupWriter writes, and the groups that read_groups reads from them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from optimizer.grouping import Chunk
from udfs.grouping import Group, GroupedData, GroupWriter, read_groups
from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup, shard_path

if TYPE_CHECKING:
    from udfs.store import Store

NAMES = ["shard", "group", "level", "defect", "x", "y"]
TYPES = [pa.int32(), pa.string(), pa.int32(), pa.int32(), pa.float32(), pa.int64()]
Row = tuple[int, str, int, int, float, int]


def rows(shard: int, key: str, count: int, *, level: int = 1, defect: int = -1) -> list[Row]:
    return [(shard, key, level, defect, float(number), number % 2) for number in range(count)]


def read(store: Store, table: list[Row], batch: int, chunk_cost: float) -> tuple[dict[str, Group], list[Chunk]]:
    """Write rows in batches of a size, and read all groups back."""
    columns = TensorColumn("x", "float32"), TensorColumn("y", "int64")
    writer = GroupWriter(store, "data", columns, (), {0: "null in 'x'"}, 0.25, 5, 1, chunk_cost)
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*table, strict=True), TYPES, strict=True)]
    batches = pa.Table.from_arrays(arrays, NAMES).to_batches(max_chunksize=batch)
    reports = [row for written in writer(batches) for row in written.to_pylist()]
    shards = tuple(
        Shard("train", row["partition"], shard_path("train", row["partition"]), row["rows"], 0, row["digest"])
        for row in reports
        if row["rows"]
    )
    inputs, labels = TensorGroup("features", columns[:1], joined=True), TensorGroup("y", columns[1:])
    prepared = PreparedData(store, "data", (inputs,), (labels,), shards, 0, 0.25, "f00")
    chunks = [Chunk(**chunk) for row in reports for chunk in json.loads(row["chunks"])]
    data = GroupedData(prepared, ("state",), ("string",), tuple(chunks), (1, 4), {"least": 0, "median": 1, "most": 40})
    groups = [group for chunk in chunks for group in read_groups(data, chunk)]
    assert max(Counter(group.key for group in groups).values()) == 1
    return {group.key: group for group in groups}, chunks


@pytest.mark.parametrize("batch", [3, 1000])
@pytest.mark.parametrize("chunk_cost", [1.0, 1e9])
def test_groups_come_back_with_their_own_rows(store: Store, batch: int, chunk_cost: float) -> None:
    table = [
        *rows(0, "[]", 12, level=0),
        *rows(0, '["CA"]', 40),
        *rows(0, '["NY"]', 2),
        *rows(0, '["NY"]', 3, defect=0),
        *rows(0, '["TX"]', 1),
        *rows(1, '["NV"]', 2, defect=0),
    ]
    groups, chunks = read(store, table, batch, chunk_cost)
    assert len(chunks) == (5 if chunk_cost == 1.0 else 2)
    counts = {key: (group.train.rows, group.held_out.rows, dict(group.left_out)) for key, group in groups.items()}
    assert counts == {
        "[]": (4, 1, {}),  # of 12 rows, fallback_rows=5 are kept
        '["CA"]': (30, 10, {}),
        '["NY"]': (2, 0, {"null in 'x'": 3}),
        '["TX"]': (1, 0, {}),  # a group keeps a row to train on
        '["NV"]': (0, 0, {"null in 'x'": 2}),  # the only group of a shard without a file
    }
    state = groups['["CA"]']
    assert state.train.inputs[0][:, 0].tolist() == list(range(30))
    assert state.held_out.labels[0].tolist() == [number % 2 for number in range(30, 40)]
    assert groups["[]"].level == 0
