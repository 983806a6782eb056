"""Data for training: encode columns, shuffle once, write shards; texts as tokens; petastorm's datasets."""

from cerebro_spark.data._columns import choose_features
from cerebro_spark.data._increments import prepare_increment
from cerebro_spark.data._petastorm import petastorm_frame
from cerebro_spark.data._prepare import prepare
from cerebro_spark.data._shard_assignment import with_places
from cerebro_spark.data._tokenize import bio_classes, tokenize

__all__ = [
    "bio_classes",
    "choose_features",
    "petastorm_frame",
    "prepare",
    "prepare_increment",
    "tokenize",
    "with_places",
]
