"""Digests of shards: of the numbers that a worker trains on, not of the bytes of a file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from udfs.shards._groups import TensorColumn

__all__ = ["ShardDigest"]

_BYTES = 16


class ShardDigest:
    """A hash of a shard's tensors, column by column, whatever row groups they lie in.

    What is hashed is what Parquet's reader gives, so that a flipped bit anywhere in a file shows: in its pages, in
    their headers, or in the footer.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from udfs.shards import TensorColumn
    >>> age = TensorColumn("age", "float32")
    >>> whole, parts = ShardDigest([age]), ShardDigest([age])
    >>> whole.update(age, pa.array([30, 70], pa.float32()))
    >>> for year in (30, 70):
    ...     parts.update(age, pa.array([year], pa.float32()))
    >>> whole.hexdigest() == parts.hexdigest()
    True
    """

    def __init__(self, columns: Iterable[TensorColumn]) -> None:
        self._columns = {column.name: hashlib.blake2b(digest_size=_BYTES) for column in columns}

    def update(self, column: TensorColumn, values: pa.Array) -> None:
        """Add the values of a column's next rows: numbers, or lists of numbers; without nulls."""
        flat = values.flatten() if column.shape else values
        self._columns[column.name].update(flat.to_numpy(zero_copy_only=True).data)

    def hexdigest(self) -> str:
        """Compute the hash of all columns, in the order of their names."""
        whole = hashlib.blake2b(digest_size=_BYTES)
        for name, column in sorted(self._columns.items()):
            whole.update(f"{name}\n{column.hexdigest()}\n".encode())
        return whole.hexdigest()
