"""Packed models of groups: Parquet files with the weights of each group and the network of each configuration."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MODELS_SCHEMA", "PackedModels"]

MODELS_SCHEMA = pa.schema([("key", pa.string()), ("configuration", pa.int32()), ("content", pa.binary())])
"""Columns of packed models: weights of the group ``key``, or the network of a configuration where it is null."""

# Row groups whose weights stay in memory.
_KEPT = 8


@dataclass(slots=True)
class PackedModels:
    """Models of groups in Parquet files.

    Parameters
    ----------
    urls : sequence of str
        Files, as Spark's ``inputFiles`` lists them.
    """

    urls: Sequence[str]
    index: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    """Configuration, file, row group and row of the weights of each key."""
    _networks: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _files: list[pq.ParquetFile] = field(default_factory=list)
    _contents: OrderedDict[tuple[int, int], pa.ChunkedArray] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        for number, url in enumerate(self.urls):
            folder, _, name = url.rpartition("/")
            file = pq.ParquetFile(Store.from_uri(folder).open_input(unquote(name)))
            self._files.append(file)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=["key", "configuration"])
                pairs = zip(table.column("key").to_pylist(), table.column("configuration").to_pylist(), strict=True)
                for row, (key, configuration) in enumerate(pairs):
                    if key is None:
                        self._networks[configuration] = (number, group, row)
                    else:
                        self.index[key] = (configuration, number, group, row)

    def weights(self, key: str) -> bytes:
        """Read the weights of a group."""
        return self._content(*self.index[key][1:])

    def network(self, configuration: int) -> bytes:
        """Read the network of a configuration."""
        return self._content(*self._networks[configuration])

    def _content(self, file: int, group: int, row: int) -> bytes:
        place = (file, group)
        if place not in self._contents:
            self._contents[place] = self._files[file].read_row_group(group, columns=["content"]).column("content")
            while len(self._contents) > _KEPT:
                self._contents.popitem(last=False)
        self._contents.move_to_end(place)
        content: bytes = self._contents[place][row].as_py()
        return content
