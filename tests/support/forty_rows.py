"""Prepared data of forty rows, for trials of a trainer on the driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cerebro_spark import Store
from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BACKEND", "prepared"]

BACKEND: Any = SimpleNamespace(memory_bytes=None)


def prepared(path: Path, samples: tuple[float, ...] = (0.0, 1.0), kind: str = "int64") -> PreparedData:
    """Forty rows of one input, whose first labels are 0 and 1."""
    x, y = TensorColumn("x", "float32"), TensorColumn("y", kind)
    groups = (TensorGroup("features", (x,), joined=True),), (TensorGroup("y", (y,)),)
    shard = Shard("train", 0, "train/shard-00000.parquet", rows=40, nbytes=320)
    data = PreparedData(Store.from_uri(str(path)), "d", *groups, (shard,), 0, 0.0, "f00", label_samples={"y": samples})
    with data.store.writing(*data.path(shard)) as file:
        labels = np.arange(40) % 2
        pq.write_table(pa.table({"x": np.linspace(-1, 1, 40, dtype="float32"), "y": labels.astype(kind)}), file)
    return data
