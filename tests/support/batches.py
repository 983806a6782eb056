"""Batches of growing data for the tests, written without Spark: a record is an id with its features and label."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from udfs.shards import (
    SPLITS,
    GrowingData,
    IncrementReport,
    IncrementWriter,
    PreparedData,
    TensorColumn,
    TensorGroup,
    increment_name,
    increment_of,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.store import Store

__all__ = ["PIXELS", "Record", "add_batch", "turn"]

PIXELS = 6
SEED = 3
TEST_FRACTION = 0.25
COLUMNS = (
    TensorColumn("pixels", "float32", (PIXELS,)),
    TensorColumn("tags", "int64", (2,)),
    TensorColumn("w", "float32"),
)


class Record(NamedTuple):
    """A record's features are `PIXELS` numbers drawn by a seed, so that equal seeds are equal features."""

    features: int
    label: int
    weight: float = 1.0

    def pixels(self) -> np.ndarray:
        return np.random.default_rng(self.features).normal(size=PIXELS).astype(np.float32)


def turn(record: str) -> str:
    """Order of the records of one batch and shard."""
    return hashlib.sha256(f"{SEED}|{record}".encode()).hexdigest()


def add_batch(
    store: Store,
    name: str,
    batch: Mapping[str, Record],
    previous: GrowingData | None = None,
    *,
    num_shards: int = 2,
    test_fraction: float = TEST_FRACTION,
    arrow_rows: int = 3,
) -> GrowingData:
    """Write a batch as a Spark job of one task would."""
    places = {
        record: place_of(record, seed=SEED, num_shards=num_shards, test_fraction=test_fraction) for record in batch
    }
    numbers = {record: SPLITS.index(split) * num_shards + shard for record, (split, shard) in places.items()}
    ids = sorted(batch, key=lambda record: (numbers[record], turn(record)))
    flat = np.array([batch[record].pixels() for record in ids], np.float32).reshape(-1)
    rows = pa.record_batch(
        {
            "bucket": pa.array([numbers[record] for record in ids], pa.int32()),
            "id": pa.array(ids, pa.string()),
            "features": pa.array([batch[record].features for record in ids], pa.int64()),
            "labels": pa.array([hash(batch[record][1:]) for record in ids], pa.int64()),
            "without": pa.array([batch[record].weight == 0 for record in ids]),
            "c0": pa.ListArray.from_arrays(np.arange(len(ids) + 1, dtype=np.int32) * PIXELS, flat),
            "c1": pa.array([[batch[record].label, -batch[record].label] for record in ids], pa.list_(pa.int64())),
            "c2": pa.array([batch[record].weight for record in ids], pa.float32()),
        }
    )
    folder = increment_name(name, 0 if previous is None else len(previous.increments))
    writer = IncrementWriter(store, folder, COLUMNS, (), ("tags", "w"), num_shards, previous)
    parts = [rows.slice(start, arrow_rows) for start in range(0, len(ids), arrow_rows)]
    reports = [IncrementReport.from_row(row) for report in writer(parts) for row in report.to_pylist()]
    groups = [TensorGroup(column.name, (column,)) for column in COLUMNS]
    planned = PreparedData(store, folder, (groups[0],), (groups[1],), (), SEED, test_fraction, "planned", {}, groups[2])
    increment = increment_of(planned, reports)
    increments = (increment,) if previous is None else (*previous.increments, increment)
    return GrowingData.of(name, increments, num_shards=num_shards, id_column="id")
