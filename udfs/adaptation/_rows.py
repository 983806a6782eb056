"""Rows of a shard with outputs of frozen layers as inputs, and their prefetched batches."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udfs.training import BatchWeights, batch_weights

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FeatureBatch", "FeatureRows", "batches"]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRows:
    """Lazy rows of a shard over all batches of growing data, as :class:`udfs.training.Rows`.

    ``inputs`` has the array-like rows of each of ``loads``, expressions of layers or of the network's inputs.
    ``bytes_per_second`` limits the rate of :func:`batches`.
    """

    loads: tuple[str, ...]
    inputs: tuple[Any, ...]
    labels: tuple[NDArray[Any], ...]
    rows: int
    weights: NDArray[np.float32] | None = None
    row_bytes: int = 0
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBatch:
    """Batch of rows in memory: inputs of a :class:`Trunk` by expression, and the seconds of reading in the thread."""

    inputs: dict[str, NDArray[Any]]
    labels: tuple[NDArray[Any], ...]
    weights: BatchWeights
    rows: int
    read_seconds: float = 0.0


def batches(data: FeatureRows, order: NDArray[np.int64], size: int) -> Iterator[FeatureBatch]:
    """Read rows in batches, while a thread reads the next batch.

    ``order`` lists the rows to read; the last batch may be shorter. Raise TrainerError if a weight is not positive.
    """
    starts = range(0, len(order), size)
    with ThreadPoolExecutor(1, "next-batch") as reader:
        pending = reader.submit(_read, data, order[:size]) if starts else None
        for start in starts:
            assert pending is not None  # there is one for each start
            batch = pending.result()
            after = order[start + size : start + 2 * size]
            pending = reader.submit(_read, data, after) if len(after) else None
            yield batch


def _read(data: FeatureRows, picked: NDArray[np.int64]) -> FeatureBatch:
    began = time.monotonic()
    inputs = {key: array[picked] for key, array in zip(data.loads, data.inputs, strict=True)}
    if data.bytes_per_second is not None:
        time.sleep(max(0.0, began + len(picked) * data.row_bytes / data.bytes_per_second - time.monotonic()))
    labels = tuple(array[picked] for array in data.labels)
    weights = batch_weights(data, picked, len(picked))
    return FeatureBatch(inputs, labels, weights, len(picked), time.monotonic() - began)
