"""Prepared datasets: shards of plain Parquet in a store, the value that describes them, and their loading."""

from udfs.shards._arrays import copy_column, group_array
from udfs.shards._groups import TensorColumn, TensorGroup
from udfs.shards._growing_data import GrowingData, increment_name, load_labels, load_prepared
from udfs.shards._growing_writer import IncrementReport, IncrementWriter, increment_of
from udfs.shards._increment import Changes, Increment
from udfs.shards._ledger import Ledger, write_table
from udfs.shards._loading import check_shard, load_rows, load_sample, load_shard, read_batches
from udfs.shards._prepared_data import DESCRIPTION, FOLDER, SPLITS, Part, PreparedData, ShardError, shard_path
from udfs.shards._row_view import RowView
from udfs.shards._series import Series
from udfs.shards._shard import Shard, Tensors
from udfs.shards._shard_assignment import HELD_OF, place_of
from udfs.shards._writing import ShardReport, ShardWriter, by_shard, decoded, encode, write_rows

__all__ = [
    "DESCRIPTION",
    "FOLDER",
    "HELD_OF",
    "SPLITS",
    "Changes",
    "GrowingData",
    "Increment",
    "IncrementReport",
    "IncrementWriter",
    "Ledger",
    "Part",
    "PreparedData",
    "RowView",
    "Series",
    "Shard",
    "ShardError",
    "ShardReport",
    "ShardWriter",
    "TensorColumn",
    "TensorGroup",
    "Tensors",
    "by_shard",
    "check_shard",
    "copy_column",
    "decoded",
    "encode",
    "group_array",
    "increment_name",
    "increment_of",
    "load_labels",
    "load_prepared",
    "load_rows",
    "load_sample",
    "load_shard",
    "place_of",
    "read_batches",
    "shard_path",
    "write_rows",
    "write_table",
]
