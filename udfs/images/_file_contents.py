"""Contents of files that a column names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from udfs.arrow import NewColumns
from udfs.images._errors import ImageError
from udfs.images._file_reader import read

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FileContents"]


@dataclass(frozen=True, slots=True)
class FileContents:
    """Reader of the files that a column names, whose contents take its place. A :class:`udfs.arrow.BatchFunction`.

    Parameters
    ----------
    column : str
        Column of paths or URIs, as :func:`udfs.images.open_rgb` reads them.
    batch_size : int
        Number of files in memory at a time.

    Examples
    --------
    >>> batch = pa.RecordBatch.from_pydict({"path": ["/no/such/file.png", None]})
    >>> FileContents("path").open(1)(batch).reasons
    ['no such file', 'null']
    """

    column: str
    batch_size: int = 64

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of paths."""
        return (self.column,)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """The column of contents, under the same name."""
        return (pa.field(self.column, pa.binary()),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Return the reader."""
        del threads
        return self._read

    def _read(self, batch: pa.RecordBatch) -> NewColumns:
        contents: list[bytes | None] = []
        reasons: list[str | None] = []
        for path in batch.column(self.column).to_pylist():
            try:
                contents.append(None if path is None else read(path))
                reasons.append("null" if path is None else None)
            except ImageError as error:
                contents.append(None)
                reasons.append(str(error))
        return NewColumns.explained([pa.array(contents, pa.binary())], reasons)
