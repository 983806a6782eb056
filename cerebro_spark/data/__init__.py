"""Data for training: choose and encode columns, shuffle once, write shards; petastorm's datasets as DataFrames."""

from cerebro_spark.data._columns import choose_features
from cerebro_spark.data._increments import prepare_increment
from cerebro_spark.data._petastorm import petastorm_frame
from cerebro_spark.data._prepare import prepare

__all__ = [
    "choose_features",
    "petastorm_frame",
    "prepare",
    "prepare_increment",
]
