"""A shard: its description, and its rows in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Shard", "Tensors"]


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of one partition.

    ``path`` is that of the Parquet file in the folder of the preparation, ``nbytes`` the size of the tensors in memory,
    and ``digest`` their hash, ``""`` for shards of releases without hashes. There is at least 1 row. ``lengths`` are
    the numbers of rows of its series, in order; ``None`` if its rows are no series.
    """

    split: str
    partition: int
    path: str
    rows: int
    nbytes: int
    digest: str = ""
    lengths: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Tensors:
    """Rows of a shard, in the order in which they were written.

    There is an array of shape ``(rows, *group.shape)`` for each group. Without ``weights`` all rows count equally.
    ``names`` are those of the inputs, where a reader states them. ``offsets`` are the first rows of the series,
    followed by the number of rows; ``None`` if the rows are no series.
    """

    inputs: tuple[NDArray[Any], ...]
    labels: tuple[NDArray[Any], ...]
    rows: int
    weights: NDArray[np.float32] | None = None
    names: tuple[str, ...] = ()
    offsets: NDArray[np.int64] | None = None
