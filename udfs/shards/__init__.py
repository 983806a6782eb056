"""Prepared datasets: shards of plain Parquet in a store, the value that describes them, and their loading."""

from udfs.shards._groups import TensorColumn, TensorGroup
from udfs.shards._loading import Tensors, check_shard, load_rows, load_shard
from udfs.shards._prepared import FOLDER, SPLITS, PreparedData, Shard, ShardError, shard_path
from udfs.shards._writing import ShardReport, ShardWriter, decoded

__all__ = [
    "FOLDER",
    "SPLITS",
    "PreparedData",
    "Shard",
    "ShardError",
    "ShardReport",
    "ShardWriter",
    "TensorColumn",
    "TensorGroup",
    "Tensors",
    "check_shard",
    "decoded",
    "load_rows",
    "load_shard",
    "shard_path",
]
